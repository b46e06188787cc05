"""Frame stacks: an input is the last few observations of the episode, concatenated along the last axis.

`replay.py` stores every frame once and stacks frames when it samples. This module stacks the current frames, for acting.
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
    """Functions of `recent`, [frames − 1, *frame]: the previous frames of the episode, zero before its start."""

    begin: Callable[[], Array]
    """-> recent, at the start of an episode"""
    input: Callable[[Array, Array, Array], Array]
    """(recent, obs [*frame], age) -> [1, *input] the network's input, a batch of one; `age`: frames before obs in the episode"""
    push: Callable[[Array, Array], Array]
    """(recent, obs [*frame]) -> recent at the next step of the episode"""
    advance: Callable[[Array, Array, Transition], tuple[Array, Array]]
    """(recent, age, transition) -> both at the next step; zero if the episode ended; unchanged if the transition is not valid"""


def frame_stack(example: ArrayLike, frames: int, repeat_first: bool = False) -> FrameStack:
    """Stacks of `frames` frames like `example`; with one frame, the input is the observation.

    Args: repeat_first: whether the first frame of the episode stands for those before it; else they are zero.
    """
    frame = jnp.asarray(example)

    def begin() -> Array:
        return jnp.zeros((frames - 1, *frame.shape), frame.dtype)

    def joined(recent: Array, obs: Array, age: Array) -> Array:
        stack = jnp.concatenate([recent, obs[None]])
        if repeat_first:
            back = jnp.arange(frames - 1, -1, -1)  # the oldest frame first
            stack = stack[frames - 1 - jnp.minimum(back, age)]
        return join_frames(stack[None])

    def push(recent: Array, obs: Array) -> Array:
        return jnp.concatenate([recent, obs[None].astype(frame.dtype)])[1:]

    def advance(recent: Array, age: Array, transition: Transition) -> tuple[Array, Array]:
        pushed, goes_on = push(recent, transition.obs), ~transition.last
        return (
            jnp.where(transition.valid, jnp.where(goes_on, pushed, jnp.zeros_like(pushed)), recent),
            jnp.where(transition.valid, jnp.where(goes_on, age + 1, 0), age),
        )

    return FrameStack(begin, joined if frames > 1 else lambda _, obs, __: obs[None], push, advance)
