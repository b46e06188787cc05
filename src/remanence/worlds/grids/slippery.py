"""The slippery grid of the tabular control experiments (paper, §5.2 and §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds.base import World, state_numbers

MOVES = np.array([[0, 1], [0, -1], [-1, 0], [1, 0]])  # up, down, left, right, as (x, y) with y upwards
SIDEWAYS = np.array([[2, 3], [2, 3], [0, 1], [0, 1]])  # the two actions perpendicular to each
SWAPPED_GOALS = np.array([[1, -1], [-1, 1]], np.float32)  # rewards of the goals in the paper's two tasks (§5.2)


class Slip(NamedTuple):
    """The random number of one step."""

    u: Array  # [] uniform in [0, 1): below the slip probability, the action is replaced by a perpendicular one


@dataclass(frozen=True)
class SlipperyGrid(World):
    """A rectangle of cells with walls and two goals that pay opposite rewards.

    The agent starts in the bottom left corner. An action has the intended effect with probability 1 − slip; otherwise it is
    replaced by one of the two perpendicular actions, each equally likely. A move into a wall or over the edge has no effect.
    Entering a goal ends the episode with that goal's reward; every other transition has reward 0.

    State and observation: the cell's number, x + width · y, from the bottom left. Task: the rewards of the two goals, [2].
    """

    width: int = 6
    height: int = 6
    walls: tuple[tuple[int, int], ...] = ((1, 2), (1, 3), (2, 3))
    start: tuple[int, int] = (0, 0)
    goals: tuple[tuple[int, int], ...] = ((5, 5), (5, 4))
    slip: float = 0.1
    discount: float = 0.95
    num_actions = 4
    rewards_of_task = True

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise UserError(f"a grid needs at least one cell; got {self.width} by {self.height}")
        if not 0.0 <= self.slip <= 1.0:
            raise UserError(f"the slip probability must be in [0, 1]; got {self.slip}")
        for x, y in (self.start, *self.goals, *self.walls):
            if not (0 <= x < self.width and 0 <= y < self.height):
                raise UserError(f"cell ({x}, {y}) lies outside a grid of {self.width} by {self.height}")
        if {self.start, *self.goals} & set(self.walls) or self.start in self.goals:
            raise UserError("the start, the goals and the walls of a grid must be different cells")

    @property
    def num_states(self) -> int:
        return self.width * self.height

    @property
    def observation(self) -> ObsSpec:
        return state_numbers(self.num_states)

    def cell(self, place: tuple[int, int]) -> int:
        """The number of a cell."""
        return place[0] + self.width * place[1]

    @property
    def successors(self) -> np.ndarray:
        """[states, directions] the next cell of a move in each direction."""
        table = np.zeros((self.num_states, self.num_actions), np.int32)
        for state in range(self.num_states):
            y, x = divmod(state, self.width)
            for direction, (dx, dy) in enumerate(MOVES):
                place = (int(np.clip(x + dx, 0, self.width - 1)), int(np.clip(y + dy, 0, self.height - 1)))
                table[state, direction] = state if place in self.walls else self.cell(place)
        return table

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del key, task
        start = jnp.int32(self.cell(self.start))
        return start, start

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        return self.apply(state, action, task, self.draw(key))

    def draw(self, key: Key) -> Slip:
        return Slip(jax.random.uniform(key))

    def apply(self, state: Array, action: Array, task: Array, slip: Slip) -> tuple[Array, TimeStep]:
        """The deterministic part of a step, given the draw."""
        outcome = (slip.u < self.slip).astype(jnp.int32) + (slip.u < self.slip / 2)  # 0 as intended, 1 and 2 sideways
        cell = jnp.asarray(self._led_to)[state, action, outcome]
        at_goal = cell == np.array([self.cell(goal) for goal in self.goals])
        ended = jnp.any(at_goal)
        reward = jnp.sum(jnp.where(at_goal, task, 0.0))
        return cell, TimeStep(cell, reward, jnp.where(ended, 0.0, self.discount), ended)

    @property
    def _led_to(self) -> np.ndarray:
        """[states, actions, outcomes] the next cell: as intended, or of either perpendicular action."""
        directions = np.concatenate([np.arange(self.num_actions)[:, None], SIDEWAYS], axis=1)
        return self.successors[:, directions]

    def dynamics(self, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P [states, actions, states], zero on termination, and the expected reward r [tasks, states, actions]."""
        chances = (1 - self.slip, self.slip / 2, self.slip / 2)
        goals = [self.cell(goal) for goal in self.goals]
        transitions = np.zeros((self.num_states, self.num_actions, self.num_states))
        for outcome, chance in enumerate(chances):
            for action in range(self.num_actions):
                np.add.at(
                    transitions[:, action], (np.arange(self.num_states), self._led_to[:, action, outcome]), chance
                )
        transitions[goals] = 0.0
        rewards = np.einsum("sag,tg->tsa", transitions[:, :, goals], np.asarray(tasks, np.float64))
        return transitions, rewards
