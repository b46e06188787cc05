"""PT-TD and PT-Q-learning: permanent and transient value functions with the learner of `td.py`.

The transient part is learned by an ordinary learner for the value function

    v(w^T, s) = V^P(s) + V^T(w^T, s)                               (paper, Eq. 2)

with V^P fixed. The permanent part changes only in `consolidate`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from remanence.agents.base import AT_SWITCH, Agent, ConsolidateEvery
from remanence.agents.behaviour import Behaviour
from remanence.agents.linear import Value
from remanence.agents.td import CONTROL, PREDICTION, Problem, td_update
from remanence.agents.visits import visit_buffer, visit_counts
from remanence.core.types import Hypers, Key, Transition
from remanence.updates import absorbed, decayed


class PTState(NamedTuple):
    permanent: Any  # weights of V^P
    transient: Any  # weights of V^T
    visited: Any  # visits since the last consolidation (the paper's buffer B)
    dropped: Array  # [] visits that a full buffer dropped before they were consolidated


def on_top_of(value: Value, permanent: Any) -> Value:
    """The value function V^P + V^T as a function of the transient weights (Eq. 2)."""

    def apply(transient: Any, obs: Array) -> Array:
        return value.apply(permanent, obs) + value.apply(transient, obs)

    return value._replace(apply=apply)


def pt_td(
    value: Value,
    behaviour: Behaviour,
    example_obs: ArrayLike = 0,
    buffer: int | None = None,
    consolidate_every: ConsolidateEvery = AT_SWITCH,
    absorbs: bool = False,
) -> Agent:
    """PT-TD (Algorithm 1), generalised to any consolidation interval and decay. See `permanent_transient`."""
    return permanent_transient(PREDICTION, value, behaviour, example_obs, buffer, consolidate_every, True, absorbs)


def pt_q(
    value: Value,
    behaviour: Behaviour,
    example_obs: ArrayLike = 0,
    buffer: int | None = None,
    consolidate_every: ConsolidateEvery = AT_SWITCH,
    clear: bool = True,
    absorbs: bool = False,
) -> Agent:
    """PT-Q-learning: semi-continual (Algorithm 3) if it consolidates at known task boundaries, else continual (Algorithm 2)."""
    return permanent_transient(CONTROL, value, behaviour, example_obs, buffer, consolidate_every, clear, absorbs)


def permanent_transient(
    problem: Problem,
    value: Value,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    buffer: int | None,
    consolidate_every: ConsolidateEvery,
    clear: bool,
    absorbs: bool,
) -> Agent:
    """An agent with a permanent and a transient part, each with its own weights.

    Args:
        problem: prediction or control.
        value: the function class of both parts.
        example_obs: [*obs] an observation, for the buffer's shape and dtype.
        buffer: how many visits are stored for consolidation, the newest ones; None: all, as counts (tables only).
        consolidate_every: at known task boundaries, or every k episodes or steps.
        clear: whether consolidation empties the buffer, as in the paper; the authors' continual agent does not.
        absorbs: whether V^P absorbs the share `hypers.absorb` of V^T exactly, instead of by steps of size `hypers.permanent_lr`.
    """
    visits = (
        visit_counts(problem, value) if buffer is None else visit_buffer(problem, value, example_obs, buffer, clear)
    )

    def init(key: Key, hypers: Hypers) -> PTState:
        del hypers
        k_permanent, k_transient = jax.random.split(key)
        return PTState(value.init(k_permanent), value.init(k_transient), visits.init(key), jnp.int32(0))

    def act(state: PTState, hypers: Hypers, obs: Array, key: Key) -> Array:
        return behaviour(on_top_of(value, state.permanent).apply(state.transient, obs), hypers, key)

    def learn(state: PTState, hypers: Hypers, transition: Transition, key: Key) -> PTState:
        del key
        combined = on_top_of(value, state.permanent)
        return state._replace(
            transient=td_update(problem, combined, state.transient, hypers.transient_lr, transition),
            visited=visits.add(state.visited, transition),
        )

    def consolidate(state: PTState, hypers: Hypers, key: Key, active: Array | bool) -> PTState:
        """One pass over all visits (Eq. 4, App. A), or a share; then the transient part decays and the buffer is emptied."""
        del key
        if absorbs:  # values are linear in the weights: V^P absorbs the share in every state
            permanent = jax.tree.map(lambda p, t: absorbed(p, t, hypers.absorb), state.permanent, state.transient)
        else:
            permanent = visits.permanent_update(
                state.visited, state.permanent, state.transient, hypers.permanent_lr, active
            )
        return PTState(
            permanent=permanent,
            transient=jax.tree.map(lambda weights: decayed(weights, hypers.decay), state.transient),
            visited=visits.after_consolidation(state.visited),
            dropped=state.dropped + visits.dropped(state.visited),
        )

    def inspect(state: PTState, obs: Array) -> dict[str, Array]:
        permanent, transient = value.apply(state.permanent, obs), value.apply(state.transient, obs)
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    return Agent(
        init,
        act,
        learn,
        consolidate,
        inspect,
        consolidate_every,
        samples_dropped=lambda state: state.dropped,
        policy_state=lambda state: state._replace(visited=(), dropped=()),
        visited=lambda state: visits.visited(state.visited),
    )
