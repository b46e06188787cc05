"""The ring against a deque."""

from __future__ import annotations

from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax import Array

from remanence.agents import ring as rings
from remanence.agents.ring import Ring
from remanence.core.masking import LANES

append, read, size, overwritten = map(jax.jit, (rings.append, rings.read, rings.size, rings.overwritten))
EMPTY = "empty the ring"
EVENTS = st.lists(st.one_of(st.tuples(st.integers(1, 99), st.booleans()), st.just(EMPTY)), max_size=25)


def item(number: int) -> dict[str, np.ndarray]:
    """Items are pytrees: here a number and a pair."""
    return {"number": np.array(number, np.int32), "pair": np.array([number, -number], np.float32)}


def write_down(notes: tuple[Array, Array], item: dict[str, Array], valid: Array) -> tuple[Array, Array]:
    """An `update` that keeps a list of what it was shown."""
    items, length = notes
    return items.at[jnp.where(valid, length, items.shape[0])].set(item["number"], mode="drop"), length + valid


@jax.jit
def contents(ring: Ring) -> tuple[Array, Array]:
    return rings.fold(write_down, (jnp.zeros(rings.capacity(ring), jnp.int32), jnp.int32(0)), ring, True)


@given(capacity=st.sampled_from([1, 2, 5]), events=EVENTS)
def test_ring_is_a_deque(capacity: int, events: list[Any]) -> None:
    """Size, order, overwritten items, emptying, and items that are not real."""
    ring, model, dropped = rings.make_ring(item(0), capacity), deque(maxlen=capacity), 0
    for event in events:
        if event == EMPTY:
            ring, dropped = rings.emptied(ring), 0
            model.clear()
            continue
        number, valid = event
        ring = append(ring, item(number), valid)
        if valid:
            dropped += len(model) == capacity
            model.append(number)

    items, length = contents(ring)
    assert items[: int(length)].tolist() == list(model)
    assert int(size(ring)) == len(model)
    assert int(overwritten(ring)) == dropped
    for age, number in enumerate(model):
        kept = read(ring, age)
        assert int(kept["number"]) == number
        assert kept["pair"].tolist() == [number, -number]


def test_ring_takes_shape_and_type_of_its_example() -> None:
    ring = rings.make_ring({"a": jnp.zeros((2, 3), jnp.int8), "b": 1.0}, capacity=4)
    assert rings.capacity(ring) == 4
    assert ring.items["a"].shape == (5, 2, 3)  # one more: the slot for items that are not real
    assert ring.items["a"].dtype == jnp.int8
    assert ring.items["b"].dtype == jnp.float32


def test_not_real_items_leave_every_kept_slot_alone() -> None:
    ring = rings.make_ring(jnp.int32(0), capacity=3)
    for number in range(5):
        ring = append(ring, jnp.int32(number), True)
    after = append(ring, jnp.int32(77), False)
    np.testing.assert_array_equal(after.items[:3], ring.items[:3])
    assert int(after.count) == int(ring.count)


def test_each_lane_folds_its_own_items_only() -> None:
    """Mapped together, lanes with 0, 2 and 7 items (of 4 kept) read as long as the fullest, and nothing that is not theirs."""
    lanes = []
    for count in (0, 2, 7):
        ring = rings.make_ring(item(0), capacity=4)
        for number in range(1, count + 1):
            ring = append(ring, item(10 * count + number), True)
        lanes.append(ring)
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)

    items, lengths = jax.vmap(contents, axis_name=LANES)(together)
    assert lengths.tolist() == [0, 2, 4]
    assert items[1, :2].tolist() == [21, 22]
    assert items[2].tolist() == [74, 75, 76, 77]


def test_lanes_are_told_which_readings_are_not_theirs() -> None:
    """The shorter lane is read as often as the longer one; `valid` is what tells them apart."""

    def count_readings(count: Array, active: Array) -> tuple[Array, Array]:
        ring, none = Ring(jnp.zeros(6), count), (jnp.int32(0), jnp.int32(0))
        return rings.fold(lambda seen, _, valid: (seen[0] + 1, seen[1] + valid), none, ring, active)

    every_lane = jax.vmap(count_readings, axis_name=LANES)
    readings, valid = every_lane(jnp.array([1, 4]), jnp.array([True, True]))
    assert readings.tolist() == [4, 4]
    assert valid.tolist() == [1, 4]
    readings, _ = every_lane(jnp.array([1, 4]), jnp.array([True, False]))  # nobody waits for the inactive lane
    assert readings.tolist() == [1, 1]
