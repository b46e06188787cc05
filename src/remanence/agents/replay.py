"""Replay buffers: a ring of transitions, as pure functions.

Binary observations are stored as bits. With several frames per input, every frame is stored once, and frames are stacked when they
are sampled; frames before the start of the episode are zero, or its first frame again. Transitions whose earlier frames were
overwritten are not sampled or not `valid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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
from remanence.core.types import MAX_COUNT, Key


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


SEPARATE, IMPLICIT, NONE = "separate", "implicit", "none"


@dataclass(frozen=True, eq=False)
class Replay:
    """A replay buffer of the last `capacity` transitions, as functions of a ring."""

    example: ArrayLike
    """a frame, [*frame], for shape and dtype"""
    extras: Any
    """an example of what else is stored with each transition"""
    capacity: int
    frames: int = 1
    """how many frames make an input; they are concatenated along the last axis"""
    replace: bool = True
    """whether a batch may contain the same transition twice"""
    next_obs_storage: str = SEPARATE
    """how the next state is stored. "separate": with each transition. "implicit": it is the state of the following transition,
    which halves the memory; but a transition at which an episode was truncated is then not `valid` (at a termination, the next
    state does not matter). "none": not stored, `next_obs` is `obs`"""
    cached: Any = ()
    """an example of what is cached for each state"""
    repeat_first: bool = False
    """whether the first frame of the episode stands for those before it; else they are zero"""

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise UserError(f"a replay buffer must hold at least one transition; got {self.capacity}")
        if self.capacity >= MAX_COUNT:
            raise UserError(
                f"a replay buffer holds fewer than {MAX_COUNT:,} transitions; got {self.capacity:,}: "
                "give a smaller replay buffer"
            )
        if self.frames < 1:
            raise UserError(f"an input needs at least one frame; got {self.frames}")
        if self.frames > 1 and np.ndim(self.example) < 1:
            raise UserError("frames that are single numbers cannot be stacked")
        if self.next_obs_storage not in (SEPARATE, IMPLICIT, NONE):
            raise unknown("next_obs_storage", self.next_obs_storage, (SEPARATE, IMPLICIT, NONE))

    @cached_property
    def storage(self) -> Codec:
        return codec(self.example)

    @property
    def implicit(self) -> bool:
        return self.next_obs_storage == IMPLICIT

    @property
    def slots(self) -> int:
        """Slots of the ring. With "implicit", the next state of the newest transition needs one too."""
        return self.capacity + self.implicit

    def begin(self) -> Ring:
        """An empty ring."""
        state: dict[str, Any] = {"frame": self.storage.example, "cached": self.cached}
        if self.frames > 1:
            state["before"] = np.int8(0)
        item = {"now": state, "extras": self.extras}
        if self.next_obs_storage == SEPARATE:
            item["next"] = {"frame": self.storage.example, "cached": self.cached}
        if self.implicit:
            item["cut"] = np.bool_(False)
        return rings.make_ring(item, self.slots)

    def add(self, ring: Ring, now: Frame, following: Frame, extras: Any, cut: Array, valid: Array) -> Ring:
        """Adds a transition if `valid` []. `cut` []: whether the episode was truncated there."""
        item = {"now": self._packed(now), "extras": extras}
        if self.next_obs_storage == SEPARATE:
            item["next"] = {"frame": self.storage.pack(following.frame), "cached": following.cached}
        if not self.implicit:
            return rings.append(ring, item, valid)
        ring = rings.append(ring, {**item, "cut": cut}, valid)
        ahead = rings.append(
            ring._replace(items=ring.items["now"]), self._packed(following), valid
        )  # not counted until it is added itself
        return ring._replace(items={**ring.items, "now": ahead.items})

    def sample(self, ring: Ring, key: Key, batch: int) -> Sample:
        """A batch of random transitions."""
        return self.read(ring, self.draw_ages(ring, key, batch))

    def draw_ages(self, ring: Ring, key: Key, batch: int) -> Array:
        """[batch] the ages of random transitions; age 0 is the oldest."""
        overwritten = jnp.maximum(ring.count - self.capacity, 0)
        # The oldest transitions lack their earlier frames; with "implicit", the newest next state has replaced the oldest one.
        skipped = overwritten - rings.overwritten(ring) + jnp.where(overwritten > 0, self.frames - 1, 0)
        draw_ages = draw if self.replace else draw_distinct
        return skipped + draw_ages(key, rings.size(ring) - skipped, batch)

    def read(self, ring: Ring, ages: Array) -> Sample:
        """The transitions of these ages, [batch]."""
        slots = (rings.overwritten(ring) + ages) % self.slots
        items = jax.tree.map(lambda leaf: rows(leaf, slots), ring.items)
        now, valid = items["now"], jnp.ones(ages.shape, bool)
        following = items.get("next", now)
        if self.implicit:
            following = jax.tree.map(lambda leaf: rows(leaf, (slots + 1) % self.slots), ring.items["now"])
            valid = ~items["cut"]
        if self.frames == 1:
            obs, next_obs = self.storage.unpack(now["frame"]), self.storage.unpack(following["frame"])
        else:
            valid &= now["before"] <= ages  # else its episode started before the buffer was emptied
            obs, next_obs = self._stacked(ring, ages, slots, now, following)
        return Sample(slots, obs, next_obs, now["cached"], following["cached"], items["extras"], valid)

    def refresh(self, ring: Ring, compute: Callable[[Array], Any], block: int, active: Array | bool) -> Ring:
        """The ring with all cached values recomputed. `compute`: inputs [block, *input] -> what is cached for them."""
        states = rings.size(ring) + self.implicit

        def one_block(i: Array, ring: Ring) -> Ring:
            sample = self.read(ring, jnp.minimum(i * block + jnp.arange(block), jnp.maximum(states - 1, 0)))
            items, inputs = dict(ring.items), {"now": sample.obs, "next": sample.next_obs}
            for name in ("now", "next") if self.next_obs_storage == SEPARATE else ("now",):
                new = jax.tree.map(
                    lambda leaf, value: leaf.at[sample.slots].set(value), items[name]["cached"], compute(inputs[name])
                )
                items[name] = {**items[name], "cached": new}
            return ring._replace(items=items)

        return jax.lax.fori_loop(0, max_over_lanes(-(-states // block), active), one_block, ring)

    def _packed(self, seen: Frame) -> dict[str, Any]:
        state = {"frame": self.storage.pack(seen.frame), "cached": seen.cached}
        if self.frames > 1:
            state["before"] = jnp.minimum(seen.before, self.frames - 1).astype(jnp.int8)
        return state

    def _stacked(self, ring: Ring, ages: Array, slots: Array, now: Any, following: Any) -> tuple[Array, Array]:
        """Inputs of several frames: of the states and of the next ones, each [batch, *input]."""
        back = jnp.arange(self.frames - 1, 0, -1)  # the oldest frame first
        if self.repeat_first:
            back = jnp.minimum(back, now["before"][:, None])
        there = (back <= now["before"][:, None]) & (back <= ages[:, None])
        earlier = ring.items["now"]["frame"][(slots[:, None] - back) % self.slots]
        earlier = jnp.where(there.reshape(*there.shape, *(1,) * (earlier.ndim - 2)), earlier, 0)
        has_next = self.next_obs_storage != NONE
        seen = [earlier, now["frame"][:, None], *([following["frame"][:, None]] if has_next else [])]
        stack = self.storage.unpack(jnp.concatenate(seen, axis=1))
        obs = join_frames(stack[:, : self.frames])
        return obs, join_frames(stack[:, 1:]) if has_next else obs


def rows(leaf: Array, slots: Array) -> Array:
    """leaf[slots]. A column of numbers is read as a matrix of one column: XLA else reads an older copy of a buffer that was just
    written to, and copies all of it for that at every step."""
    return leaf[:, None][slots][:, 0] if leaf.ndim == 1 else leaf[slots]


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
