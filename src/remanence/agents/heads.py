"""A head for each task, as a wrapper around a learner that does not observe the task.

The network has one output per task and action. The inner learner treats each output as an action. The wrapper observes
`TaskObs(obs, task)`, acts on the outputs of the current task, and maps the action to its output.
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
    """A `Problem` in which the value of the next state may depend on the action, because the action selects a head."""

    output: Callable[[Array], Any]  # action [] or [batch] -> output
    head: Callable[[Array, Array], Array]  # (values of the next state [outputs], action []) -> those of its head


def one_head(problem: Problem) -> OutputProblem:
    """All outputs belong to the same head."""
    return OutputProblem(problem.output, lambda values, _: values)


def head_per_task(heads: int, outputs: int) -> OutputProblem:
    """The problem of the inner learner: actions are outputs, and the next state is evaluated by the same head."""
    each = _outputs_per_head(heads, outputs)
    return OutputProblem(
        output=lambda action: action,
        head=lambda values, action: values.reshape(heads, -1)[action // each],
    )


def with_task_obs(
    inner: Agent,
    values: Callable[[Any, Array], Array],
    problem: Problem,
    behaviour: Behaviour,
    heads: int,
    outputs: int,
    steps: Callable[[Any], Array | int],
) -> Agent:
    """The wrapper.

    Args:
        inner: a learner with `head_per_task(heads, outputs)`.
        values: (state, obs) -> [outputs] the values of all outputs.
        steps: state -> the step of a schedule.
    """
    each = _outputs_per_head(heads, outputs)

    def act(state: Any, hypers: Hypers, obs: TaskObs, key: Key) -> Array:
        return behaviour(values(state, obs.obs).reshape(heads, -1)[obs.task], hypers, key, steps(state))

    def learn(state: Any, hypers: Hypers, transition: Transition, key: Key) -> Any:
        obs, next_obs = transition.obs, transition.next_obs
        assert isinstance(obs, TaskObs), "an agent with heads gets TaskObs"
        assert isinstance(next_obs, TaskObs), "an agent with heads gets TaskObs"
        output = obs.task * each + problem.output(transition.action)
        return inner.learn(state, hypers, transition._replace(obs=obs.obs, next_obs=next_obs.obs, action=output), key)

    return inner._replace(act=act, learn=learn, task_aware=True)


def _outputs_per_head(heads: int, outputs: int) -> int:
    if heads < 1 or outputs % heads:
        raise UserError(f"{outputs} outputs cannot be split equally between {heads} heads")
    return outputs // heads
