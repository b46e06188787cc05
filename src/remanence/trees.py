"""What is done to whole states, leaf by leaf."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def choose(condition: Array, yes: Any, no: Any) -> Any:
    """One of two states."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
