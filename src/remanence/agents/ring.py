"""A buffer of the most recent items, as pure functions over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.core.masking import max_over_lanes


class Ring(NamedTuple):
    """The last `capacity` items, in one array per leaf.

    There is one slot more than the capacity, for items that are not valid. Because every call writes to some slot, the compiler
    can update the arrays in place.
    """

    items: Any  # leaves [capacity + 1, ...]
    count: Array  # [] items appended since the ring was last emptied


def make_ring(example: Any, capacity: int) -> Ring:
    """An empty ring for items with the shapes and dtypes of `example`."""
    items = jax.tree.map(lambda leaf: jnp.zeros((capacity + 1, *jnp.shape(leaf)), jnp.asarray(leaf).dtype), example)
    return Ring(items, jnp.int32(0))


def capacity(ring: Ring) -> int:
    return jax.tree.leaves(ring.items)[0].shape[0] - 1


def append(ring: Ring, item: Any, valid: Array) -> Ring:
    """Adds `item` if `valid`; it overwrites the oldest one if the ring is full."""
    slot = jnp.where(valid, ring.count % capacity(ring), capacity(ring))
    items = jax.tree.map(lambda leaf, value: leaf.at[slot].set(jnp.asarray(value, leaf.dtype)), ring.items, item)
    return Ring(items, ring.count + valid)


def size(ring: Ring) -> Array:
    return jnp.minimum(ring.count, capacity(ring))


def overwritten(ring: Ring) -> Array:
    """The number of items overwritten because the ring was full."""
    return ring.count - size(ring)


def read(ring: Ring, age: Array) -> Any:
    """The item of a given age: 0 is the oldest one stored."""
    slot = (overwritten(ring) + age) % capacity(ring)
    return jax.tree.map(lambda leaf: leaf[slot], ring.items)


def fold(update: Callable[[Any, Any, Array], Any], start: Any, ring: Ring, active: Array | bool) -> Any:
    """Folds over the ring, oldest item first: `state = update(state, item, valid)` for each.

    Lanes hold different numbers of items. All iterate as often as the fullest active lane, and `update` must not change its state
    if `valid` is False: selecting between old and new state for each item would copy entire tables.
    """

    def body(age: Array, state: Any) -> Any:
        return update(state, read(ring, age), age < size(ring))

    return jax.lax.fori_loop(0, max_over_lanes(size(ring), active), body, start)


def emptied(ring: Ring) -> Ring:
    return ring._replace(count=jnp.int32(0))
