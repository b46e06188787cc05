"""How an agent turns values into actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jax import Array

from remanence.random import pick
from remanence.types import Hypers, Key

Behaviour: TypeAlias = Callable[[Array, Hypers, Key], Array]  # (values [outputs], hypers, key) -> action []


def uniform(actions: int) -> Behaviour:
    """Every action equally likely, whatever the values: the policy evaluated in the paper's prediction experiments."""

    def behave(values: Array, hypers: Hypers, key: Key) -> Array:
        del values, hypers
        return pick(key, actions)

    return behave
