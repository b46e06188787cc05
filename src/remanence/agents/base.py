"""The contract between an agent and the loop, and between a configuration and an agent."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax.numpy as jnp
from jax import Array

from remanence.core.errors import UserError
from remanence.core.types import AgentState, Duration, EnvSpec, Hypers, Key, Transition

NO_NETWORK = "it has no deep network"  # why an agent has no native learner
_PER_LANE = "may differ between lanes of one compiled program"
PerLane: TypeAlias = Annotated[float, _PER_LANE]
PerLaneOrDefault: TypeAlias = Annotated[float | None, _PER_LANE]  # None becomes a number when the configuration is made
PerLaneOrNone: TypeAlias = Annotated[float | None, _PER_LANE]  # None: the agent is one without this number


@dataclass(frozen=True)
class AtSwitch:
    """Consolidate at every known task boundary."""


AT_SWITCH = AtSwitch()
ConsolidateEvery: TypeAlias = AtSwitch | Duration | None


def check_hyper(name: str, value: float) -> None:
    """Step sizes are finite and not negative; decays and shares are in [0, 1]."""
    if not math.isfinite(value) or value < 0:
        raise UserError(f"{name} must be a finite number that is not negative; got {value}")
    if name.endswith(("decay", "absorb")) and value > 1:
        raise UserError(f"{name} must be between 0 and 1; got {value}")


def check_hypers(hypers: Any) -> None:
    """Checks all hyper-parameters, if they are named."""
    if isinstance(hypers, Hypers):
        for name, value in vars(hypers).items():
            check_hyper(name, float(value))


class Visited(NamedTuple):
    """States and actions that an agent visited: where its values are measured."""

    obs: Array  # [n, *obs] as `inspect` takes them
    output: Array  # [n] the output of the action taken
    weight: Array  # [n] how often; 0 where there is none


class Agent(NamedTuple):
    """Pure functions for one lane; everything an agent remembers is in its state.

    `learn` is called at every step of every lane, also while a lane waits for others (`transition.valid` is False):
    it must then return the state unchanged. `consolidate` is called every `consolidate_every`: at known task boundaries, every k
    episodes or steps, or never. An agent that loops over a count that depends on its data bounds the loop by
    `max_over_lanes(count, active)`.
    """

    init: Callable[[Key, Any], AgentState]
    act: Callable[[AgentState, Any, Array, Key], Array]
    learn: Callable[[AgentState, Any, Transition, Key], AgentState]
    consolidate: Callable[[AgentState, Any, Key, Array | bool], AgentState]
    """(state, hypers, key, active) -> state; where `active` [] is False the loop discards the result"""
    inspect: Callable[[AgentState, Array], dict[str, Array]]
    """(state, obs) -> the values of obs, by part: "value", and for PT "permanent" and "transient"; each [outputs]"""
    consolidate_every: ConsolidateEvery = None
    task_aware: bool = False
    """whether observations are `TaskObs(obs, task)`: for baselines that observe the current task"""
    samples_dropped: Callable[[AgentState], Array] = lambda _: jnp.int32(0)
    """the number of samples that a full buffer dropped before they were consolidated; it is reported"""
    policy_state: Callable[[AgentState], AgentState] = lambda state: state
    """the part of the state that `act` and `inspect` need, which a saved policy contains; buffers become ()"""
    features: Callable[[AgentState, Array], Array] | None = None
    """(state, obs) -> activations of the last hidden layer of the (transient) network; None if there is no network"""
    activations: Callable[[AgentState, Array], list[Array]] | None = None
    """(state, obs) -> the outputs of all layers of that network; the last one is the values"""
    visited: Callable[[AgentState], Visited] | None = None
    """(state) -> states visited recently, for a PT agent since its last consolidation; None if the agent does not know them"""
    learned_reward: Callable[[Array], Array] = lambda reward: reward
    """a reward as the agent learns from it, scaled or clipped: its values are about these"""
    native: Callable[[], Agent] | str = NO_NETWORK
    """makes the same agent with a native learner (`agents/learners.py`), or says why there is none"""


@runtime_checkable
class AgentConfig(Protocol):
    """A frozen dataclass that fully describes an agent, and builds it for an environment.

    Fields typed `PerLane` reach the agent as `hypers`, and lanes of one compiled program may differ in them. All other fields
    determine the program. The same object serves `live`, experiments, sweeps, the description and hash of a run, `--set`, and
    saved policies.
    """

    @property
    def name(self) -> str: ...

    def build(self, spec: EnvSpec) -> Agent: ...


@cache
def per_lane_fields(kind: type) -> tuple[str, ...]:
    """The names of the fields of a configuration that may differ between lanes."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple(
        field.name for field in dataclasses.fields(kind) if _PER_LANE in getattr(hints[field.name], "__metadata__", ())
    )


def hypers_of(config: AgentConfig) -> Any:
    """The values of a configuration that may differ between lanes; a configuration may define `hypers` itself."""
    hypers = getattr(config, "hypers", None)
    if hypers is not None:
        return hypers
    values = {name: getattr(config, name) for name in per_lane_fields(type(config))}
    return Hypers(**{name: value for name, value in values.items() if value is not None})


def program_of(config: AgentConfig) -> Hashable:
    """What determines the compiled program: configurations with the same value can share one."""
    lanes = per_lane_fields(type(config)) if dataclasses.is_dataclass(config) else ()
    fields = dataclasses.fields(config) if dataclasses.is_dataclass(config) else ()
    absent = tuple(name for name in lanes if getattr(config, name) is None)
    return type(config), absent, *(getattr(config, field.name) for field in fields if field.name not in lanes)


@dataclass(frozen=True)
class BuiltAgent:
    """An `Agent` as a configuration: for agents that users build themselves."""

    agent: Agent
    hypers: Any = dataclasses.field(default_factory=Hypers)
    name: str = "agent"

    def build(self, spec: EnvSpec) -> Agent:
        del spec
        return self.agent
