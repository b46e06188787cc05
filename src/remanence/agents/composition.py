"""Compositions of value networks: a single network, a permanent and a transient network, or two heads on a shared trunk.

A plain deep agent has no permanent part: V^P = 0. So one learner serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.networks import Network, Shape
from remanence.core.errors import UserError
from remanence.core.types import Key
from remanence.updates import decayed


def decayed_weights(weights: Any, decay: float | Array) -> Any:
    return jax.tree.map(lambda w: decayed(w, decay), weights)


class ValueComposition(NamedTuple):
    """V = V^P + V^T as functions of two sets of weights. Observations come in batches, [batch, *input]."""

    init: Callable[[Key], tuple[Any, Any]]  # -> permanent and transient weights
    permanent: Callable[[Any, Any, Array], Array]  # (permanent, transient, obs) -> [batch, outputs]
    transient: Callable[[Any, Array], Array]  # (transient, obs) -> [batch, outputs]
    reinit: Callable[[Key, Any], Any]  # reinitialises the transient weights, except those that both parts share
    input: Shape
    outputs: int
    has_permanent: bool = True
    permanent_static: bool = True
    """whether V^P of a state changes only at a consolidation; on a shared trunk it changes at every step"""
    activations: Callable[[Any, Array], list[Array]] | None = None
    """(transient, obs) -> the outputs of all layers of the transient network, V^T last, each [batch, ...]; None if not available"""
    scaled: Callable[[Any, float | Array], Any] | None = None
    """(transient, factor) -> transient weights with which V^T is multiplied by the factor; None if not available"""
    decayed: Callable[[Any, float | Array], Any] = decayed_weights
    """(transient, λ) -> all transient weights multiplied by λ, except those that both parts share"""
    networks: tuple[Network, ...] = ()
    """the transient network, and the permanent one if there is one; none if they share layers"""


def single(network: Network) -> ValueComposition:
    """One network, no permanent part: TD and DQN."""

    def permanent(_: Any, transient: Any, obs: Array) -> Array:
        del transient
        return jnp.zeros((len(obs), network.output[0]))

    return ValueComposition(
        init=lambda key: ((), network.init(key)),
        permanent=permanent,
        transient=network.apply,
        reinit=lambda key, _: network.init(key),
        input=network.input,
        outputs=_outputs(network),
        has_permanent=False,
        activations=network.activations,
        networks=(network,),
    )


def separate_networks(permanent: Network, transient: Network) -> ValueComposition:
    """Two networks without shared weights (paper, Algorithm 4)."""
    if (permanent.input, permanent.output) != (transient.input, transient.output):
        raise UserError(
            f"both networks need the same input and output shapes: {permanent.input} to {permanent.output} is not "
            f"{transient.input} to {transient.output}"
        )

    def init(key: Key) -> tuple[Any, Any]:
        k_permanent, k_transient = jax.random.split(key)
        return permanent.init(k_permanent), transient.init(k_transient)

    return ValueComposition(
        init=init,
        permanent=lambda weights, _, obs: permanent.apply(weights, obs),
        transient=transient.apply,
        reinit=lambda key, _: transient.init(key),
        input=transient.input,
        outputs=_outputs(transient),
        activations=transient.activations,
        scaled=transient.scaled,
        networks=(transient, permanent),
    )


class OnTrunk(NamedTuple):
    """Transient weights that include the trunk: only the transient loss trains it (paper, App. C.1.1)."""

    trunk: Any
    head: Any


def shared_trunk(trunk: Network, head: Network) -> ValueComposition:
    """A permanent and a transient head on one trunk. The permanent loss does not train the trunk."""

    def init(key: Key) -> tuple[Any, OnTrunk]:
        k_trunk, k_permanent, k_transient = jax.random.split(key, 3)
        return head.init(k_permanent), OnTrunk(trunk.init(k_trunk), head.init(k_transient))

    def permanent(weights: Any, transient: OnTrunk, obs: Array) -> Array:
        return head.apply(weights, jax.lax.stop_gradient(trunk.apply(transient.trunk, obs)))

    def activations(weights: OnTrunk, obs: Array) -> list[Array]:
        features = trunk.apply(weights.trunk, obs)
        return [*trunk.activations(weights.trunk, obs), *head.activations(weights.head, features)]

    def scaled(weights: OnTrunk, factor: float | Array) -> OnTrunk:
        assert head.scaled is not None
        return weights._replace(head=head.scaled(weights.head, factor))

    return ValueComposition(
        init=init,
        permanent=permanent,
        transient=lambda weights, obs: head.apply(weights.head, trunk.apply(weights.trunk, obs)),
        reinit=lambda key, weights: weights._replace(head=head.init(key)),
        input=trunk.input,
        outputs=_outputs(head),
        permanent_static=False,
        decayed=lambda weights, decay: weights._replace(head=decayed_weights(weights.head, decay)),
        activations=activations,
        scaled=scaled if head.scaled else None,
    )


def index_rows(parts: ValueComposition) -> ValueComposition:
    """For networks that compute all rows of a table (`networks.precomputed_inputs`), and observations that are row indices."""

    def permanent(weights: Any, transient: Any, number: Array) -> Array:
        if not parts.has_permanent:
            return parts.permanent(weights, transient, number)
        return parts.permanent(weights, transient, number)[number]

    def activations(weights: Any, number: Array) -> list[Array]:
        assert parts.activations is not None
        return [layer[number] for layer in parts.activations(weights, number)]

    return parts._replace(
        permanent=permanent,
        transient=lambda weights, number: parts.transient(weights, number)[number],
        activations=activations if parts.activations else None,
        networks=(),
    )


def _outputs(network: Network) -> int:
    if len(network.output) != 1:
        raise UserError(f"the output of a value network is a vector; this one has shape {network.output}")
    return network.output[0]


def taken(values: Array, output: Array) -> Array:
    """[batch, outputs] -> [batch] the values of the actions that were taken. By a mask: XLA fuses it, also its gradient, with what
    comes before, which it does not with an index."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[1]) == output[:, None], values, 0.0), axis=1)
