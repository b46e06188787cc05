"""TD learning, with or without a reset at each switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.base import AT_SWITCH, Agent
from remanence.agents.behaviour import Behaviour
from remanence.types import Hypers, Key, Transition
from remanence.updates import td_error
from remanence.values import Value

STATE_VALUE = 0  # the one output of a value function used for prediction


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TDHypers:
    """Numbers that may differ between lanes."""

    lr: float | Array


def evaluate(value: Value, weights: Any, lr: float | Array, transition: Transition) -> Any:
    """One semi-gradient TD(0) step:  w ← w + α δ_t ∇v(S_t)   (paper, §2, and Eq. 5 when `value` is V^P + V^T)."""
    now = value.apply(weights, transition.obs)[STATE_VALUE]
    then = value.apply(weights, transition.next_obs)[STATE_VALUE]
    error = td_error(now, transition.reward, transition.discount, then)
    return value.nudge(weights, transition.obs, STATE_VALUE, jnp.where(transition.real, lr * error, 0.0))


def td(value: Value, behaviour: Behaviour, reset: bool = False) -> Agent:
    """TD learning; with `reset`, the weights start anew at every switch the agent is told of."""

    def init(key: Key, hypers: TDHypers) -> Any:
        del hypers
        return value.init(key)

    def act(weights: Any, hypers: Hypers, obs: Array, key: Key) -> Array:
        return behaviour(value.apply(weights, obs), hypers, key)

    def learn(weights: Any, hypers: TDHypers, transition: Transition, key: Key) -> Any:
        del key
        return evaluate(value, weights, hypers.lr, transition)

    def consolidate(weights: Any, hypers: TDHypers, key: Key) -> Any:
        return init(key, hypers) if reset else weights

    def inspect(weights: Any, obs: Array) -> dict[str, Array]:
        return {"value": value.apply(weights, obs)}

    return Agent(init, act, learn, consolidate, inspect, rhythm=AT_SWITCH if reset else None)
