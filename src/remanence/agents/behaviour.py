"""How an agent turns values into actions."""

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
    """Every action equally likely, whatever the values: the policy evaluated in the paper's prediction experiments."""

    def behave(values: Array, hypers: Any, key: Key) -> Array:
        del values, hypers
        return randint(key, actions)

    return behave


def epsilon_greedy(epsilon: float) -> Behaviour:
    """A best action, any of them equally likely if several tie; with probability ε, any action at all."""
    if not 0.0 <= epsilon <= 1.0:
        raise UserError(f"epsilon must be in [0, 1]; got {epsilon}")

    def behave(values: Array, hypers: Any, key: Key) -> Array:
        del hypers
        k_explore, k_choose = jax.random.split(key)
        candidates = (values == jnp.max(values)) | (jax.random.uniform(k_explore) < epsilon)
        return _choose_among(k_choose, candidates)

    return behave


def _choose_among(key: Key, candidates: Array) -> Array:
    """The index of one of the candidates, [actions] bool, all equally likely; the last action if there are none (NaN)."""
    rank = randint(key, jnp.sum(candidates))
    return jnp.minimum(jnp.sum(jnp.cumsum(candidates) <= rank), candidates.shape[0] - 1).astype(jnp.int32)
