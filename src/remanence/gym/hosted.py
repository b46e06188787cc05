"""Gymnasium environments for the engine: they run outside of the compiled program, which calls them at every step.

A *pool* holds the environments of several lanes; the program refers to a pool and its lanes by number. See `gym/pool.py`.
A pool is open while a process runs lanes, and its number is the smallest free one: it is a constant of the compiled program, and
programs are cached.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core import hostcall
from remanence.core.errors import UserError
from remanence.core.types import Key, ObsSpec, Task, TimeStep
from remanence.gym.contract import Notes
from remanence.gym.pool import EnvPool, EnvSource
from remanence.worlds.base import HostedWorld

_pools: dict[int, EnvPool] = {}
_open: dict[EnvSource, int] = {}
NO_LANE = -1


def _of(number: int) -> EnvPool:
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

    source: EnvSource
    num_actions: int
    observation: ObsSpec
    discount: float
    resets_itself = True
    row_by_row = True

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Holds a pool. What an environment raises is raised here: the compiled program passes on only its text."""
        number = next(n for n in itertools.count() if n not in _pools)
        _pools[number] = pool = EnvPool(self.source)
        _open[self.source] = number
        try:
            yield
        except Exception as error:
            failure = pool.failure
            if failure is None or isinstance(error, UserError):
                raise
            if not isinstance(failure, UserError):
                what = f"{type(failure).__name__}: {failure}"
                raise UserError(f"the environment failed: {what}") from failure
            raise failure from None
        finally:
            pool.close()
            del _pools[number], _open[self.source]

    def devices_for(self, lanes: int, available: int) -> int:
        """A number that divides the lanes: an empty row would need an environment too. Lanes that have parts of a vector
        environment start in order, which only one device guarantees.

        A device holds one of XLA's threads while its environments take a step, and there are as many threads as devices. If the
        environments run jax programs, one thread must be free for these: with none, they would wait forever. A single device
        has a thread of its own.
        """
        if self.source.parts > 1:
            return 1
        most = max(available - 1, 1) if self.source.use_jax else available
        return max(n for n in range(1, most + 1) if lanes % n == 0)

    @property
    def can_be_saved(self) -> bool:
        return bool(self.source.restored)

    @property
    def _pool(self) -> int:
        return _open.get(self.source, NO_LANE)

    def reset(self, key: Key, task: Task) -> tuple[HostState, Array]:
        del task
        asked = jnp.stack([jnp.int32(self._pool), env_seed(key)])
        lane, obs = hostcall.call("remanence_gym_begin", _begin, [_shape_dtype((), "int32"), self._view], asked)
        return HostState(lane, jnp.int32(0)), obs

    def step_active(
        self, key: Key, state: HostState, action: Array, task: Task, active: Array
    ) -> tuple[HostState, TimeStep]:
        del key, task
        asked = [jnp.int32(self._pool), state.lane, state.time, action, active]
        shape, dtype = self.observation.shape, self.observation.dtype
        views, outcome = hostcall.call(
            "remanence_gym_step",
            _step,
            [_shape_dtype((2, *shape), dtype), _shape_dtype((4,), "float32")],
            jnp.stack([jnp.asarray(one, jnp.int32) for one in asked]),
        )
        seen = TimeStep(
            views[0],
            reward=outcome[0],
            discount=outcome[1],
            last=outcome[2] > 0,
            reset_obs=views[1],
            completed=outcome[3] > 0,
        )
        return HostState(state.lane, state.time + 1), seen

    def save(self, states: HostState) -> dict[str, np.ndarray]:
        pool = _of(self._pool)
        return {
            f"{row}.{name}": array
            for row, lane in enumerate(np.asarray(states.lane).tolist())
            for name, array in pool.save(lane).items()
        }

    def load(self, states: HostState, saved: dict[str, np.ndarray]) -> HostState:
        pool, lanes = _of(self._pool), []
        for row in range(len(states.lane)):
            begins = f"{row}."
            arrays = {name.removeprefix(begins): one for name, one in saved.items() if name.startswith(begins)}
            lanes.append(pool.restore(arrays) if arrays else NO_LANE)
        return states._replace(lane=np.array(lanes, np.int32))

    def notes(self, states: HostState) -> list[Notes]:
        pool = _of(self._pool)
        return [pool.notes(lane) for lane in np.asarray(states.lane).tolist()]

    def drop(self, states: HostState) -> None:
        for lane in np.asarray(states.lane).tolist():
            _of(self._pool).leave(lane)

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
    with _of(asked[0, 0]) as pool:
        began = pool.begin(asked[:, 1].tolist())
    lanes.reshape(-1)[...] = [lane for lane, _ in began]
    obs.reshape(len(asked), -1)[...] = [first.ravel() for _, first in began]


def _step(asked: np.ndarray, views: np.ndarray, outcome: np.ndarray) -> None:
    """[lanes, (pool, lane, time, action, active)] -> [lanes, (obs, reset obs), *obs] and [lanes, 4]. Inactive lanes do not step."""
    rows = asked.reshape(-1, 5).tolist()
    views, outcome = views.reshape(len(rows), 2, -1), outcome.reshape(len(rows), 4)
    with _of(rows[0][0]) as pool:
        for row, (_, lane, time, action, active) in enumerate(rows):
            if not active:
                views[row], outcome[row] = 0, 0
                continue
            seen = pool.step(lane, time, action)
            views[row] = seen.obs.ravel()
            if seen.last:
                views[row, 1] = seen.reset_obs.ravel()
            numbers = outcome[row]  # one by one: half the time of a tuple
            numbers[0], numbers[1], numbers[2], numbers[3] = seen.reward, seen.discount, seen.last, seen.completed
