"""Frame stacking."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def join_frames(stack: Array) -> Array:
    """[batch, frames, *rest, channels] -> [batch, *rest, frames · channels]"""
    moved = jnp.moveaxis(stack, 1, -2)
    return moved.reshape(*moved.shape[:-2], moved.shape[-2] * moved.shape[-1])
