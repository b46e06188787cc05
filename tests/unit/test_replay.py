"""Replay against lists: packing, stacking over episodes and over the edge of the ring, sampling."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remanence.agents import ring as rings
from remanence.agents.replay import IMPLICIT, SEPARATE, Frame, Replay, codec, draw, draw_distinct
from remanence.core.errors import UserError
from remanence.core.prng import make_key

CAPACITY, SHAPE = 7, (2, 3)


class Compiled(Replay):
    """A replay buffer whose functions are compiled once."""

    add = jax.jit(Replay.add, static_argnums=0)
    read = jax.jit(Replay.read, static_argnums=0)
    sample = jax.jit(Replay.sample, static_argnums=(0, 3))


@cache
def memory(frames: int, dtype: type, capacity: int, next_obs_storage: str, repeat_first: bool) -> Replay:
    """One buffer for all examples."""
    return Compiled(
        np.zeros(SHAPE, dtype),
        {"number": np.int32(0)},
        capacity,
        frames,
        next_obs_storage=next_obs_storage,
        cached=np.float32(0),
        repeat_first=repeat_first,
    )


def filled(
    frames: int,
    lengths: list[int],
    dtype: type,
    capacity: int = CAPACITY,
    next_obs_storage: str = SEPARATE,
    cut: bool = False,
    repeat_first: bool = False,
):
    """A ring after episodes of these lengths, and what a list would hold: (stack, next stack, number, last) of each transition."""
    rng = np.random.default_rng(sum(lengths))
    replay = memory(frames, dtype, capacity, next_obs_storage, repeat_first)
    ring, boundaries_known, number = replay.begin(), [], 0
    for length in lengths:
        seen = [rng.integers(0, 2, SHAPE).astype(dtype) for _ in range(length + 1)]
        blank = [seen[0] if repeat_first else np.zeros(SHAPE, dtype)] * (frames - 1)
        for t in range(length):
            history, last = (blank + seen)[t : t + frames + 1], t == length - 1
            boundaries_known.append((history[:-1], history[1:], number, last))
            now, then = (Frame(jnp.asarray(seen[t + i]), jnp.int32(t + i), jnp.float32(number + i / 2)) for i in (0, 1))
            ring = replay.add(ring, now, then, {"number": number}, jnp.bool_(last and cut), jnp.bool_(True))
            number += 1
    return replay, ring, boundaries_known[-capacity:]


@given(
    frames=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    dtype=st.sampled_from([bool, np.float32]),
)
@settings(max_examples=30, deadline=None)
def test_transitions_come_back_as_they_were(frames: int, lengths: list[int], dtype: type) -> None:
    """All of them, oldest first. Frames from before the episode are zero. So are those that the ring has lost, and that is told."""
    replay, ring, boundaries_known = filled(frames, lengths, dtype)
    kept_now = len(boundaries_known)
    read = jax.tree.map(lambda leaf: np.asarray(leaf)[:kept_now], replay.read(ring, jnp.arange(CAPACITY)))
    assert read.extras["number"].tolist() == [number for _, _, number, _ in boundaries_known]
    before = [t for length in lengths for t in range(length)][-CAPACITY:]
    assert read.valid.tolist() == [min(t, frames - 1) <= age for age, t in enumerate(before)]
    for age, (stack, next_obs_storage, number, _) in enumerate(boundaries_known):
        kept = [frame if frames - 1 - i <= age else np.zeros_like(frame) for i, frame in enumerate(stack)]
        expected = np.concatenate(kept, axis=-1)
        np.testing.assert_array_equal(np.asarray(read.obs[age]), expected)
        kept_next = [*kept[1:], next_obs_storage[-1]]
        np.testing.assert_array_equal(np.asarray(read.next_obs[age]), np.concatenate(kept_next, axis=-1))
        assert (read.cached[age], read.next_cached[age]) == (number, number + 0.5)


@given(
    frames=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    cut=st.booleans(),
    repeat_first=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_a_chain_tells_the_same(frames: int, lengths: list[int], cut: bool, repeat_first: bool) -> None:
    """What is drawn is what was noted, next states included, except where an episode is over: it ended, so that nothing
    depends on the next state, or it was cut off, and the transition says that it is not whole."""
    replay, ring, boundaries_known = filled(
        frames, lengths, bool, next_obs_storage=IMPLICIT, cut=cut, repeat_first=repeat_first
    )
    sample = jax.tree.map(np.asarray, replay.sample(ring, make_key(5), 300))
    index_rows = {number: (stack, next_obs_storage, last) for stack, next_obs_storage, number, last in boundaries_known}
    full = sum(lengths) > CAPACITY
    assert set(sample.extras["number"].tolist()) == set(sorted(index_rows)[frames - 1 if full else 0 :])
    newest = max(index_rows)
    for i, number in enumerate(sample.extras["number"].tolist()):
        stack, next_obs_storage, last = index_rows[number]
        np.testing.assert_array_equal(sample.obs[i], np.concatenate(stack, axis=-1))
        assert sample.valid[i] == (not (last and cut))
        assert sample.cached[i] == number
        if not last or number == newest:
            np.testing.assert_array_equal(sample.next_obs[i], np.concatenate(next_obs_storage, axis=-1))
            assert sample.next_cached[i] == (number + 0.5 if number == newest else number + 1)


@pytest.mark.parametrize("next_obs_storage", [SEPARATE, IMPLICIT])
def test_what_is_known_of_states_is_computed_anew(next_obs_storage: str) -> None:
    """Of every state that can be drawn, as such or as the next one."""
    replay, ring, boundaries_known = filled(1, [5, 6], bool, next_obs_storage=next_obs_storage)
    fresh = replay.refresh(ring, lambda obs: jnp.sum(obs * 2.0, axis=(1, 2)), 4, True)
    read = replay.read(fresh, jnp.arange(1, len(boundaries_known)))
    for cached, obs in ((read.cached, read.obs), (read.next_cached, read.next_obs)):
        np.testing.assert_array_equal(cached, 2.0 * np.asarray(obs).sum(axis=(1, 2)))


def test_what_is_not_real_leaves_no_trace() -> None:
    replay, ring, _ = filled(1, [3], bool)
    other = Frame(jnp.ones(SHAPE, bool), jnp.int32(0), jnp.float32(0))
    same = replay.add(ring, other, other, {"number": 9}, jnp.bool_(False), jnp.bool_(False))
    np.testing.assert_array_equal(replay.read(same, jnp.arange(3)).obs, replay.read(ring, jnp.arange(3)).obs)
    assert int(rings.size(same)) == 3


def test_bits_are_packed() -> None:
    """A MinAtar frame takes 88 bytes, one of a room 63; numbers stay as they are."""
    for shape, size in (((10, 10, 7), 88), ((5, 5, 20), 63)):
        kept = codec(np.zeros(shape, bool))
        assert (kept.example.shape, kept.example.dtype) == ((size,), jnp.uint8)
        frame = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
        packed = kept.pack(jnp.asarray(frame))
        np.testing.assert_array_equal(kept.unpack(jnp.stack([packed, packed]))[1], frame)
    assert codec(np.int16(3)).example.dtype == jnp.int16


@pytest.mark.parametrize("function", [draw, draw_distinct])
def test_draws_are_uniform(function) -> None:
    """20 000 batches of 3 out of 5: each number, and for distinct ones each of the 10 sets, within 4 standard deviations."""
    keys = jax.vmap(make_key)(jnp.arange(20_000))
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: function(key, jnp.int32(5), 3)))(keys))
    assert drawn.min() == 0
    assert drawn.max() == 4
    counts = np.bincount(drawn.ravel(), minlength=5)
    np.testing.assert_allclose(counts, 12_000, atol=4 * np.sqrt(60_000 * 0.2 * 0.8))
    if function is draw_distinct:
        sets, times = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
        assert all(len(set(one)) == 3 for one in sets.tolist())
        assert len(sets) == 10
        np.testing.assert_allclose(times, 2000, atol=4 * np.sqrt(20_000 * 0.1 * 0.9))
    else:
        repeated = np.mean([len(set(one)) < 3 for one in drawn.tolist()])
        assert repeated == pytest.approx(1 - 0.8 * 0.6, abs=0.02)


@pytest.mark.parametrize("next_obs_storage", [SEPARATE, IMPLICIT])
def test_a_memory_emptied_in_the_middle_of_an_episode_knows_what_it_lacks(next_obs_storage: str) -> None:
    """Of stacks of three frames, the first two after the emptying are not whole: their frames were there, and are gone."""
    replay = Compiled(np.zeros(1, bool), {"number": np.int32(0)}, CAPACITY, 3, next_obs_storage=next_obs_storage)
    ring = replay.begin()
    for t in range(9):
        if t == 4:
            ring = rings.emptied(ring)
        now, then = (Frame(jnp.array([True]), jnp.int32(t + i)) for i in (0, 1))
        ring = replay.add(ring, now, then, {"number": t}, jnp.bool_(False), jnp.bool_(True))
    read = replay.read(ring, jnp.arange(5))
    assert read.extras["number"].tolist() == [4, 5, 6, 7, 8]
    assert read.valid.tolist() == [False, False, True, True, True]
    assert read.obs.sum(axis=1).tolist() == [1, 2, 3, 3, 3]


def test_samples_come_from_what_is_there() -> None:
    replay, ring, boundaries_known = filled(2, [3, 4, 4], bool)
    sample = replay.sample(ring, make_key(3), 200)
    assert set(sample.extras["number"].tolist()) == {
        number for _, _, number, _ in boundaries_known[1:]
    }  # the oldest lacks a frame
    emptied = rings.emptied(ring)
    assert int(rings.size(emptied)) == 0
    assert replay.sample(emptied, make_key(3), 4).slots.tolist() == [0] * 4  # nothing to draw: nobody may use it


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((np.zeros(3), {}, 0), "at least one transition"),
        ((np.zeros(3), {}, 2**31 - 1), "fewer than 2,147,483,647 transitions"),
        ((np.zeros(3), {}, 5, 0), "at least one frame"),
        ((np.int16(0), {}, 5, 2), "cannot be stacked"),
        ((np.zeros(3), {}, 5, 1, True, "later"), "unknown next_obs_storage"),
    ],
)
def test_bad_memories_are_refused(arguments: tuple, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Replay(*arguments)


def test_the_smallest_and_the_largest_memory_are_possible() -> None:
    assert [Replay(np.zeros(3), {}, capacity).capacity for capacity in (1, 2**31 - 2)] == [1, 2**31 - 2]


def test_observations_that_are_single_numbers_can_be_stored_but_not_stacked() -> None:
    extras = {"number": np.int32(0)}
    Replay(np.int32(0), extras, capacity=1, frames=1)
    with pytest.raises(UserError, match="cannot be stacked"):
        Replay(np.int32(0), extras, capacity=4, frames=2)
