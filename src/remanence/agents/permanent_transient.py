"""Permanent and transient value functions around one and the same learner.

The transient part is learned by an ordinary learner that is handed the value function

    v(w^T, s) = V^P(s) + V^T(w^T, s)                               (paper, Eq. 1)

with V^P held fixed. The permanent part moves only in `consolidate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from remanence import memory
from remanence.agents.base import AT_SWITCH, Agent, Rhythm
from remanence.agents.behaviour import Behaviour
from remanence.agents.td import CONTROL, PREDICTION, Problem, improve
from remanence.errors import UserError
from remanence.memory import Ring
from remanence.types import Key, Transition
from remanence.updates import decayed, permanent_error
from remanence.values import Value


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PTHypers:
    """Numbers that may differ between lanes. `decay` is λ: 0 forgets the transient part at each consolidation."""

    permanent_lr: float | Array
    transient_lr: float | Array
    decay: float | Array = 0.0


class PTState(NamedTuple):
    permanent: Any  # weights of V^P
    transient: Any  # weights of V^T
    visited: Ring  # states, and the outputs they are about, since the last consolidation (the paper's buffer B)
    lost: Array  # [] states a full buffer dropped before they were consolidated


def on_top_of(value: Value, permanent: Any) -> Value:
    """The value function V^P + V^T as a function of the transient weights alone (Eq. 1)."""

    def apply(transient: Any, obs: Array) -> Array:
        return value.apply(permanent, obs) + value.apply(transient, obs)

    return value._replace(apply=apply)


def pt_td(value: Value, behaviour: Behaviour, example_obs: ArrayLike, buffer: int, rhythm: Rhythm = AT_SWITCH) -> Agent:
    """PT-TD (Algorithm 1), and its general form: any rhythm of consolidation, any decay. See `permanent_transient`."""
    return permanent_transient(PREDICTION, value, behaviour, example_obs, buffer, rhythm)


def pt_q(
    value: Value,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    buffer: int,
    rhythm: Rhythm = AT_SWITCH,
    clear: bool = True,
) -> Agent:
    """PT-Q-learning: semi-continual (Algorithm 2) at told switches, continual (Algorithm 3) in any other rhythm."""
    return permanent_transient(CONTROL, value, behaviour, example_obs, buffer, rhythm, clear)


def permanent_transient(
    problem: Problem,
    value: Value,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    buffer: int,
    rhythm: Rhythm,
    clear: bool = True,
) -> Agent:
    """An agent in two parts, each with weights of its own, around the learner of `td.py`.

    Args:
        problem: prediction or control.
        value: the form of both parts.
        example_obs: [*obs] tells the buffer what it will hold.
        buffer: how many samples are kept for consolidation; the newest ones if there are more.
        rhythm: when to consolidate; at observed switches, or every k episodes or steps.
        clear: whether consolidation empties the buffer, as in the paper; the authors' continual agent kept it.
    """
    if buffer < 1:
        raise UserError(f"a buffer must hold at least one sample; got {buffer}")

    def init(key: Key, hypers: PTHypers) -> PTState:
        del hypers
        k_permanent, k_transient = jax.random.split(key)
        visited = memory.make_ring((example_obs, np.int8(0)), buffer)
        return PTState(value.init(k_permanent), value.init(k_transient), visited, jnp.int32(0))

    def act(state: PTState, hypers: PTHypers, obs: Array, key: Key) -> Array:
        return behaviour(on_top_of(value, state.permanent).apply(state.transient, obs), hypers, key)

    def learn(state: PTState, hypers: PTHypers, transition: Transition, key: Key) -> PTState:
        del key
        combined = on_top_of(value, state.permanent)
        sample = (transition.obs, problem.output(transition.action))
        return state._replace(
            transient=improve(problem, combined, state.transient, hypers.transient_lr, transition),
            visited=memory.append(state.visited, sample, transition.real),
        )

    def consolidate(state: PTState, hypers: PTHypers, key: Key) -> PTState:
        """One pass over the buffer in the order of visits (Eq. 4, App. A), then decay and an empty buffer."""
        del key
        combined = on_top_of(value, state.permanent)  # frozen: the targets do not move during the pass

        def absorb(permanent: Any, sample: tuple[Array, Array], real: Array) -> Any:
            obs, output = sample
            target = combined.apply(state.transient, obs)[output]
            error = permanent_error(target, value.apply(permanent, obs)[output])
            return value.nudge(permanent, obs, output, jnp.where(real, hypers.permanent_lr * error, 0.0))

        return PTState(
            permanent=memory.fold(absorb, state.permanent, state.visited),
            transient=jax.tree.map(lambda weights: decayed(weights, hypers.decay), state.transient),
            visited=memory.emptied(state.visited) if clear else state.visited,
            # A buffer that is never cleared is meant to keep the newest samples only: nothing is lost there.
            lost=state.lost + memory.overwritten(state.visited) if clear else state.lost,
        )

    def inspect(state: PTState, obs: Array) -> dict[str, Array]:
        permanent, transient = value.apply(state.permanent, obs), value.apply(state.transient, obs)
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    return Agent(init, act, learn, consolidate, inspect, rhythm, samples_lost=lambda state: state.lost)
