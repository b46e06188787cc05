"""The discrete grid of the prediction experiments (paper, §5.1 and App. C.1.1)."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds.base import World, state_numbers

MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])  # up, down, left, right, as (row, column)
CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right")
# Rewards of the corners in the paper's four tasks (Table "Rewards at goal states"), also of the continuous grid.
CORNER_TASKS = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]], np.float32)


@dataclass(frozen=True)
class CornerGrid(World):
    """A square of `size`² cells with a goal in each corner.

    The agent starts in the center and moves one cell up, down, left or right; a move against the edge has no effect. Entering
    a corner ends the episode with that corner's reward; every other transition has reward 0.

    State and observation: the cell's number, row by row from the top left. Task: the rewards of the four corners, [4], in
    the order of `CORNERS`.
    """

    size: int = 5
    discount: float = 0.9
    num_actions = 4
    rewards_of_task = True

    def __post_init__(self) -> None:
        if self.size < 3 or self.size % 2 == 0:
            raise UserError(f"a corner grid needs an odd size of at least 3, so that it has a center; got {self.size}")
        if not 0.0 <= self.discount <= 1.0:
            raise UserError(f"the discount must be in [0, 1]; got {self.discount}")

    @property
    def num_states(self) -> int:
        return self.size**2

    @property
    def observation(self) -> ObsSpec:
        return state_numbers(self.num_states)

    @property
    def start(self) -> int:
        return self.num_states // 2

    @property
    def corners(self) -> np.ndarray:
        """[4] the cell of each corner."""
        edge = self.size - 1
        return np.array([0, edge, self.size * edge, self.num_states - 1])

    @property
    def successors(self) -> np.ndarray:
        """[states, actions] the next cell of each move."""
        cells = np.stack(np.divmod(np.arange(self.num_states), self.size), axis=-1)
        moved = np.clip(cells[:, None] + MOVES, 0, self.size - 1)
        return moved[..., 0] * self.size + moved[..., 1]

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del key, task
        start = jnp.int32(self.start)
        return start, start

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        del key
        cell = jnp.asarray(self.successors, jnp.int32)[state, action]
        at_corner = cell == jnp.asarray(self.corners)  # [4]
        ended = jnp.any(at_corner)
        reward = jnp.sum(jnp.where(at_corner, task, 0.0))
        return cell, TimeStep(cell, reward, jnp.where(ended, 0.0, self.discount), ended)
