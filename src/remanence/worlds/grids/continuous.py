"""The continuous grid of the prediction experiments (paper, §5.1 and App. C.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds.base import World

MOVES = np.array([[0, 1], [0, -1], [-1, 0], [1, 0]])  # up, down, left, right, as (x, y) with y upwards
CORNERS = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])  # top-left, top-right, bottom-left, bottom-right


class Noise(NamedTuple):
    """The noise of one step."""

    shift: Array  # [2]


@dataclass(frozen=True)
class ContinuousGrid(World):
    """The unit square, with a goal region around each corner.

    The agent starts uniformly in the central square of side 0.1. An action moves it by 0.1 along an axis; uniform noise of
    ±0.01 is added to both coordinates, and the result is clipped to the square. A point within 0.1 of a corner in norm 1
    ends the episode with that corner's reward.

    State and observation: the point, [2]. Task: the rewards of the four corners, [4].
    """

    discount: float = 0.99
    stride: float = 0.1
    noise: float = 0.01
    goal_radius: float = 0.1
    start_halfwidth: float = 0.05
    num_actions = 4
    rewards_of_task = True

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((2,), "float32")

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del task
        point = jax.random.uniform(key, (2,), minval=0.5 - self.start_halfwidth, maxval=0.5 + self.start_halfwidth)
        return point, point

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        return self.apply(state, action, task, self.draw(key))

    def draw(self, key: Key) -> Noise:
        return Noise(jax.random.uniform(key, (2,), minval=-self.noise, maxval=self.noise))

    def apply(self, state: Array, action: Array, task: Array, noise: Noise) -> tuple[Array, TimeStep]:
        """The deterministic part of a step, given the noise."""
        moved = state + self.stride * jnp.asarray(MOVES, jnp.float32)[action] + noise.shift
        point = jnp.clip(moved, 0.0, 1.0)
        at_goal = self.goals_at(point)
        ended = jnp.any(at_goal)
        reward = jnp.sum(jnp.where(at_goal, task, 0.0))
        return point, TimeStep(point, reward, jnp.where(ended, 0.0, self.discount), ended)

    def goals_at(self, point: Array) -> Array:
        """[4] whether the point is inside the goal region of each corner."""
        return jnp.sum(jnp.abs(point - jnp.asarray(CORNERS, jnp.float32)), axis=-1) <= self.goal_radius

    def evaluation_points(self, per_side: int = 15) -> np.ndarray:
        """[points, 2] a regular lattice over the square, without the points inside goal regions (213 of 225 remain)."""
        side = np.linspace(0.0, 1.0, per_side)
        points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        distance = np.abs(points[:, None] - CORNERS).sum(axis=-1).min(axis=-1)
        return points[distance > self.goal_radius]
