"""Which learner an agent uses: one compiled by XLA, or a native one (`agents/native`)."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax

from remanence.agents.base import Agent
from remanence.core import hostcall
from remanence.core.errors import UserError, unknown
from remanence.core.learners import AUTO, LEARNERS, NATIVE, XLA


class Chosen(NamedTuple):
    """An agent with its learner."""

    agent: Agent
    learner: str
    why: str


class NoNativeLearner(UserError):
    """A native learner was asked for, and the agent has none."""

    def __init__(self, name: str, why_not: str) -> None:
        super().__init__(f"{name} has no native learner: {why_not}. Use --learner auto or xla")
        self.why_not = why_not


def choose_learner(agent: Agent, asked: str = AUTO, name: str = "this agent") -> Chosen:
    """The agent with the learner that was asked for. "auto": the native one if there is one.

    If its kernels cannot be compiled, "auto" warns and takes XLA.
    """
    if asked not in LEARNERS:
        raise unknown("learner", asked, LEARNERS)
    if asked == XLA:
        return Chosen(agent, XLA, "asked for")
    if isinstance(agent.native, str):
        why_not = agent.native
    elif jax.default_backend() != "cpu":
        why_not = f"it runs on {jax.default_backend()}, not on the CPU"
    elif not hostcall.interface_supported():
        why_not = "this version of jax has another interface for native calls"
    else:
        try:
            return Chosen(agent.native(), NATIVE, "its observations are bits and its layers have kernels")
        except Exception as error:  # whatever a compiler may raise
            why_not = f"its kernels cannot be compiled ({type(error).__name__}: {error})"
            if asked == AUTO:
                warnings.warn(f"{name} learns without the native learner: {why_not}", stacklevel=2)
    if asked == NATIVE:
        raise NoNativeLearner(name, why_not)
    return Chosen(agent, XLA, why_not)
