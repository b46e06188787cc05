"""Experience replay: a ring of transitions, packed and stacked as needed, as pure functions.

Binary observations are kept as bits. With several frames per input, every frame is kept once and stacks are put together when
sampled; frames from before the episode are zero, and transitions whose earlier frames are gone are not sampled or not `valid`.
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
    """How one frame is kept."""

    pack: Callable[[Array], Array]
    unpack: Callable[[Array], Array]  # [..., packed] -> [..., *frame]
    example: Array  # packed


class Frame(NamedTuple):
    """A state as the agent saw it."""

    frame: Array  # [*frame]
    before: Array  # []  frames that came before it in the episode
    cached: Any = ()  # what else is kept of it


class Sample(NamedTuple):
    """A batch of transitions."""

    slots: Array  # [batch] where they lie in the ring
    obs: Array  # [batch, *input]
    next_obs: Array  # [batch, *input]
    cached: Any  # leaves [batch, ...]
    next_cached: Any
    extras: Any
    valid: Array  # [batch] False where the next state, or a frame of this one, is not known


def codec(example: ArrayLike) -> Codec:
    """Bits for booleans, the array itself for anything else."""
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
    """What is remembered of transitions, as functions of a ring."""

    begin: Callable[[], Ring]
    add: Callable[[Ring, Frame, Frame, Any, Array, Array], Ring]
    """(ring, state, next state, extras, whether the episode was cut off there [], real) -> ring"""
    sample: Callable[[Ring, Key, int], Sample]
    read: Callable[[Ring, Array], Sample]
    """(ring, ages [batch]) -> those transitions; age 0 is the oldest"""
    refresh: Callable[[Ring, Callable[[Array], Any], int, Array | bool], Ring]
    """(ring, inputs [block, *input] -> what is known of these states, block) -> ring with all of that computed anew"""


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
    """A memory of the last `capacity` transitions.

    Args:
        example: a frame, [*frame], whose shape and type tell how it is kept.
        extras: what else is kept of each transition.
        frames: how many frames make an input; they are joined along the last axis.
        replace: whether one transition may be drawn twice for the same batch.
        next_obs_storage: how the next state is kept. "separate": beside each state. "implicit": it is the state of the
            transition that came after, which takes half of the room; but a transition at which an episode was truncated (not
            terminated: there its next state does not matter) is then not `valid`. "none": not at all, `next_obs` is `obs`.
        cached: what else is kept of each state.
    """
    if capacity < 1:
        raise UserError(f"a replay memory must hold at least one transition; got {capacity}")
    if frames < 1:
        raise UserError(f"an input needs at least one frame; got {frames}")
    if frames > 1 and np.ndim(example) < 1:
        raise UserError("frames that are single numbers cannot be stacked")
    if next_obs_storage not in (SEPARATE, IMPLICIT, NONE):
        raise unknown("way to keep the next state", next_obs_storage, (SEPARATE, IMPLICIT, NONE))
    storage, implicit = codec(example), next_obs_storage == IMPLICIT
    slots_in_all = capacity + implicit  # in a chain, the state that is to come has a place too

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
        )  # counts only once noted itself
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
        valid &= now["before"] <= ages  # else it began before the memory was emptied
        earlier = ring.items["now"]["frame"][(slots[:, None] - back) % slots_in_all]
        earlier = jnp.where(there.reshape(*there.shape, *(1,) * (earlier.ndim - 2)), earlier, 0)
        seen = [earlier, now["frame"][:, None], *([] if next_obs_storage == NONE else [following["frame"][:, None]])]
        stack = storage.unpack(jnp.concatenate(seen, axis=1))
        obs = join_frames(stack[:, :frames])
        next_obs = obs if next_obs_storage == NONE else join_frames(stack[:, 1:])
        return Sample(slots, obs, next_obs, now["cached"], following["cached"], items["extras"], valid)

    def sample(ring: Ring, key: Key, batch: int) -> Sample:
        overwritten = jnp.maximum(ring.count - capacity, 0)
        # The oldest ones lack their earlier frames, and in a chain the state to come lies where the very oldest was.
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
    """[batch] numbers below `size`, uniformly; all 0 if there are none."""
    return jnp.minimum((jax.random.uniform(key, (batch,)) * size).astype(jnp.int32), jnp.maximum(size - 1, 0))


def draw_distinct(key: Key, size: Array, batch: int) -> Array:
    """[batch] distinct numbers below `size`, every set equally likely (Floyd's way); needs size ≥ batch."""
    u = jax.random.uniform(key, (batch,))

    def draw_ages(i: Array, chosen: Array) -> Array:
        top = size - batch + i
        number = jnp.clip((u[i] * (top + 1)).astype(jnp.int32), 0, top)
        taken = jnp.any((chosen == number) & (jnp.arange(batch) < i))
        return chosen.at[i].set(jnp.where(taken, top, number))

    return jax.lax.fori_loop(0, batch, draw_ages, jnp.full(batch, -1, jnp.int32))
