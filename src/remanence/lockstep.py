"""What one lane may know of the others: how long the longest of them will be busy, and nothing else."""

from __future__ import annotations

import jax
from jax import Array

LANES = "lanes"  # the name of the axis that `lanes.py` maps over


def longest(count: Array) -> Array:
    """The largest `count` of all lanes mapped together; `count` itself for a lane on its own.

    A loop bound that all lanes share stays an ordinary loop. One bound per lane would make the compiler select between
    old and new state for every lane at every turn.
    """
    try:
        return jax.lax.pmax(count, LANES)
    except NameError:  # not inside the mapped loop: a single lane, as in tests or at a prompt
        return count
