"""Environments that only exist outside of the compiled program, for the engine: the loop calls out to them at every step.

A *company* keeps the environments of some lanes; the program knows a company and its lanes by number. Who keeps company with
Gymnasium environments: `own/player.py`.
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
from remanence.core.masking import is_active
from remanence.core.types import Key, Task, TimeStep


class HostStep(NamedTuple):
    """What became of one action, as numpy arrays and numbers."""

    obs: np.ndarray  # [*obs]  where it led
    reward: float
    discount: float  # 0 at a true end
    last: bool
    completed: bool  # the episode ended, and was not cut off by a task switch
    begun: np.ndarray  # [*obs]  what to act on next: the first observation of the next episode where one has ended


class EnvPool_(Protocol):
    """The environments of some lanes."""

    def begin(self, seeds: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        """A lane's number and first observation, for each seed."""
        ...

    def step(self, lanes: Sequence[int], times: Sequence[int], actions: Sequence[int]) -> list[HostStep]:
        """One step of these lanes, which have taken so many before; one that comes twice or too early is an error."""
        ...

    def leave(self, lane: int) -> None:
        """The lane is over."""
        ...


_companies: dict[int, EnvPool_ | None] = {}


@contextlib.contextmanager
def env_pool() -> Iterator[int]:
    """A number for companies. The smallest that is free: a number is part of a program, and programs are worth keeping."""
    number = next(n for n in itertools.count() if n not in _companies)
    _companies[number] = None
    try:
        yield number
    finally:
        del _companies[number]


def register_pool(number: int, pool: EnvPool_) -> None:
    """From now on, this is the company of that number."""
    _companies[number] = pool


def _of(number: int) -> EnvPool_:
    pool = _companies.get(int(number))
    if pool is None:
        raise RuntimeError(f"there is no company {number}")
    return pool


class HostState(NamedTuple):
    """What a lane carries of its world."""

    lane: Array  # []
    time: Array  # [] steps taken


@dataclass(frozen=True)
class GymnasiumWorld:
    """Begins its episodes itself: only the environment knows when a task or parameter must be changed before.

    Every call happens once and in order, and only lanes that take part move.
    """

    pool: int
    num_actions: int
    shape: tuple[int, ...]
    dtype: str
    discount: float
    resets_itself: bool = True

    @property
    def example_obs(self) -> np.ndarray:
        return np.zeros(self.shape, self.dtype)

    def reset(self, key: Key, task: Task) -> tuple[HostState, Array]:
        del task
        seed = (jax.random.bits(key, dtype=jnp.uint32) >> 1).astype(jnp.int32)  # what environments are seeded with
        asked = jnp.stack([jnp.int32(self.pool), seed])
        lane, obs = hostcall.call("remanence_own_begin", _begin, [_form((), "int32"), self._view], asked)
        return HostState(lane, jnp.int32(0)), obs

    def step(self, key: Key, state: HostState, action: Array, task: Task) -> tuple[HostState, TimeStep]:
        del key, task
        asked = [jnp.int32(self.pool), state.lane, state.time, action, is_active()]
        obs, begun, facts = hostcall.call(
            "remanence_own_step",
            _step,
            [self._view, self._view, _form((4,), "float32")],
            jnp.stack([jnp.asarray(one, jnp.int32) for one in asked]),
        )
        seen = TimeStep(obs, reward=facts[0], discount=facts[1], last=facts[2] > 0, begun=begun, completed=facts[3] > 0)
        return HostState(state.lane, state.time + 1), seen

    def save(self, states: HostState) -> dict[str, np.ndarray]:
        del states
        raise UserError("an environment of your own cannot be kept in a checkpoint: nobody but itself knows its state")

    def load(self, states: HostState, saved: dict[str, np.ndarray]) -> HostState:
        del saved
        self.save(states)
        return states

    def drop(self, states: HostState) -> None:
        for lane in np.asarray(states.lane).tolist():
            _of(self.pool).leave(lane)

    @property
    def _view(self) -> jax.ShapeDtypeStruct:
        return _form(self.shape, self.dtype)


def _form(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _begin(asked: np.ndarray, lanes: np.ndarray, obs: np.ndarray) -> None:
    """[lanes, (company, seed)] -> [lanes] their numbers, [lanes, *obs]."""
    asked = asked.reshape(-1, 2)
    began = _of(asked[0, 0]).begin(asked[:, 1].tolist())
    lanes.reshape(-1)[...] = [lane for lane, _ in began]
    obs.reshape(len(asked), -1)[...] = [first.ravel() for _, first in began]


def _step(asked: np.ndarray, obs: np.ndarray, begun: np.ndarray, facts: np.ndarray) -> None:
    """[lanes, (company, lane, time, action, takes part)] -> what is seen; lanes that do not take part stay where they are."""
    asked = asked.reshape(-1, 5)
    obs, begun, facts = (told.reshape(len(asked), -1) for told in (obs, begun, facts))
    rows = asked[:, 4].nonzero()[0].tolist()
    if len(rows) < len(asked):
        for told in (obs, begun, facts):
            told[...] = 0
    if not rows:
        return
    _, lanes, times, actions, _ = asked[rows].T.tolist()
    for row, seen in zip(rows, _of(asked[0, 0]).step(lanes, times, actions), strict=True):
        obs[row], begun[row] = seen.obs.ravel(), seen.begun.ravel()
        facts[row] = seen.reward, seen.discount, seen.last, seen.completed
