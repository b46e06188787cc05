"""Gymnasium environments for the engine: they run outside of the compiled program, which calls them at every step.

A *pool* holds the environments of several lanes; the program refers to a pool and its lanes by number. See `gym/pool.py`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core import hostcall
from remanence.core.errors import UserError
from remanence.core.types import Key, ObsSpec, Task, TimeStep
from remanence.worlds.base import HostedWorld


class HostStep(NamedTuple):
    """The result of one action, as numpy arrays and numbers."""

    obs: np.ndarray  # [*obs]  the next observation
    reward: float
    discount: float  # 0 at a termination
    last: bool
    completed: bool  # the episode ended, and not because of a task switch
    reset_obs: (
        np.ndarray
    )  # [*obs]  the observation to act on next: after `last`, the first one of a new episode; else obs


class Pool(Protocol):
    """The environments of several lanes."""

    def begin(self, seeds: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        """A lane's number and first observation, for each seed."""
        ...

    def step(self, lanes: Sequence[int], times: Sequence[int], actions: Sequence[int]) -> list[HostStep]:
        """One step of these lanes, which have taken `times` steps so far; raises if a step is repeated or skipped."""
        ...

    def leave(self, lane: int) -> None:
        """The lane is done."""
        ...


_pools: dict[int, Pool | None] = {}


@contextlib.contextmanager
def env_pool() -> Iterator[int]:
    """A number for a pool: the smallest free one, because it is a constant of the compiled program, and programs are cached."""
    number = next(n for n in itertools.count() if n not in _pools)
    _pools[number] = None
    try:
        yield number
    finally:
        del _pools[number]


def register_pool(number: int, pool: Pool) -> None:
    """Assigns a pool to the number."""
    _pools[number] = pool


def _of(number: int) -> Pool:
    pool = _pools.get(int(number))
    if pool is None:
        raise RuntimeError(f"there is no pool {number}")
    return pool


class HostState(NamedTuple):
    """The state of an environment, inside the compiled program."""

    lane: Array  # []
    time: Array  # [] steps taken


@dataclass(frozen=True)
class GymnasiumWorld(HostedWorld):
    """A pool of Gymnasium environments as a world. It resets itself, because the pool sets tasks and parameters before a reset.

    Every call happens once and in order, and only active lanes are stepped.
    """

    pool: int
    num_actions: int
    observation: ObsSpec
    discount: float
    resets_itself = True

    def reset(self, key: Key, task: Task) -> tuple[HostState, Array]:
        del task
        asked = jnp.stack([jnp.int32(self.pool), env_seed(key)])
        lane, obs = hostcall.call("remanence_gym_begin", _begin, [_shape_dtype((), "int32"), self._view], asked)
        return HostState(lane, jnp.int32(0)), obs

    def step_active(
        self, key: Key, state: HostState, action: Array, task: Task, active: Array
    ) -> tuple[HostState, TimeStep]:
        del key, task
        asked = [jnp.int32(self.pool), state.lane, state.time, action, active]
        obs, reset_obs, outcome = hostcall.call(
            "remanence_gym_step",
            _step,
            [self._view, self._view, _shape_dtype((4,), "float32")],
            jnp.stack([jnp.asarray(one, jnp.int32) for one in asked]),
        )
        seen = TimeStep(
            obs,
            reward=outcome[0],
            discount=outcome[1],
            last=outcome[2] > 0,
            reset_obs=reset_obs,
            completed=outcome[3] > 0,
        )
        return HostState(state.lane, state.time + 1), seen

    def save(self, states: HostState) -> dict[str, np.ndarray]:
        del states
        raise UserError("Gymnasium environments cannot be saved in a checkpoint: their state is not accessible")

    def load(self, states: HostState, saved: dict[str, np.ndarray]) -> HostState:
        del saved
        self.save(states)
        return states

    def drop(self, states: HostState) -> None:
        for lane in np.asarray(states.lane).tolist():
            _of(self.pool).leave(lane)

    @property
    def _view(self) -> jax.ShapeDtypeStruct:
        return _shape_dtype(self.observation.shape, self.observation.dtype)


def env_seed(key: Key) -> Array:
    """What the environment of a life is seeded with, from the key of its first reset."""
    return (jax.random.bits(key, dtype=jnp.uint32) >> 1).astype(jnp.int32)


def _shape_dtype(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _begin(asked: np.ndarray, lanes: np.ndarray, obs: np.ndarray) -> None:
    """[lanes, (pool, seed)] -> [lanes] their numbers, [lanes, *obs]."""
    asked = asked.reshape(-1, 2)
    began = _of(asked[0, 0]).begin(asked[:, 1].tolist())
    lanes.reshape(-1)[...] = [lane for lane, _ in began]
    obs.reshape(len(asked), -1)[...] = [first.ravel() for _, first in began]


def _step(asked: np.ndarray, obs: np.ndarray, reset_obs: np.ndarray, outcome: np.ndarray) -> None:
    """[lanes, (pool, lane, time, action, active)] -> the outcome; inactive lanes are not stepped."""
    asked = asked.reshape(-1, 5)
    obs, reset_obs, outcome = (output.reshape(len(asked), -1) for output in (obs, reset_obs, outcome))
    rows = asked[:, 4].nonzero()[0].tolist()
    if len(rows) < len(asked):
        for output in (obs, reset_obs, outcome):
            output[...] = 0
    if not rows:
        return
    _, lanes, times, actions, _ = asked[rows].T.tolist()
    for row, seen in zip(rows, _of(asked[0, 0]).step(lanes, times, actions), strict=True):
        obs[row], reset_obs[row] = seen.obs.ravel(), seen.reset_obs.ravel()
        outcome[row] = seen.reward, seen.discount, seen.last, seen.completed
