"""Value functions that are linear in sparse features: tables, row and column, thresholded radial basis functions.

A table is linear in one-hot features; all features of the paper's prediction grids are binary, with at most four active at once.
So an observation is encoded by its *active* features only, and evaluation and learning touch only their weights, whatever the
size of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents.base import Visited
from remanence.core.errors import UserError
from remanence.core.types import Key, ObsSpec

MAX_ENTRIES = 4096  # of a table whose values are measured


class Active(NamedTuple):
    """The nonzero features of one observation."""

    index: Array  # [n] indices
    strength: Array  # [n] values; 0 in unused slots


class Features(NamedTuple):
    """An encoding of observations."""

    count: int
    encode: Callable[[Array], Active]
    one_hot: bool = False  # exactly one feature is active, with strength 1: the weights are a table


class Value(NamedTuple):
    """A value function as pure functions over its weights."""

    init: Callable[[Key], Any]
    apply: Callable[[Any, Array], Array]
    """(weights, obs) -> [outputs]"""
    add_scaled_gradient: Callable[[Any, Array, int | Array, Array], Any]
    """(weights, obs, output, amount) -> weights + amount ∇ apply(weights, obs)[output]"""
    closed_form_step: Callable[[Any, Any, Any, float | Array], Any] | None = None
    """(weights, target, visits, lr) -> weights after `visits` steps of size lr towards the target; only for tables, where the
    order of the steps does not matter"""


def linear(features: Features, outputs: int = 1) -> Value:
    """v(s) = Σ_i φ_i(s) w_i, one column of weights per output. Starts at zero.

    `outputs` is 1 for prediction and the number of actions for control.
    """

    def init(key: Key) -> Array:
        del key
        return jnp.zeros((features.count, outputs))

    def apply(weights: Array, obs: Array) -> Array:
        index, strength = features.encode(obs)
        if len(index) == 1:  # a table: a look-up is twice as fast as a product of size 1
            return weights[index[0]] * strength[0]
        return jnp.dot(strength, weights[index], precision=jax.lax.Precision.HIGHEST)

    def add_scaled_gradient(weights: Array, obs: Array, output: int | Array, amount: Array) -> Array:
        index, strength = features.encode(obs)
        return weights.at[index, output].add(amount * strength)

    def closed_form_step(weights: Array, target: Array, visits: Array, lr: float | Array) -> Array:
        return weights + (1.0 - _power(1.0 - lr, visits)) * (target - weights)

    return Value(init, apply, add_scaled_gradient, closed_form_step if features.one_hot else None)


def table_entries(weight: Array) -> Visited:
    """The entries of a table, evenly spaced ones of a large table; weight: [states, outputs]."""
    count, outputs = min(weight.size, MAX_ENTRIES), weight.shape[1]
    places = np.arange(count) * weight.size // count  # of a large table more than 32 bits can count
    state, output = (jnp.asarray(part, jnp.int32) for part in divmod(places, outputs))
    return Visited(state, output, weight[state, output])


def one_hot(states: int) -> Features:
    """One feature per state: a table. Observations are state indices."""
    return Features(states, lambda state: Active(state[None], jnp.ones(1)), one_hot=True)


def row_and_column(size: int) -> Features:
    """One feature for the row and one for the column of a square grid (paper, App. C.1.1): `2 size` in all."""

    def encode(state: Array) -> Active:
        return Active(jnp.stack([state // size, size + state % size]), jnp.ones(2))

    return Features(2 * size, encode)


def thresholded_rbf(order: int) -> Features:
    """Binary radial basis functions on `order`² centres over the unit square (paper, App. C.1.1).

        φ_i(s) = 1 if exp(−‖s − c_i‖² / 2σ²) > 0.5, else 0,        σ = 0.75 / (order − 1)

    The threshold is at 0.883 of the distance between neighbouring centres, so only the four corners of the cell around s can be
    active: the other order² − 4 features are not computed.
    """
    gap = 1.0 / (order - 1)
    variance = (0.75 * gap) ** 2
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])

    def encode(point: Array) -> Active:
        cell = jnp.clip(jnp.floor(point / gap).astype(jnp.int32), 0, order - 2)
        centres = cell + corners  # [4, 2]
        squared = jnp.sum((point - centres * gap) ** 2, axis=-1)
        strength = (jnp.exp(-squared / (2 * variance)) > 0.5).astype(jnp.float32)
        # The barrier keeps XLA from computing this encoding again for every lane that evaluates the same point.
        return jax.lax.optimization_barrier(Active(centres[:, 0] * order + centres[:, 1], strength))

    return Features(order * order, encode)


class FeatureConfig(Protocol):
    """How observations are encoded, as a frozen dataclass: part of an agent's configuration."""

    def build(self, obs: ObsSpec, agent: str) -> Features: ...


@dataclass(frozen=True)
class Table:
    """One weight per state, for Discrete observations."""

    def build(self, obs: ObsSpec, agent: str) -> Features:
        if not obs.num_states:
            raise UserError(
                f"{agent} is tabular and needs Discrete observations; these have shape {obs.shape}: use DQN or PT-DQN"
            )
        return one_hot(obs.num_states)


@dataclass(frozen=True)
class RowAndColumn:
    """The row and the column of a square grid, for Discrete observations."""

    size: int

    def build(self, obs: ObsSpec, agent: str) -> Features:
        if obs.num_states != self.size**2:
            raise UserError(
                f"{agent} encodes a grid of {self.size}×{self.size} cells by row and column; got {obs.num_states} states"
            )
        return row_and_column(self.size)


@dataclass(frozen=True)
class ThresholdedRBF:
    """Binary radial basis functions on `order`² centres over the unit square, for points in it."""

    order: int

    def build(self, obs: ObsSpec, agent: str) -> Features:
        if obs.shape != (2,):
            raise UserError(f"{agent} encodes points of the unit square; these observations have shape {obs.shape}")
        return thresholded_rbf(self.order)


def _power(base: float | Array, count: Array) -> Array:
    """base^count for integers `count`, by exp and log: several times faster than the general power."""
    size = jnp.exp(count * jnp.log(jnp.abs(base)))
    signed = jnp.where((base < 0) & (count % 2 == 1), -size, size)
    return jnp.where(count == 0, 1.0, signed)
