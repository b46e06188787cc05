"""A head for each task, around a learner that knows of no tasks.

The network has one output per task and action. The learner inside takes each of these outputs for an action of its own; the wrapper
outside sees `TaskObs(obs, task)`, acts on the outputs of the live task, and translates the action taken into its output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

from remanence.agents.base import Agent
from remanence.agents.behaviour import Behaviour
from remanence.agents.td import Problem
from remanence.core.errors import UserError
from remanence.core.types import Hypers, Key, TaskObs, Transition


class OutputProblem(NamedTuple):
    """A `Problem` in which the value of the next state may depend on the action taken: its output belongs to a head."""

    output: Callable[[Array], Any]  # action [] or [batch] -> output
    bootstrap: Callable[[Array, Array], Array]  # (values of the next state [outputs], action []) -> []


def one_head(problem: Problem) -> OutputProblem:
    """All outputs belong to the same head."""
    return OutputProblem(problem.output, lambda values, _: problem.bootstrap(values))


def head_per_task(problem: Problem, heads: int, outputs: int) -> OutputProblem:
    """What the learner inside learns: actions are outputs already, and the next state is worth what the same head says."""
    each = _outputs_per_head(heads, outputs)
    return OutputProblem(
        output=lambda action: action,
        bootstrap=lambda values, action: problem.bootstrap(values.reshape(heads, -1)[action // each]),
    )


def with_task_obs(
    inner: Agent,
    values: Callable[[Any, Array], Array],
    problem: Problem,
    behaviour: Behaviour,
    heads: int,
    outputs: int,
) -> Agent:
    """The wrapper outside.

    Args:
        inner: a learner with `head_per_task(problem, heads, outputs)`.
        values: (state, obs) -> [outputs] what the learner thinks of all outputs.
    """
    each = _outputs_per_head(heads, outputs)

    def act(state: Any, hypers: Hypers, obs: TaskObs, key: Key) -> Array:
        return behaviour(values(state, obs.obs).reshape(heads, -1)[obs.task], hypers, key)

    def learn(state: Any, hypers: Hypers, transition: Transition, key: Key) -> Any:
        obs, next_obs = transition.obs, transition.next_obs
        assert isinstance(obs, TaskObs), "an agent with heads gets TaskObs"
        assert isinstance(next_obs, TaskObs), "an agent with heads gets TaskObs"
        output = obs.task * each + problem.output(transition.action)
        return inner.learn(state, hypers, transition._replace(obs=obs.obs, next_obs=next_obs.obs, action=output), key)

    return inner._replace(act=act, learn=learn, task_aware=True)


def _outputs_per_head(heads: int, outputs: int) -> int:
    if heads < 1 or outputs % heads:
        raise UserError(f"{outputs} outputs cannot be shared equally by {heads} heads")
    return outputs // heads
