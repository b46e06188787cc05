"""Behaviour policies: from values to actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from remanence.core.errors import UserError
from remanence.core.prng import randint
from remanence.core.types import Key

Behaviour: TypeAlias = Callable[[Array, Any, Key], Array]  # (values [outputs], hypers, key) -> action []


def uniform(actions: int) -> Behaviour:
    """Uniformly random actions: the policy that the paper's prediction experiments evaluate."""

    def behave(values: Array, hypers: Any, key: Key) -> Array:
        del values, hypers
        return randint(key, actions)

    return behave


def epsilon_greedy(epsilon: float) -> Behaviour:
    """A greedy action, ties broken uniformly; with probability ε, a uniformly random action."""
    if not 0.0 <= epsilon <= 1.0:
        raise UserError(f"epsilon must be in [0, 1]; got {epsilon}")

    def behave(values: Array, hypers: Any, key: Key) -> Array:
        del hypers
        k_explore, k_choose = jax.random.split(key)
        candidates = (values == jnp.max(values)) | (jax.random.uniform(k_explore) < epsilon)
        return _choose_among(k_choose, candidates)

    return behave


def _choose_among(key: Key, candidates: Array) -> Array:
    """The index of a uniformly drawn candidate, [actions] bool; the last action if there is none (NaN)."""
    rank = randint(key, jnp.sum(candidates))
    return jnp.minimum(jnp.sum(jnp.cumsum(candidates) <= rank), candidates.shape[0] - 1).astype(jnp.int32)
