"""Modules of other libraries as layers: Flax, Haiku, Equinox. None of them is imported: only their functions are called.

A module comes in one of two forms:

- with `init(key, x)` and `apply(weights, x)` for batches, as Flax (linen) and Haiku have them;
- made by a function of a key, as in Equinox and Flax (nnx): a pytree that is called with one input. Its floating-point arrays are
  the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.networks import Layer, Shape
from remanence.core.errors import UserError, calling
from remanence.core.types import Key


@dataclass(frozen=True)
class Module(Layer):
    """A module with `init` and `apply`, for batches."""

    module: Any

    def shape(self, input_shape: Shape) -> Shape:
        weights = jax.eval_shape(lambda key: self.init_weights(key, input_shape), jax.random.key(0))
        return _output_shape(self.apply, weights, input_shape)

    def init_weights(self, key: Key, input_shape: Shape) -> Any:
        weights = calling("init of the network", self.module.init, key, jnp.zeros((1, *input_shape)))
        if state := _state_of(weights):
            raise UserError(
                f"the network has state beside its weights ({', '.join(state)}): a layer such as BatchNorm cannot be used, "
                "LayerNorm can"
            )
        return weights

    def apply(self, weights: Any, x: Array) -> Array:
        return calling("the network", self.module.apply, weights, x)

    @property
    def label(self) -> str:
        return type(self.module).__name__


@dataclass(frozen=True)
class KeyedModule(Layer):
    """A module that a function of a key makes, for one input."""

    make: Callable[[Key], Any]

    def shape(self, input_shape: Shape) -> Shape:
        weights = jax.eval_shape(lambda key: self.init_weights(key, input_shape), jax.random.key(0))
        return _output_shape(self.apply, weights, input_shape)

    def init_weights(self, key: Key, input_shape: Shape) -> list[Array]:
        del input_shape
        return [leaf for leaf in self._leaves(key)[0] if _is_weight(leaf)]

    def apply(self, weights: list[Array], x: Array) -> Array:
        leaves, structure = self._rest
        remaining = iter(weights)
        module = jax.tree.unflatten(structure, [next(remaining) if _is_weight(leaf) else leaf for leaf in leaves])
        return calling("the network", jax.vmap(module), x)

    def _leaves(self, key: Key) -> tuple[list[Any], Any]:
        return jax.tree.flatten(calling("making the network", self.make, key))

    @cached_property
    def _rest(self) -> tuple[list[Any], Any]:
        """The leaves of one such module, of which all but the weights are used, and its structure."""
        with jax.ensure_compile_time_eval():
            return self._leaves(jax.random.key(0))

    @property
    def label(self) -> str:
        return getattr(self.make, "__name__", "module")


def as_layer(part: Any) -> Any:
    """A layer, a module or a function that makes one, as a layer; anything else as it is, to be refused where it is checked."""
    if all(hasattr(part, name) for name in ("shape", "init_weights", "apply")):
        return part
    if hasattr(part, "init") and hasattr(part, "apply") and not isinstance(part, type):
        return Module(part)
    if callable(part) and hasattr(part, "__code__"):
        return KeyedModule(part)
    if callable(part) and jax.tree.leaves(part) != [part]:
        raise UserError(
            f"a network is made anew for every seed: give a function of a key, lambda key: {type(part).__name__}(…, key=key)"
        )
    return part


def _state_of(variables: Any) -> list[str]:
    """The names of what a module has beside its weights. Flax keeps these under "params" and state beside them; Haiku names the
    weights by module, and returns a pair if there is state."""
    if isinstance(variables, tuple) and len(variables) == 2:
        return list(variables[1])
    return (
        [name for name in variables if name != "params"]
        if isinstance(variables, dict) and "params" in variables
        else []
    )


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _output_shape(apply: Callable[[Any, Array], Array], weights: Any, input_shape: Shape) -> Shape:
    output = jax.eval_shape(apply, weights, jax.ShapeDtypeStruct((2, *input_shape), jnp.float32))
    if not isinstance(output, jax.ShapeDtypeStruct) or output.shape[:1] != (2,):
        raise UserError("a network maps a batch of inputs to one array, a row for each input")
    return output.shape[1:]
