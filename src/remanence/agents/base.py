"""The contract between an agent and the loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import Array

from remanence.core.errors import UserError
from remanence.core.types import AgentState, Duration, Hypers, Key, Transition


@dataclass(frozen=True)
class AtSwitch:
    """Consolidate whenever the stream tells that the task changed."""


AT_SWITCH = AtSwitch()
ConsolidateEvery: TypeAlias = AtSwitch | Duration | None


def check_hyper(name: str, value: float) -> None:
    """Step sizes are finite and not negative; decays are in [0, 1]."""
    if not math.isfinite(value) or value < 0:
        raise UserError(f"{name} must be a finite number that is not negative; got {value}")
    if name.endswith("decay") and value > 1:
        raise UserError(f"{name} must be between 0 and 1; got {value}")


def check_hypers(hypers: Hypers) -> None:
    """The same for a whole set, where it has names."""
    if dataclasses.is_dataclass(hypers):
        for field in dataclasses.fields(hypers):
            check_hyper(field.name, float(getattr(hypers, field.name)))


class Agent(NamedTuple):
    """Pure functions for one lane; all memory is in the agent's state.

    `learn` is called at every step of every lane, also while a lane waits for the others (`transition.valid` is False):
    it must then return the state unchanged. `consolidate` is called by the loop in the agent's own `consolidate_every`: at switches
    it is told of, every k episodes or steps, or never.
    """

    init: Callable[[Key, Hypers], AgentState]
    act: Callable[[AgentState, Hypers, Array, Key], Array]
    learn: Callable[[AgentState, Hypers, Transition, Key], AgentState]
    consolidate: Callable[[AgentState, Hypers, Key], AgentState]
    inspect: Callable[[AgentState, Array], dict[str, Array]]
    """(state, obs) -> what the agent believes of obs, by part: "value", and for PT "permanent" and "transient"; each [outputs]"""
    consolidate_every: ConsolidateEvery = None
    task_aware: bool = False
    """whether observations come as `Told(obs, task)`: for baselines that are told which task is live"""
    samples_dropped: Callable[[AgentState], Array] = lambda _: jnp.int32(0)
    """how many samples a full buffer dropped before they could be consolidated: reported, never silent"""
    workload: Callable[[AgentState], Array] = lambda _: jnp.int32(1)
    """how long consolidation would take now, in any unit: lanes with much to do need not hold up the others"""
    features: Callable[[AgentState, Array], Array] | None = None
    """(state, obs) -> activations of the last hidden layer of the (transient) network; None where there is no network"""
    activations: Callable[[AgentState, Array], list[Array]] | None = None
    """(state, obs) -> the output of every layer of that network, the values last"""
