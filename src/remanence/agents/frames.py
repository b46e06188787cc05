"""Stacks of frames: what an agent sees is the last few observations of the episode, joined along the last axis.

`replay.py` keeps every frame once and joins stacks when it samples. Here are the stacks of the present, for acting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from remanence.core.frames import join_frames
from remanence.core.types import Transition


class FrameStack(NamedTuple):
    """The frames before this one, as functions of `recent`, [frames − 1, *frame]; zero where the episode had none."""

    begin: Callable[[], Array]
    """-> recent, at the start of an episode"""
    input: Callable[[Array, Array], Array]
    """(recent, obs [*frame]) -> [1, *input] what the network sees: a batch of one"""
    push: Callable[[Array, Array], Array]
    """(recent, obs [*frame]) -> recent at the next step of the episode"""
    advance: Callable[[Array, Array, Transition], tuple[Array, Array]]
    """(recent, age, transition) -> both at the next step; blank and 0 if the episode ended; as they were if it is not valid"""


def frame_stack(example: ArrayLike, frames: int) -> FrameStack:
    """Stacks of `frames` frames like `example`; with one frame, an input is the observation itself."""
    frame = jnp.asarray(example)

    def begin() -> Array:
        return jnp.zeros((frames - 1, *frame.shape), frame.dtype)

    def joined(recent: Array, obs: Array) -> Array:
        return join_frames(jnp.concatenate([recent, obs[None]])[None])

    def push(recent: Array, obs: Array) -> Array:
        return jnp.concatenate([recent, obs[None].astype(frame.dtype)])[1:]

    def advance(recent: Array, age: Array, transition: Transition) -> tuple[Array, Array]:
        pushed, goes_on = push(recent, transition.obs), ~transition.last
        return (
            jnp.where(transition.valid, jnp.where(goes_on, pushed, jnp.zeros_like(pushed)), recent),
            jnp.where(transition.valid, jnp.where(goes_on, age + 1, 0), age),
        )

    return FrameStack(begin, joined if frames > 1 else lambda _, obs: obs[None], push, advance)
