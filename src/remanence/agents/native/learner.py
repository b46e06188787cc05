"""The deep learner with native calls in place of compiled gradients: the same state, replay buffer and random numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from remanence.agents import ring as rings
from remanence.agents.composition import ValueComposition, separate_networks, single
from remanence.agents.dqn import DeepLearner, DeepState, transient_lr
from remanence.agents.native import calls
from remanence.agents.native.kernels import ADAM, RMSPROP, SGD
from remanence.agents.native.support import network_shape
from remanence.agents.networks import Network
from remanence.agents.replay import Replay
from remanence.agents.ring import Ring
from remanence.agents.td import PREDICTION
from remanence.agents.training import RMSPROP_OF_DQN
from remanence.core.types import Hypers, Key, Transition

KINDS = {"sgd": SGD, "adam": ADAM, RMSPROP_OF_DQN: RMSPROP}
STATE_FIELDS = {"adam": ("mu", "nu"), RMSPROP_OF_DQN: ("mu", "nu", "trace")}
_NONE: Any = np.zeros(1, np.float32)  # for what a learner does not have


def make_native(learner: DeepLearner) -> NativeLearner:
    """The native version of a learner; `why_not_native` has no objection. The kernels are compiled here, or loaded."""
    calls.register()
    fields = {field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)}
    return NativeLearner(**{**fields, "parts": _native_parts(learner.parts)})


class NativeLearner(DeepLearner):
    """Its networks are evaluated natively, and so are the two steps that change weights."""

    def learn(self, state: DeepState, hypers: Hypers, transition: Transition, key: Key) -> DeepState:
        state, valid = self.store(state, transition), transition.valid  # lines 7, 8
        steps, every = state.steps + valid, self.training.target_every
        transient, opt_state, target = self._step(  # lines 9 to 12
            self.training.optimizer,
            self.replay,
            state.replay,
            self.replay.draw_ages(state.replay, key, self.training.batch),
            state.transient,
            state.opt_state,
            transient_lr(hypers),
            self.can_learn(state, valid),
            target=state.target,
            copy=valid & (steps % every == 0) if every else jnp.bool_(False),
        )
        return state._replace(transient=transient, opt_state=opt_state, target=target, steps=steps)

    def permanent_step(
        self,
        state: DeepState,
        hypers: Hypers,
        ages: Array,
        permanent: tuple[Any, Any],
        ready: Array,
        share: float | Array = 1.0,
        lr: Array | None = None,
    ) -> tuple[Any, Any]:
        weights, opt_state, _ = self._step(
            self.consolidation.optimizer,
            self.visits,
            state.visited,
            ages,
            *permanent,
            hypers.permanent_lr if lr is None else lr,
            ready,
            transient=state.transient,
            share=share,
        )
        return weights, opt_state

    def _step(
        self,
        optimizer: Any,
        replay: Replay,
        ring: Ring,
        ages: Array,
        weights: Any,
        opt_state: Any,
        lr: float | Array,
        learn: Array,
        target: Any = (),
        copy: Array | bool = False,
        transient: Any = (),
        share: float | Array = 1.0,
    ) -> tuple[Any, Any, Any]:
        """One update of weights, optimizer state and target network.

        Args: transient, share: for a step of the permanent network, the transient one and the share of it that is absorbed.
        """
        scale: float | Array = 1.0
        if optimizer == "adam":
            opt_state, lr, scale = _counted(opt_state, lr, learn)
        fields = STATE_FIELDS.get(optimizer, ())
        trees = [
            weights,
            *(getattr(opt_state, name) for name in fields),
            *([target] if jax.tree.leaves(target) else []),
        ]
        leaves, structure = jax.tree.flatten(trees)
        shape = self._shape(
            optimizer, replay, ages, has_target=len(jax.tree.leaves(target)) > 0, consolidates=bool(transient)
        )
        batch = _batch(ring, ages, consolidates=bool(transient))
        new = jax.tree.unflatten(
            structure, calls.step(shape, leaves, batch, lr, scale, learn, copy, jax.tree.leaves(transient), share)
        )
        if fields:
            opt_state = opt_state._replace(**dict(zip(fields, new[1:], strict=False)))
        return new[0], opt_state, new[-1] if shape.has_target else target

    def _shape(
        self, optimizer: Any, replay: Replay, ages: Array, has_target: bool, consolidates: bool
    ) -> calls.StepShape:
        network = network_shape(self.parts.networks[0])
        assert network is not None
        return calls.StepShape(
            network,
            ages.shape[0],
            KINDS[optimizer],
            replay.slots,
            replay.frames,
            np.shape(self.example_obs),
            self.parts.outputs // self.heads,
            one_output=self.problem is PREDICTION,
            consolidates=consolidates,
            wide_output=self.parts.outputs > 128,
            implicit_next=replay.implicit,
            cached=self.use_cache and not consolidates,
            has_target=has_target,
            huber=self.training.loss == "huber" and not consolidates,
        )


def _counted(opt_state: Any, lr: float | Array, learn: Array) -> tuple[Any, Any, Any]:
    """Adam's state with the count of this step, and its two corrections, as optax computes them: of the step size, and a factor."""
    count = jnp.asarray(optax.safe_increment(opt_state.count))
    first, second = 1 - 0.9**count, 1 - 0.999**count
    opt_state = opt_state._replace(count=jnp.where(learn, count, opt_state.count))
    return opt_state, lr / first, 1 / second


def _batch(ring: Ring, ages: Array, consolidates: bool) -> calls.Batch:
    """The arrays of a ring, in the order that the handler expects; what is not there is not read."""
    now, extras = ring.items["now"], ring.items["extras"]
    following = ring.items.get("next", now)
    has_cache = not consolidates and not isinstance(now["cached"], tuple)
    return calls.Batch(
        rings.overwritten(ring),
        ages.astype(jnp.int32),
        now["frame"],
        following["frame"] if following is not now else _NONE,
        now.get("before", _NONE),
        ring.items.get("cut", _NONE),
        extras["output"] if consolidates else extras["action"],
        extras["value"] if consolidates else extras["reward"],
        _NONE if consolidates else extras["discount"],
        now["cached"] if has_cache else _NONE,
        following["cached"] if has_cache else _NONE,
    )


def _native_parts(parts: ValueComposition) -> ValueComposition:
    networks = [_native_network(network) for network in parts.networks]
    return separate_networks(networks[1], networks[0]) if parts.has_permanent else single(networks[0])


def _native_network(network: Network) -> Network:
    """The same network, evaluated natively where its inputs are bits."""
    shape = network_shape(network)
    assert shape is not None

    def apply(weights: Any, obs: Array) -> Array:
        if obs.dtype not in (jnp.bool_, jnp.uint8):  # a replay buffer gives bits as bytes
            return network.apply(weights, obs)
        return calls.values(shape, jax.tree.leaves(weights), obs)

    return network._replace(apply=apply)
