"""Layers beyond those of the paper: normalization, CReLU, and the dueling output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.networks import Dense, Layer, Shape
from remanence.core.errors import UserError
from remanence.core.types import Key
from remanence.updates import dueling

SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Mean 0 and variance 1 over the last axis, then a gain and a bias for each feature."""

    def shape(self, input_shape: Shape) -> Shape:
        if not input_shape:
            raise UserError("LayerNorm needs a vector or an image, not a single number")
        return input_shape

    def init_weights(self, key: Key, input_shape: Shape) -> tuple[Array, Array]:
        del key
        return jnp.ones(input_shape[-1]), jnp.zeros(input_shape[-1])

    def apply(self, weights: tuple[Array, Array], x: Array) -> Array:
        centered = x - jnp.mean(x, axis=-1, keepdims=True)
        deviation = jnp.sqrt(jnp.mean(centered**2, axis=-1, keepdims=True) + SMALLEST_VARIANCE)
        return weights[0] * centered / deviation + weights[1]

    @property
    def window(self) -> tuple[int, int]:
        return 1, 1


@dataclass(frozen=True)
class CRelu(Layer):
    """max(x, 0) and max(−x, 0) side by side, so that no unit is ever silent: twice as many features."""

    def shape(self, input_shape: Shape) -> Shape:
        if not input_shape:
            raise UserError("CRelu needs a vector or an image, not a single number")
        return *input_shape[:-1], 2 * input_shape[-1]

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return jnp.concatenate([jax.nn.relu(x), jax.nn.relu(-x)], axis=-1)

    @property
    def window(self) -> tuple[int, int]:
        return 1, 1


@dataclass(frozen=True)
class Dueling(Layer):
    """Action values from two streams: the value of the state, and the advantages of its actions."""

    actions: int
    units: int
    """of the hidden layer of each stream"""
    init: str = "uniform"
    """of the last layer of each stream, as of `Dense`"""

    def shape(self, input_shape: Shape) -> Shape:
        Dense(self.units).shape(input_shape)
        return (self.actions,)

    def init_weights(self, key: Key, input_shape: Shape) -> list[list[Any]]:
        """For each stream, those of its hidden layer and of its last one."""
        k_value, k_advantages = jax.random.split(key)
        hidden = Dense(self.units, "uniform")

        def stream(key: Key, outputs: int) -> list[Any]:
            k_hidden, k_last = jax.random.split(key)
            last = Dense(outputs, self.init).init_weights(k_last, (self.units,))
            return [hidden.init_weights(k_hidden, input_shape), last]

        return [stream(k_value, 1), stream(k_advantages, self.actions)]

    def apply(self, weights: list[list[Any]], x: Array) -> Array:
        def stream(hidden: tuple[Array, Array], last: tuple[Array, Array]) -> Array:
            return jax.nn.relu(x @ hidden[0] + hidden[1]) @ last[0] + last[1]

        return dueling(stream(*weights[0]), stream(*weights[1]))

    def scaled(self, weights: list[list[Any]], factor: float | Array) -> list[list[Any]]:
        """Weights with which every output is multiplied by the factor."""
        return [[hidden, jax.tree.map(lambda leaf: factor * leaf, last)] for hidden, last in weights]

    @property
    def label(self) -> str:
        return f"dueling {self.units}, {self.actions}"
