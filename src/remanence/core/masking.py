"""What one lane may know of the others: how long the longest of them will be busy, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import Array

LANES = "lanes"  # the name of the axis that `lanes.py` maps over

_active_masks: list[Array] = []


@contextlib.contextmanager
def active_mask(lane_does: Array) -> Iterator[None]:
    """While this lasts, lanes for which `lane_does` is False are not waited for: what they compute is thrown away."""
    _active_masks.append(lane_does)
    try:
        yield
    finally:
        _active_masks.pop()


def is_active() -> Array:
    """Whether this lane takes part in what is being done."""
    return _active_masks[-1] if _active_masks else jnp.bool_(True)


def max_over_lanes(count: Array) -> Array:
    """The largest `count` of all lanes mapped together that take part; `count` itself for a lane on its own.

    A loop bound that all lanes share stays an ordinary loop. One bound per lane would make the compiler select between
    old and new state for every lane at every turn.
    """
    wanted = jnp.where(_active_masks[-1], count, 0) if _active_masks else count
    try:
        return jax.lax.pmax(wanted, LANES)
    except NameError:  # not inside the mapped loop: a single lane, as in tests or at a prompt
        return wanted
