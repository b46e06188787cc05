"""Replay buffers: a ring of transitions, as pure functions.

Binary observations are stored as bits. With several frames per input, every frame is stored once, and frames are stacked when they
are sampled; frames before the start of the episode are zero. Transitions whose earlier frames were overwritten are not sampled or
not `valid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from remanence.agents import ring as rings
from remanence.agents.ring import Ring
from remanence.core.errors import UserError, unknown
from remanence.core.frames import join_frames
from remanence.core.masking import max_over_lanes
from remanence.core.types import Key


class Codec(NamedTuple):
    """How one frame is stored."""

    pack: Callable[[Array], Array]
    unpack: Callable[[Array], Array]  # [..., packed] -> [..., *frame]
    example: Array  # packed


class Frame(NamedTuple):
    """An observation and its place in the episode."""

    frame: Array  # [*frame]
    before: Array  # []  the number of frames before it in the episode
    cached: Any = ()  # what is cached for this state


class Sample(NamedTuple):
    """A batch of transitions."""

    slots: Array  # [batch] their slots in the ring
    obs: Array  # [batch, *input]
    next_obs: Array  # [batch, *input]
    cached: Any  # leaves [batch, ...]
    next_cached: Any
    extras: Any
    valid: Array  # [batch] False if the next state, or a frame of this one, is missing


def codec(example: ArrayLike) -> Codec:
    """Bits for booleans, else the array itself."""
    frame = np.asarray(example)
    if frame.dtype != bool:
        return Codec(lambda x: x, lambda x: x, jnp.asarray(frame))
    count, shape = math.prod(frame.shape), frame.shape

    def unpack(packed: Array) -> Array:
        bits = jnp.unpackbits(packed, axis=-1, count=count)
        return bits.reshape(*packed.shape[:-1], *shape)

    pack = lambda x: jnp.packbits(x.reshape(-1))  # noqa: E731
    return Codec(pack, unpack, jnp.asarray(np.packbits(frame.reshape(-1))))


class Replay(NamedTuple):
    """A replay buffer, as functions of a ring."""

    begin: Callable[[], Ring]
    add: Callable[[Ring, Frame, Frame, Any, Array, Array], Ring]
    """(ring, state, next state, extras, whether the episode was truncated there [], valid []) -> ring"""
    sample: Callable[[Ring, Key, int], Sample]
    read: Callable[[Ring, Array], Sample]
    """(ring, ages [batch]) -> these transitions; age 0 is the oldest"""
    refresh: Callable[[Ring, Callable[[Array], Any], int, Array | bool], Ring]
    """(ring, inputs [block, *input] -> what is cached for them, block, active) -> ring with all cached values recomputed"""


SEPARATE, IMPLICIT, NONE = "separate", "implicit", "none"


def make_replay(
    example: ArrayLike,
    extras: Any,
    capacity: int,
    frames: int = 1,
    replace: bool = True,
    next_obs_storage: str = SEPARATE,
    cached: Any = (),
) -> Replay:
    """A replay buffer of the last `capacity` transitions.

    Args:
        example: a frame, [*frame], for shape and dtype.
        extras: an example of what else is stored with each transition.
        frames: how many frames make an input; they are concatenated along the last axis.
        replace: whether a batch may contain the same transition twice.
        next_obs_storage: how the next state is stored. "separate": with each transition. "implicit": it is the state of the
            following transition, which halves the memory; but a transition at which an episode was truncated is then not
            `valid` (at a termination, the next state does not matter). "none": not stored, `next_obs` is `obs`.
        cached: an example of what is cached for each state.
    """
    if capacity < 1:
        raise UserError(f"a replay buffer must hold at least one transition; got {capacity}")
    if frames < 1:
        raise UserError(f"an input needs at least one frame; got {frames}")
    if frames > 1 and np.ndim(example) < 1:
        raise UserError("frames that are single numbers cannot be stacked")
    if next_obs_storage not in (SEPARATE, IMPLICIT, NONE):
        raise unknown("next_obs_storage", next_obs_storage, (SEPARATE, IMPLICIT, NONE))
    storage, implicit = codec(example), next_obs_storage == IMPLICIT
    slots_in_all = capacity + implicit  # implicit: the next state of the newest transition needs a slot too

    def begin() -> Ring:
        state: dict[str, Any] = {"frame": storage.example, "cached": cached}
        if frames > 1:
            state["before"] = np.int8(0)
        item = {"now": state, "extras": extras}
        if next_obs_storage == SEPARATE:
            item["next"] = {"frame": storage.example, "cached": cached}
        if implicit:
            item["cut"] = np.bool_(False)
        return rings.make_ring(item, slots_in_all)

    def packed(seen: Frame) -> dict[str, Any]:
        state = {"frame": storage.pack(seen.frame), "cached": seen.cached}
        if frames > 1:
            state["before"] = jnp.minimum(seen.before, frames - 1).astype(jnp.int8)
        return state

    def add(ring: Ring, now: Frame, following: Frame, extras: Any, cut: Array, valid: Array) -> Ring:
        item = {"now": packed(now), "extras": extras}
        if next_obs_storage == SEPARATE:
            item["next"] = {"frame": storage.pack(following.frame), "cached": following.cached}
        if not implicit:
            return rings.append(ring, item, valid)
        ring = rings.append(ring, {**item, "cut": cut}, valid)
        ahead = rings.append(
            ring._replace(items=ring.items["now"]), packed(following), valid
        )  # not counted until it is added itself
        return ring._replace(items={**ring.items, "now": ahead.items})

    def gather(ring: Ring, ages: Array) -> Sample:
        slots = (rings.overwritten(ring) + ages) % slots_in_all
        items = jax.tree.map(lambda leaf: leaf[slots], ring.items)
        now, valid = items["now"], jnp.ones(ages.shape, bool)
        following = items.get("next", now)
        if implicit:
            following = jax.tree.map(lambda leaf: leaf[(slots + 1) % slots_in_all], ring.items["now"])
            valid = ~items["cut"]
        if frames == 1:
            obs, next_obs = storage.unpack(now["frame"]), storage.unpack(following["frame"])
            return Sample(slots, obs, next_obs, now["cached"], following["cached"], items["extras"], valid)
        back = jnp.arange(frames - 1, 0, -1)  # the oldest frame first
        there = (back <= now["before"][:, None]) & (back <= ages[:, None])
        valid &= now["before"] <= ages  # else its episode started before the buffer was emptied
        earlier = ring.items["now"]["frame"][(slots[:, None] - back) % slots_in_all]
        earlier = jnp.where(there.reshape(*there.shape, *(1,) * (earlier.ndim - 2)), earlier, 0)
        seen = [earlier, now["frame"][:, None], *([] if next_obs_storage == NONE else [following["frame"][:, None]])]
        stack = storage.unpack(jnp.concatenate(seen, axis=1))
        obs = join_frames(stack[:, :frames])
        next_obs = obs if next_obs_storage == NONE else join_frames(stack[:, 1:])
        return Sample(slots, obs, next_obs, now["cached"], following["cached"], items["extras"], valid)

    def sample(ring: Ring, key: Key, batch: int) -> Sample:
        overwritten = jnp.maximum(ring.count - capacity, 0)
        # The oldest transitions lack their earlier frames; with "implicit", the newest next state has replaced the oldest one.
        skipped = overwritten - rings.overwritten(ring) + jnp.where(overwritten > 0, frames - 1, 0)
        draw_ages = draw if replace else draw_distinct
        return gather(ring, skipped + draw_ages(key, rings.size(ring) - skipped, batch))

    def refresh(ring: Ring, believe: Callable[[Array], Any], block: int, active: Array | bool) -> Ring:
        states = rings.size(ring) + implicit

        def some(i: Array, ring: Ring) -> Ring:
            sample = gather(ring, jnp.minimum(i * block + jnp.arange(block), jnp.maximum(states - 1, 0)))
            items = dict(ring.items)
            for name, obs in (("now", sample.obs), ("next", sample.next_obs))[: 1 + (next_obs_storage == SEPARATE)]:
                fresh = jax.tree.map(
                    lambda leaf, value: leaf.at[sample.slots].set(value), items[name]["cached"], believe(obs)
                )
                items[name] = {**items[name], "cached": fresh}
            return ring._replace(items=items)

        return jax.lax.fori_loop(0, max_over_lanes(-(-states // block), active), some, ring)

    return Replay(begin, add, sample, gather, refresh)


def draw(key: Key, size: Array, batch: int) -> Array:
    """[batch] uniformly random integers below `size`; all 0 if `size` is 0."""
    return jnp.minimum((jax.random.uniform(key, (batch,)) * size).astype(jnp.int32), jnp.maximum(size - 1, 0))


def draw_distinct(key: Key, size: Array, batch: int) -> Array:
    """[batch] distinct integers below `size`, uniformly random (Floyd's algorithm); needs size ≥ batch."""
    u = jax.random.uniform(key, (batch,))

    def draw_ages(i: Array, chosen: Array) -> Array:
        top = size - batch + i
        number = jnp.clip((u[i] * (top + 1)).astype(jnp.int32), 0, top)
        taken = jnp.any((chosen == number) & (jnp.arange(batch) < i))
        return chosen.at[i].set(jnp.where(taken, top, number))

    return jax.lax.fori_loop(0, batch, draw_ages, jnp.full(batch, -1, jnp.int32))
