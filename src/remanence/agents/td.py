"""TD learning and Q-learning: one learner, with or without a reset at known task boundaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from remanence.agents.base import AT_SWITCH, Agent, Visited
from remanence.agents.behaviour import Behaviour, uniform
from remanence.agents.linear import Value, table_entries
from remanence.core.types import Hypers, Key, Transition
from remanence.updates import td_error


class Problem(NamedTuple):
    """Prediction or control: which output a transition updates, and the value of the next state."""

    output: Callable[[Array], Any]  # action [] -> output []
    bootstrap: Callable[[Array], Array]  # values of the next state [outputs] -> []


PREDICTION = Problem(output=lambda _: 0, bootstrap=lambda values: values[0])  # the value of the behaviour policy
CONTROL = Problem(output=lambda action: action, bootstrap=jnp.max)  # the value of the greedy policy


def td_update(problem: Problem, value: Value, weights: Any, lr: float | Array, transition: Transition) -> Any:
    """One semi-gradient step:  w ← w + α δ_t ∇v(S_t)

    For prediction, v is the state value (paper, §2, and Eq. 5 when `value` is V^P + V^T). For control, it is the value of the
    action, and the next state has the value of its best action (Q-learning; App. A when `value` is Q^P + Q^T).
    """
    output = problem.output(transition.action)
    value_now = value.apply(weights, transition.obs)[output]
    next_value = problem.bootstrap(value.apply(weights, transition.next_obs))
    error = td_error(value_now, transition.reward, transition.discount, next_value)
    return value.add_scaled_gradient(weights, transition.obs, output, jnp.where(transition.valid, lr * error, 0.0))


def _learner(problem: Problem, value: Value, behaviour: Behaviour, reset: bool) -> Agent:
    def init(key: Key, hypers: Hypers) -> Any:
        del hypers
        return value.init(key)

    def act(weights: Any, hypers: Hypers, obs: Array, key: Key) -> Array:
        return behaviour(value.apply(weights, obs), hypers, key)

    def learn(weights: Any, hypers: Hypers, transition: Transition, key: Key) -> Any:
        del key
        return td_update(problem, value, weights, hypers.lr, transition)

    def consolidate(weights: Any, hypers: Hypers, key: Key, active: Array | bool) -> Any:
        del active
        return init(key, hypers) if reset else weights

    def inspect(weights: Any, obs: Array) -> dict[str, Array]:
        return {"value": value.apply(weights, obs)}

    def visited(weights: Any) -> Visited:
        """Entries that learned something: the agent does not remember visits."""
        return table_entries((weights != 0).astype(jnp.float32))

    return Agent(
        init,
        act,
        learn,
        consolidate,
        inspect,
        consolidate_every=AT_SWITCH if reset else None,
        visited=visited if value.closed_form_step else None,
    )


def td(value: Value, behaviour: Behaviour, reset: bool = False) -> Agent:
    """TD learning; with `reset`, the weights are reinitialised at every known task boundary."""
    return _learner(PREDICTION, value, behaviour, reset)


def q_learning(value: Value, behaviour: Behaviour, reset: bool = False) -> Agent:
    """Q-learning; with `reset`, the weights are reinitialised at every known task boundary."""
    return _learner(CONTROL, value, behaviour, reset)


def random_agent(actions: int) -> Agent:
    """Acts uniformly and learns nothing."""
    behaviour = uniform(actions)

    def act(state: Array, hypers: Hypers, obs: Array, key: Key) -> Array:
        del obs
        return behaviour(state, hypers, key)

    return Agent(
        init=lambda *_: jnp.float32(0),
        act=act,
        learn=lambda state, *_: state,
        consolidate=lambda state, *_: state,
        inspect=lambda *_: {"value": jnp.zeros(actions)},
    )
