"""What one lane may know of the others: how long the slowest of them is busy, and nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

LANES = "lanes"  # the name of the axis that `engine/lanes.py` maps over


def max_over_lanes(count: Array, active: Array | bool) -> Array:
    """The largest `count` of all active lanes that are mapped together; `count` itself for a single active lane.

    A loop bound that all lanes share stays an ordinary loop. One bound per lane would make the compiler select between
    old and new state for every lane in every iteration. What an inactive lane computes is discarded, so the others do not wait
    for it.
    """
    wanted = jnp.where(active, count, 0)
    try:
        return jax.lax.pmax(wanted, LANES)
    except NameError:  # not inside the mapped loop: a single lane, as in tests or at a prompt
        return wanted
