"""Behaviour policies: from values to actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from remanence.core.describe import later
from remanence.core.errors import UserError, calling
from remanence.core.prng import randint
from remanence.core.types import Key

Schedule: TypeAlias = Callable[..., Any]  # step [] -> number []: any schedule of optax
LAST_STEP = 2**31 - 1  # of a policy that no longer counts: the end of every schedule


class Behaviour(Protocol):
    """A behaviour policy. `step` [] is the number of steps that the agent has learned from; tables do not count them."""

    def __call__(self, values: Array, hypers: Any, key: Key, step: Array | int = LAST_STEP) -> Array:
        """values [outputs] -> action []"""
        ...


@dataclass(frozen=True)
class Linear:
    """A number that changes linearly over the first steps of a life, then stays: `epsilon=Linear(1.0, 0.05, 10_000)`."""

    start: float
    end: float
    steps: int
    after: int = later(0)
    """steps at `start` before it begins to change"""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError(f"a schedule needs at least one step; got {self}")
        if self.after < 0:
            raise UserError(f"a schedule begins to change after 0 or more steps; got {self}")

    def __call__(self, step: Array | int) -> Array:
        return self.start + (self.end - self.start) * jnp.clip((step - self.after) / self.steps, 0.0, 1.0)


def uniform(actions: int) -> Behaviour:
    """Uniformly random actions: the policy that the paper's prediction experiments evaluate."""

    def behave(values: Array, hypers: Any, key: Key, step: Array | int = LAST_STEP) -> Array:
        del values, hypers, step
        return randint(key, actions)

    return behave


def epsilon_greedy(epsilon: float | Schedule) -> Behaviour:
    """A greedy action, ties broken uniformly; with probability ε, a uniformly random action. ε may be a schedule."""
    schedule = epsilon if callable(epsilon) else lambda _: epsilon
    for step in (0, LAST_STEP):
        number = calling("the schedule of epsilon", schedule, step)
        if not 0.0 <= float(number) <= 1.0:
            raise UserError(f"epsilon must be in [0, 1]; got {epsilon}")

    def behave(values: Array, hypers: Any, key: Key, step: Array | int = LAST_STEP) -> Array:
        del hypers
        k_explore, k_choose = jax.random.split(key)
        candidates = (values == jnp.max(values)) | (jax.random.uniform(k_explore) < schedule(step))
        return _choose_among(k_choose, candidates)

    return behave


def _choose_among(key: Key, candidates: Array) -> Array:
    """The index of a uniformly drawn candidate, [actions] bool; the first action if there is none (NaN)."""
    rank = randint(key, jnp.sum(candidates))  # -1 if there is none
    return jnp.sum(jnp.cumsum(candidates) <= rank).astype(jnp.int32)
