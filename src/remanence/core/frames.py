"""Inputs of several frames: the last observations, one behind the other."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def join_frames(stack: Array) -> Array:
    """[..., frames, *rest, channels] -> [..., *rest, frames · channels], for a batch: the first axis is the batch."""
    moved = jnp.moveaxis(stack, 1, -2)
    return moved.reshape(*moved.shape[:-2], moved.shape[-2] * moved.shape[-1])
