"""Convolutions as matrix products.

If lanes are mapped over weights, a convolution becomes a grouped convolution, which is many times slower on a CPU; a matrix product
remains a matrix product. There are three ways, and which is fastest depends on the shapes. Weights are [kernel, kernel, channels,
filters], images [samples, height, width, channels].
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def convolution(weights: Array, x: Array, stride: int) -> Array:
    """Without padding: [samples, (height − kernel) // stride + 1, (width − kernel) // stride + 1, filters]"""
    kernel, _, channels, filters = weights.shape
    if stride > 1 and kernel % stride == 0:
        return by_blocks(weights, x, stride)
    return by_pixels(stride, weights, x) if channels > 2 * filters else by_patches(weights, x, stride)


def by_patches(weights: Array, x: Array, stride: int) -> Array:
    """Copies every patch, then one product."""
    kernel, filters, (samples, height, width, channels) = len(weights), weights.shape[-1], x.shape
    rows, columns = height - kernel + 1, width - kernel + 1
    flat = x.reshape(samples, height, width * channels)  # a row of a patch is contiguous: long copies are fast
    runs = [flat[:, :, j * channels : (j + kernel) * channels] for j in range(0, columns, stride)]
    wide = jnp.stack(runs, axis=2)  # [samples, height, columns, kernel · channels]
    patches = jnp.concatenate([wide[:, i : i + rows : stride] for i in range(kernel)], axis=-1)
    return patches @ weights.reshape(-1, filters)


def by_blocks(weights: Array, x: Array, stride: int) -> Array:
    """A convolution of stride 1 over blocks as large as the stride, which divides the kernel: every pixel is copied once,
    not once per patch."""
    kernel, filters, (samples, height, width, channels) = len(weights), weights.shape[-1], x.shape
    blocks, rows, columns = kernel // stride, height // stride, width // stride
    x = x[:, : rows * stride, : columns * stride].reshape(samples, rows, stride, columns, stride * channels)
    x = x.swapaxes(2, 3).reshape(samples, rows, columns, stride * stride * channels)
    by_block = weights.reshape(blocks, stride, blocks, stride * channels, filters).swapaxes(1, 2)
    return by_pixels(1, by_block.reshape(blocks, blocks, -1, filters), x)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def by_pixels(stride: int, weights: Array, x: Array) -> Any:
    """One product of all pixels with all places of the kernel, then the sum of its shifted parts.

    With many more channels than filters, it copies less than patches do.
    """
    kernel, filters, (_, height, width, _) = len(weights), weights.shape[-1], x.shape
    parts = x @ _side_by_side(weights)  # [samples, height, width, places · filters]
    rows, columns = height - kernel + 1, width - kernel + 1
    total: Any = 0.0
    for place, (i, j) in enumerate(np.ndindex(kernel, kernel)):
        seen = parts[:, i : i + rows : stride, j : j + columns : stride]
        total = total + seen[..., place * filters : (place + 1) * filters]
    return total


def _side_by_side(weights: Array) -> Array:
    """[kernel, kernel, channels, filters] -> [channels, places · filters]"""
    channels, filters = weights.shape[2:]
    return weights.reshape(-1, channels, filters).swapaxes(0, 1).reshape(channels, -1)


def _forward(stride: int, weights: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return by_pixels(stride, weights, x), (weights, x)


def _backward(stride: int, seen: tuple[Array, Array], slopes: Array) -> tuple[Array, Array]:
    """The gradients that JAX would derive, but the slopes of the parts are stored before they are multiplied: fused with the
    products, their shifts would be computed for every element, which takes most of the time."""
    weights, x = seen
    kernel, _, channels, filters = weights.shape
    # Pixels beyond the last one that the first place of the kernel sees.
    rest = [size - ((out - 1) * stride + 1) for size, out in zip(x.shape[1:3], slopes.shape[1:3], strict=True)]
    zero, none = jnp.zeros((), slopes.dtype), (0, 0, 0)
    shifted = [
        jax.lax.pad(
            slopes, zero, [none, *((at, beyond - at, stride - 1) for at, beyond in zip(place, rest, strict=True)), none]
        )
        for place in np.ndindex(kernel, kernel)
    ]
    of_parts = jax.lax.optimization_barrier(jnp.concatenate(shifted, axis=-1))
    of_weights = jnp.tensordot(x, of_parts, ((0, 1, 2), (0, 1, 2))).reshape(channels, -1, filters)
    return of_weights.swapaxes(0, 1).reshape(weights.shape), of_parts @ _side_by_side(weights).T


by_pixels.defvjp(_forward, _backward)
