"""The native calls as JAX functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from remanence.agents.native import handlers
from remanence.agents.native.support import NetworkShape
from remanence.core import hostcall

BLOCK = 64  # inputs that are evaluated together


class StepShape(NamedTuple):
    """What is fixed when a step is compiled."""

    network: NetworkShape
    batch: int
    optimizer: int
    slots: int
    """of the ring"""
    frames: int
    frame: tuple[int, ...]
    """shape of a frame"""
    outputs_per_head: int
    one_output: bool
    """whether actions select no output: prediction"""
    consolidates: bool = False
    """whether this is a step of the permanent network"""
    wide_output: bool = False
    implicit_next: bool = False
    cached: bool = False
    has_target: bool = False
    huber: bool = False

    def plan(self) -> Array:
        numbers = np.zeros(handlers.SIZES, np.int32)
        for place, value in (
            (handlers.LAYERS, self.network.layers),
            (handlers.BATCH, self.batch),
            (handlers.CONSOLIDATES, self.consolidates),
            (handlers.OPTIMIZER, self.optimizer),
            (handlers.SLOTS, self.slots),
            (handlers.FRAMES, self.frames),
            (handlers.CHANNELS, self.frame[-1]),
            (handlers.FRAME_BYTES, -(-int(np.prod(self.frame)) // 8)),
            (handlers.OUTPUTS_PER_HEAD, self.outputs_per_head),
            (handlers.ONE_OUTPUT, self.one_output),
            (handlers.WIDE_OUTPUT, self.wide_output),
            (handlers.IMPLICIT_NEXT, self.implicit_next),
            (handlers.CACHED, self.cached),
            (handlers.HAS_TARGET, self.has_target),
            (handlers.HUBER, self.huber),
        ):
            numbers[place] = value
        numbers[handlers.IMAGE : handlers.SIZES] = self.network.image
        return jnp.asarray(np.concatenate([numbers, np.asarray(self.network.sizes, np.int32)]))


class Batch(NamedTuple):
    """Where a step finds its samples: arrays of a ring, with one entry per slot, and the ages of the samples."""

    overwritten: Array
    ages: Array
    frame: Array
    next_frame: Array
    before: Array
    cut: Array
    output: Array
    reward: Array
    discount: Array
    cached: Array
    next_cached: Array


@cache
def register() -> None:
    """Compiles the kernels, or loads them, and tells XLA where they are."""
    hostcall.register_target("remanence_native_step", handlers.step_handler.address)
    hostcall.register_target("remanence_native_values", handlers.values_handler.address)


def values(shape: NetworkShape, weights: Sequence[Array], inputs: Array) -> Array:
    """Values of inputs [n, *input], bits as bytes: [n, outputs]. `weights`: weights and bias of each layer in turn."""
    register()
    rows, outputs = inputs.shape[0], shape.sizes[-1]
    block = min(rows, BLOCK)
    plan = StepShape(shape, block, 0, 0, 1, (1,), 1, False).plan()
    results = (
        jax.ShapeDtypeStruct((rows, outputs), jnp.float32),
        jax.ShapeDtypeStruct((shape.scratch(block, learns=False),), jnp.uint8),
    )
    as_bytes = inputs.reshape(rows, -1).astype(jnp.uint8)
    return jax.ffi.ffi_call("remanence_native_values", results, vmap_method="expand_dims")(plan, as_bytes, *weights)[0]


def step(
    shape: StepShape,
    networks: Sequence[Array],
    batch: Batch,
    lr: ArrayLike,
    scale: ArrayLike,
    learn: Array,
    copy: Array | bool,
    other: Sequence[Array] = (),
    share: ArrayLike = 1.0,
) -> list[Array]:
    """One update: the networks after it.

    Args:
        networks: leaves of the network, of the optimizer's moments, and of the target network if there is one: all change in place.
        lr, scale: as `kernels.step_weights` takes them.
        learn: whether to update. copy: whether to copy the network to the target network afterwards.
        other, share: for a step of the permanent network, the leaves of the transient one, and the share of it that is absorbed.
    """
    register()
    numbers = jnp.stack([jnp.asarray(one, jnp.int32) for one in (learn, copy, batch.overwritten)])
    rates = jnp.stack([jnp.asarray(one, jnp.float32) for one in (lr, scale, share)])
    before = [shape.plan(), numbers, rates, *batch[1:]]
    results = [
        *(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in networks),
        jax.ShapeDtypeStruct((shape.network.scratch(shape.batch, learns=True),), jnp.uint8),
    ]
    call = jax.ffi.ffi_call(
        "remanence_native_step",
        results,
        vmap_method="broadcast_all",
        input_output_aliases={len(before) + i: i for i in range(len(networks))},
    )
    return list(call(*before, *networks, *other))[:-1]
