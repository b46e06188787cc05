"""Experience replay: a ring of transitions, packed and stacked as needed, as pure functions.

Binary observations are kept as bits. With several frames per input, every frame is kept once and stacks are put together when
sampled; frames from before the episode are zero, and transitions whose earlier frames are gone are not sampled.
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

from remanence import memory
from remanence.errors import UserError
from remanence.memory import Ring
from remanence.types import Key


class Codec(NamedTuple):
    """How one frame is kept."""

    pack: Callable[[Array], Array]
    unpack: Callable[[Array], Array]  # [..., packed] -> [..., *frame]
    example: Array  # packed


class Sample(NamedTuple):
    """A batch of transitions."""

    slots: Array  # [batch] where they lie in the ring
    obs: Array  # [batch, *input]
    next_obs: Array  # [batch, *input]
    extras: Any  # leaves [batch, ...]


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
    note: Callable[[Ring, Array, Array, Array, Any, Array], Ring]
    """(ring, frame, next frame, frames before it in the episode [], extras, real) -> ring"""
    sample: Callable[[Ring, Key, int], Sample]
    read: Callable[[Ring, Array], Sample]
    """(ring, ages [batch]) -> those transitions; age 0 is the oldest"""


def make_replay(
    example: ArrayLike, extras: Any, capacity: int, frames: int = 1, replace: bool = True, pairs: bool = True
) -> Replay:
    """A memory of the last `capacity` transitions.

    Args:
        example: a frame, [*frame], whose shape and type tell how it is kept.
        extras: what else is kept of each transition.
        frames: how many frames make an input; they are joined along the last axis.
        replace: whether one transition may be drawn twice for the same batch.
        pairs: whether the next frame is kept too; else `next_obs` of a sample is `obs`.
    """
    if capacity < 1:
        raise UserError(f"a replay memory must hold at least one transition; got {capacity}")
    if frames < 1:
        raise UserError(f"an input needs at least one frame; got {frames}")
    if frames > 1 and np.ndim(example) < 1:
        raise UserError("frames that are single numbers cannot be stacked")
    kept = codec(example)

    def begin() -> Ring:
        item = {"frame": kept.example, "extras": extras}
        if pairs:
            item["next"] = kept.example
        if frames > 1:
            item["before"] = np.int8(0)
        return memory.make_ring(item, capacity)

    def note(ring: Ring, frame: Array, following: Array, before: Array, extras: Any, real: Array) -> Ring:
        item = {"frame": kept.pack(frame), "extras": extras}
        if pairs:
            item["next"] = kept.pack(following)
        if frames > 1:
            item["before"] = jnp.minimum(before, frames - 1).astype(jnp.int8)
        return memory.append(ring, item, real)

    def gather(ring: Ring, ages: Array) -> Sample:
        slots = (memory.overwritten(ring) + ages) % capacity
        items = jax.tree.map(lambda leaf: leaf[slots], ring.items)
        if frames == 1:
            now, following = kept.unpack(items["frame"]), kept.unpack(items["next" if pairs else "frame"])
            return Sample(slots, now, following, items["extras"])
        back = jnp.arange(frames - 1, 0, -1)  # the oldest frame first
        known = (back <= items["before"][:, None]) & (back <= ages[:, None])
        earlier = ring.items["frame"][(slots[:, None] - back) % capacity]
        earlier = jnp.where(known.reshape(*known.shape, *(1,) * (earlier.ndim - 2)), earlier, 0)
        seen = [earlier, items["frame"][:, None], *([items["next"][:, None]] if pairs else [])]
        stack = kept.unpack(jnp.concatenate(seen, axis=1))
        obs = join_frames(stack[:, :frames])
        return Sample(slots, obs, join_frames(stack[:, 1:]) if pairs else obs, items["extras"])

    def sample(ring: Ring, key: Key, batch: int) -> Sample:
        skipped = jnp.minimum(memory.overwritten(ring), frames - 1)  # the oldest ones, whose earlier frames are gone
        choose = draw if replace else draw_distinct
        return gather(ring, skipped + choose(key, memory.size(ring) - skipped, batch))

    return Replay(begin, note, sample, gather)


def join_frames(stack: Array) -> Array:
    """[..., frames, *rest, channels] -> [..., *rest, frames · channels], for a batch: the first axis is the batch."""
    moved = jnp.moveaxis(stack, 1, -2)
    return moved.reshape(*moved.shape[:-2], moved.shape[-2] * moved.shape[-1])


def draw(key: Key, size: Array, batch: int) -> Array:
    """[batch] numbers below `size`, uniformly; all 0 if there are none."""
    return jnp.minimum((jax.random.uniform(key, (batch,)) * size).astype(jnp.int32), jnp.maximum(size - 1, 0))


def draw_distinct(key: Key, size: Array, batch: int) -> Array:
    """[batch] distinct numbers below `size`, every set equally likely (Floyd's way); needs size ≥ batch."""
    luck = jax.random.uniform(key, (batch,))

    def choose(i: Array, chosen: Array) -> Array:
        top = size - batch + i
        number = jnp.clip((luck[i] * (top + 1)).astype(jnp.int32), 0, top)
        taken = jnp.any((chosen == number) & (jnp.arange(batch) < i))
        return chosen.at[i].set(jnp.where(taken, top, number))

    return jax.lax.fori_loop(0, batch, choose, jnp.full(batch, -1, jnp.int32))
