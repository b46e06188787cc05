"""Networks as plain (init, apply) pairs, put together from layers whose shapes are known before anything compiles.

Convolutions are written as patches times a matrix. With lanes mapped over weights, a convolution would become a grouped one, many
times slower on a CPU; a matrix product stays a matrix product. Pooling is a reshape and a maximum for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError, unknown
from remanence.core.types import Key

Shape = tuple[int, ...]


class Layer(NamedTuple):
    """One step from an input to an output, for a batch."""

    name: str
    shape: Callable[[Shape], Shape]  # of the output, for the shape of the input; both without the batch
    init: Callable[[Key, Shape], Any]  # (key, shape of the input) -> weights
    apply: Callable[[Any, Array], Array]  # (weights, [batch, *input]) -> [batch, *output]
    window: tuple[int, int] | None = None  # for a layer that sees images through a small window: its size and stride


class Network(NamedTuple):
    """A function with weights."""

    init: Callable[[Key], Any]
    apply: Callable[[Any, Array], Array]
    """(weights, obs [batch, *input]) -> [batch, *output]"""
    input: Shape
    output: Shape
    summary: tuple[tuple[str, Shape, int], ...]
    """for each layer: its name, the shape of its output, how many numbers its weights are"""

    @property
    def size(self) -> int:
        """How many numbers the weights are."""
        return sum(count for _, _, count in self.summary)


def sequence(layers: Sequence[Layer], input: Shape) -> Network:
    """Layers one after the other, for inputs of one shape."""
    shapes, summary = [tuple(input)], []
    for layer in layers:
        shape = layer.shape(shapes[-1])
        weights = jax.eval_shape(lambda key, layer=layer, of=shapes[-1]: layer.init(key, of), jax.random.key(0))
        summary.append((layer.name, shape, sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(weights))))
        shapes.append(shape)

    def init(key: Key) -> list[Any]:
        keys = jax.random.split(key, max(len(layers), 1))
        return [layer.init(keys[i], shapes[i]) for i, layer in enumerate(layers)]

    def apply(weights: list[Any], obs: Array) -> Array:
        if obs.shape[1:] != shapes[0]:
            raise UserError(f"this network takes observations of shape {shapes[0]}; got {obs.shape[1:]}")
        value = obs.astype(jnp.float32)
        for layer, own in zip(layers, weights, strict=True):
            value = layer.apply(own, value)
        return value

    return Network(init, apply, shapes[0], shapes[-1], tuple(summary))


def stacked(first: Network, second: Network) -> Network:
    """One network on top of another."""
    if first.output != second.input:
        raise UserError(f"a network for {second.input} does not fit on one that gives {first.output}")

    def init(key: Key) -> tuple[Any, Any]:
        lower, upper = jax.random.split(key)
        return first.init(lower), second.init(upper)

    return Network(
        init,
        lambda weights, obs: second.apply(weights[1], first.apply(weights[0], obs)),
        first.input,
        second.output,
        (*first.summary, *second.summary),
    )


def precomputed_inputs(layers: Sequence[Layer], table: np.ndarray) -> Network:
    """The same layers for the rows of a table of images, [rows, *input]: `apply` takes no observations but gives all rows.

    Where a world has few states, a batch meets each of them several times, and pictures of them are mostly alike. So every row is
    computed once, and looked up at the very end (`parts.index_rows`); and the layers that see only a small window of an image
    (the leading convolutions, activations and poolings) are computed once for every window that is different from the
    others. The numbers are the same.
    """
    whole = sequence(layers, table.shape[1:])
    count = next((i for i, layer in enumerate(layers) if layer.window is None), len(layers))
    reach, stride, size = 1, 1, tuple(table.shape[1:])
    for layer in layers[:count]:
        kernel, step = layer.window  # type: ignore[misc]
        reach, stride, size = reach + (kernel - 1) * stride, stride * step, layer.shape(size)
    if count == 0 or len(size) != 3:
        rows = jnp.asarray(table, jnp.float32)
        return whole._replace(apply=lambda weights, _: whole.apply(weights, rows), input=())

    views = np.lib.stride_tricks.sliding_window_view(table, (reach, reach), axis=(1, 2))[:, ::stride, ::stride]
    views = np.moveaxis(views[:, : size[0], : size[1]], 3, -1)  # [rows, H, W, reach, reach, C]
    distinct, place = np.unique(views.reshape(-1, reach * reach * table.shape[-1]), axis=0, return_inverse=True)
    windows = jnp.asarray(distinct.reshape(-1, reach, reach, table.shape[-1]), jnp.float32)
    place = jnp.asarray(place.reshape(len(table), *size[:2]))
    local = sequence(layers[:count], windows.shape[1:])
    rest = sequence(layers[count:], size)

    def apply(weights: list[Any], _: Array) -> Array:
        seen = local.apply(weights[:count], windows)[:, 0, 0]  # [windows, features]
        return rest.apply(weights[count:], seen[place])

    return whole._replace(apply=apply, input=())


def mlp(input: Shape, hidden: Sequence[int], outputs: int, activation: str = "relu", start: str = "small") -> Network:
    """Dense layers with the same activation between them."""
    layers = [flatten()]
    for width in hidden:
        layers += [dense(width, start), ACTIVATIONS[activation]()]
    return sequence([*layers, dense(outputs, start)], input)


def dense(units: int, start: str = "small") -> Layer:
    """A matrix and a bias.

    Args: start: "small" draws weights from N(0, 0.01²), bias 0; "uniform" draws both from ±1/√inputs (PyTorch's own way).
    """
    if units < 1:
        raise UserError(f"a layer needs at least one unit; got {units}")
    if start not in ("small", "uniform"):
        raise unknown("start of a dense layer", start, ("small", "uniform"))

    def shape(given: Shape) -> Shape:
        if len(given) != 1:
            raise UserError(f"a dense layer takes vectors, not {given}: put flatten() before it")
        return (units,)

    def init(key: Key, given: Shape) -> tuple[Array, Array]:
        if start == "small":
            return 0.01 * jax.random.normal(key, (given[0], units)), jnp.zeros(units)
        k_weights, k_bias = jax.random.split(key)
        bound = 1.0 / math.sqrt(given[0])
        return (
            jax.random.uniform(k_weights, (given[0], units), minval=-bound, maxval=bound),
            jax.random.uniform(k_bias, (units,), minval=-bound, maxval=bound),
        )

    return Layer(f"dense {units}", shape, init, lambda weights, x: x @ weights[0] + weights[1])


def conv(filters: int, kernel: int = 2, start: str = "xavier", stride: int = 1) -> Layer:
    """A convolution without padding, as patches × matrix: [H, W, C] -> [(H − k) // stride + 1, (W − k) // stride + 1, filters].

    Args: start: "xavier" (uniform), bias 0; or "uniform" in ±1/√inputs for weights and bias (PyTorch's own way).
    """
    if start not in ("xavier", "uniform"):
        raise unknown("start of a convolution", start, ("xavier", "uniform"))

    def shape(given: Shape) -> Shape:
        if len(given) != 3 or min(given[:2]) < kernel:
            raise UserError(f"a {kernel}×{kernel} convolution needs an image of at least that size; got {given}")
        return (given[0] - kernel) // stride + 1, (given[1] - kernel) // stride + 1, filters

    def init(key: Key, given: Shape) -> tuple[Array, Array]:
        inputs = kernel * kernel * given[2]
        if start == "xavier":
            bound = math.sqrt(6.0 / (inputs + kernel * kernel * filters))
            return jax.random.uniform(key, (inputs, filters), minval=-bound, maxval=bound), jnp.zeros(filters)
        k_weights, k_bias = jax.random.split(key)
        bound = 1.0 / math.sqrt(inputs)
        return (
            jax.random.uniform(k_weights, (inputs, filters), minval=-bound, maxval=bound),
            jax.random.uniform(k_bias, (filters,), minval=-bound, maxval=bound),
        )

    def apply(weights: tuple[Array, Array], x: Array) -> Array:
        rows, columns = x.shape[1] - kernel + 1, x.shape[2] - kernel + 1
        shifted = [x[:, i : i + rows : stride, j : j + columns : stride] for i in range(kernel) for j in range(kernel)]
        return jnp.concatenate(shifted, axis=-1) @ weights[0] + weights[1]

    return Layer(f"conv {kernel}×{kernel}, {filters}", shape, init, apply, window=(kernel, stride))


def max_pool(size: int = 2) -> Layer:
    """The maximum of every square; rows and columns that do not fill one are left out."""

    def shape(given: Shape) -> Shape:
        if len(given) != 3 or min(given[:2]) < size:
            raise UserError(f"pooling over {size}×{size} needs an image of at least that size; got {given}")
        return given[0] // size, given[1] // size, given[2]

    def apply(_: tuple, x: Array) -> Array:
        rows, columns = x.shape[1] // size, x.shape[2] // size
        squares = x[:, : rows * size, : columns * size].reshape(len(x), rows, size, columns, size, x.shape[3])
        return squares.max(axis=(2, 4))

    return Layer(f"max pool {size}×{size}", shape, lambda *_: (), apply, window=(size, size))


def flatten() -> Layer:
    return Layer("flatten", lambda given: (math.prod(given),), lambda *_: (), lambda _, x: x.reshape(len(x), -1))


def relu() -> Layer:
    return Layer("relu", lambda given: given, lambda *_: (), lambda _, x: jax.nn.relu(x), window=(1, 1))


def tanh() -> Layer:
    return Layer("tanh", lambda given: given, lambda *_: (), lambda _, x: jnp.tanh(x), window=(1, 1))


ACTIVATIONS = {"relu": relu, "tanh": tanh}
