"""Loop bounds that all lanes share: the only value that passes between lanes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

LANES = "lanes"  # the name of the axis that `engine/lanes.py` maps over


def max_over_lanes(count: Array, active: Array | bool) -> Array:
    """The maximum of `count` over the active lanes that are mapped together; outside of the mapped loop, `count` if active, else 0.

    With one bound per lane, the compiler would select between old and new state for every lane in every iteration. The result of
    an inactive lane is discarded, so its count is ignored.
    """
    wanted = jnp.where(active, count, 0)
    try:
        return jax.lax.pmax(wanted, LANES)
    except NameError:  # not inside the mapped loop: a single lane, as in tests
        return wanted
