"""Networks as (init, apply) pairs, built from layers whose shapes are known before compilation.

A layer is a frozen dataclass: a configuration can hold, compare, print and write it. Any class with the members of `Layer` works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents.convolution import convolution
from remanence.core.errors import UserError, unknown
from remanence.core.types import Key

Shape = tuple[int, ...]


class Layer(Protocol):
    """A layer, for a batch of inputs.

    Your own layer is a frozen dataclass with these members. If it inherits from `Layer`, only `shape` and `apply` are required: by
    default, a layer has no weights and uses its entire input.
    """

    def shape(self, input_shape: Shape) -> Shape:
        """The shape of the output, or a `UserError`. Both shapes without the batch."""
        ...

    def init_weights(self, key: Key, input_shape: Shape) -> Any:
        """New weights, any pytree."""
        del key, input_shape
        return ()

    def apply(self, weights: Any, x: Array) -> Array:
        """[batch, *input] -> [batch, *output]"""
        ...

    @property
    def window(self) -> tuple[int, int] | None:
        """(size, stride) if each output depends on a small window of the image, else None."""
        return None

    @property
    def label(self) -> str:
        """The name of the layer in summaries."""
        return type(self).__name__.lower()


class Network(NamedTuple):
    """A neural network."""

    init: Callable[[Key], Any]
    apply: Callable[[Any, Array], Array]
    """(weights, obs [batch, *input]) -> [batch, *output]"""
    activations: Callable[[Any, Array], list[Array]]
    """(weights, obs [batch, *input]) -> the outputs of all layers in order, each [batch, ...]"""
    input: Shape
    output: Shape
    summary: tuple[tuple[str, Shape, int], ...]
    """for each layer: its label, the shape of its output, its number of parameters"""
    layers: tuple[Layer, ...] = ()
    """its layers, if it is a plain sequence of them"""
    scaled: Callable[[Any, float | Array], Any] | None = None
    """(weights, factor) -> weights with which every output is multiplied by the factor; None if there are none"""

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(count for _, _, count in self.summary)


def sequence(layers: Sequence[Layer], input: Shape) -> Network:
    """A sequence of layers, for inputs of a given shape."""
    shapes, summary = [tuple(input)], []
    for layer in layers:
        shape = layer.shape(shapes[-1])
        weights = jax.eval_shape(lambda layer=layer, of=shapes[-1]: layer.init_weights(jax.random.key(0), of))
        summary.append((layer.label, shape, sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(weights))))
        shapes.append(shape)

    def init(key: Key) -> list[Any]:
        keys = jax.random.split(key, max(len(layers), 1))
        return [layer.init_weights(keys[i], shapes[i]) for i, layer in enumerate(layers)]

    def outputs(weights: list[Any], obs: Array) -> list[Array]:
        """The input as float32, then the outputs of all layers."""
        if obs.shape[1:] != shapes[0]:
            raise UserError(f"this network takes observations of shape {shapes[0]}; got {obs.shape[1:]}")
        values = [obs.astype(jnp.float32)]
        for layer, layer_weights in zip(layers, weights, strict=True):
            values.append(layer.apply(layer_weights, values[-1]))
        return values

    last_scaled = getattr(layers[-1], "scaled", None) if layers else None

    def scaled(weights: list[Any], factor: float | Array) -> list[Any]:
        assert last_scaled is not None
        return [*weights[:-1], last_scaled(weights[-1], factor)]

    return Network(
        init,
        apply=lambda weights, obs: outputs(weights, obs)[-1],
        activations=lambda weights, obs: outputs(weights, obs)[1:],
        input=shapes[0],
        output=shapes[-1],
        summary=tuple(summary),
        layers=tuple(layers),
        scaled=scaled if last_scaled else None,
    )


def stacked(first: Network, second: Network) -> Network:
    """One network on top of another."""
    if first.output != second.input:
        raise UserError(f"a network with input {second.input} does not fit on one with output {first.output}")

    def init(key: Key) -> tuple[Any, Any]:
        lower, upper = jax.random.split(key)
        return first.init(lower), second.init(upper)

    def activations(weights: tuple[Any, Any], obs: Array) -> list[Array]:
        middle = first.apply(weights[0], obs)
        return [*first.activations(weights[0], obs), *second.activations(weights[1], middle)]

    return Network(
        init,
        apply=lambda weights, obs: second.apply(weights[1], first.apply(weights[0], obs)),
        activations=activations,
        input=first.input,
        output=second.output,
        summary=(*first.summary, *second.summary),
    )


def precomputed_inputs(layers: Sequence[Layer], table: np.ndarray) -> Network:
    """The same layers for a table of images, [rows, *input]: `apply` ignores its observations and returns the outputs of all rows.

    If a world has few states, a batch contains each of them several times, and their images are mostly equal. So the output of
    every row is computed once and then indexed (`composition.index_rows`), and layers with a small window (the leading
    convolutions, activations and poolings) are computed once per distinct window. The results are the same.
    """
    network = sequence(layers, table.shape[1:])
    count = next((i for i, layer in enumerate(layers) if layer.window is None), len(layers))
    reach, stride, size = 1, 1, tuple(table.shape[1:])
    for layer in layers[:count]:
        kernel, step = layer.window  # type: ignore[misc]
        reach, stride, size = reach + (kernel - 1) * stride, stride * step, layer.shape(size)

    def of_rows(compute: Callable[[Any, Array], Any]) -> Callable[[Any, Array], Any]:
        return lambda weights, _: compute(weights, jnp.asarray(table, jnp.float32))

    if count == 0 or len(size) != 3:
        return network._replace(
            apply=of_rows(network.apply), activations=of_rows(network.activations), input=(), layers=()
        )

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

    return network._replace(apply=apply, activations=of_rows(network.activations), input=(), layers=())


def mlp(input: Shape, hidden: Sequence[int], outputs: int, activation: str = "relu", init: str = "small") -> Network:
    """Dense layers with an activation between them."""
    layers: list[Layer] = [Flatten()]
    for units in hidden:
        layers += [Dense(units, init), ACTIVATIONS[activation]()]
    return sequence([*layers, Dense(outputs, init)], input)


@dataclass(frozen=True)
class Dense(Layer):
    """A dense layer: weights and a bias."""

    units: int
    init: str = "small"
    """"small" draws weights from N(0, 0.01²), bias 0; "uniform" draws both from ±1/√inputs (PyTorch's default)"""

    def __post_init__(self) -> None:
        if self.units < 1:
            raise UserError(f"a layer needs at least one unit; got {self.units}")
        if self.init not in ("small", "uniform"):
            raise unknown("init of a dense layer", self.init, ("small", "uniform"))

    def shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 1:
            raise UserError(f"the input of a dense layer is a vector, not {input_shape}: put Flatten() before it")
        return (self.units,)

    def init_weights(self, key: Key, input_shape: Shape) -> tuple[Array, Array]:
        if self.init == "small":
            return 0.01 * jax.random.normal(key, (input_shape[0], self.units)), jnp.zeros(self.units)
        return _uniform(key, input_shape[0], self.units)

    def apply(self, weights: tuple[Array, Array], x: Array) -> Array:
        return x @ weights[0] + weights[1]

    def scaled(self, weights: tuple[Array, Array], factor: float | Array) -> tuple[Array, Array]:
        """Weights with which every output is multiplied by the factor."""
        return jax.tree.map(lambda leaf: factor * leaf, weights)

    @property
    def label(self) -> str:
        return f"dense {self.units}"


@dataclass(frozen=True)
class Conv(Layer):
    """A convolution without padding: [H, W, C] -> [(H − k) // stride + 1, (W − k) // stride + 1, filters]."""

    filters: int
    kernel: int = 2
    init: str = "xavier"
    """"xavier" (uniform), bias 0; or "uniform" in ±1/√inputs for weights and bias (PyTorch's default)"""
    stride: int = 1

    def __post_init__(self) -> None:
        if min(self.filters, self.kernel, self.stride) < 1:
            raise UserError(f"a convolution needs filters, kernel and stride of at least 1; got {self}")
        if self.init not in ("xavier", "uniform"):
            raise unknown("init of a convolution", self.init, ("xavier", "uniform"))

    def shape(self, input_shape: Shape) -> Shape:
        kernel, stride = self.kernel, self.stride
        if len(input_shape) != 3 or min(input_shape[:2]) < kernel:
            raise UserError(f"a {kernel}×{kernel} convolution needs an image of at least that size; got {input_shape}")
        return (input_shape[0] - kernel) // stride + 1, (input_shape[1] - kernel) // stride + 1, self.filters

    def init_weights(self, key: Key, input_shape: Shape) -> tuple[Array, Array]:
        inputs, filters = self.kernel * self.kernel * input_shape[2], self.filters
        if self.init == "xavier":
            bound = math.sqrt(6.0 / (inputs + self.kernel * self.kernel * filters))
            return jax.random.uniform(key, (inputs, filters), minval=-bound, maxval=bound), jnp.zeros(filters)
        return _uniform(key, inputs, filters)

    def apply(self, weights: tuple[Array, Array], x: Array) -> Array:
        kernel, filters = self.kernel, self.filters
        return convolution(weights[0].reshape(kernel, kernel, -1, filters), x, self.stride) + weights[1]

    @property
    def window(self) -> tuple[int, int]:
        return self.kernel, self.stride

    @property
    def label(self) -> str:
        return f"conv {self.kernel}×{self.kernel}, {self.filters}"


@dataclass(frozen=True)
class MaxPool(Layer):
    """Max pooling over squares, as a reshape and a maximum; rows and columns that do not fill a square are dropped."""

    size: int = 2

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"pooling needs squares of at least 1×1; got {self}")

    def shape(self, input_shape: Shape) -> Shape:
        size = self.size
        if len(input_shape) != 3 or min(input_shape[:2]) < size:
            raise UserError(f"pooling over {size}×{size} needs an image of at least that size; got {input_shape}")
        return input_shape[0] // size, input_shape[1] // size, input_shape[2]

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        size = self.size
        rows, columns = x.shape[1] // size, x.shape[2] // size
        squares = x[:, : rows * size, : columns * size].reshape(len(x), rows, size, columns, size, x.shape[3])
        return squares.max(axis=(2, 4))

    @property
    def window(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def label(self) -> str:
        return f"max pool {self.size}×{self.size}"


@dataclass(frozen=True)
class Flatten(Layer):
    """Flattens any shape to a vector."""

    def shape(self, input_shape: Shape) -> Shape:
        return (math.prod(input_shape),)

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return x.reshape(len(x), -1)


@dataclass(frozen=True)
class _Elementwise(Layer):
    """An elementwise layer without weights."""

    def shape(self, input_shape: Shape) -> Shape:
        return input_shape

    @property
    def window(self) -> tuple[int, int]:
        return 1, 1


@dataclass(frozen=True)
class Relu(_Elementwise):
    """max(x, 0)"""

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return jax.nn.relu(x)


@dataclass(frozen=True)
class Tanh(_Elementwise):
    """tanh(x)"""

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return jnp.tanh(x)


@dataclass(frozen=True)
class Scale(_Elementwise):
    """x / divisor"""

    divisor: float

    def __post_init__(self) -> None:
        if not self.divisor > 0:
            raise UserError(f"the divisor must be positive; got {self.divisor}")

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return x / self.divisor

    @property
    def label(self) -> str:
        return f"divided by {self.divisor:g}"


@dataclass(frozen=True)
class OneHot(Layer):
    """A state index as a one-hot vector."""

    num_states: int

    def __post_init__(self) -> None:
        if self.num_states < 1:
            raise UserError(f"there must be at least one state; got {self.num_states}")

    def shape(self, input_shape: Shape) -> Shape:
        if input_shape != ():
            raise UserError(f"the input of a one-hot layer is a state index, not {input_shape}")
        return (self.num_states,)

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return jax.nn.one_hot(x.astype(jnp.int32), self.num_states)

    @property
    def label(self) -> str:
        return f"one of {self.num_states}"


ACTIVATIONS: dict[str, Callable[[], Layer]] = {"relu": Relu, "tanh": Tanh}


def _uniform(key: Key, inputs: int, outputs: int) -> tuple[Array, Array]:
    """Weights and bias in ±1/√inputs."""
    k_weights, k_bias = jax.random.split(key)
    bound = 1.0 / math.sqrt(inputs)
    return (
        jax.random.uniform(k_weights, (inputs, outputs), minval=-bound, maxval=bound),
        jax.random.uniform(k_bias, (outputs,), minval=-bound, maxval=bound),
    )
