"""Agents as recipes: plain values, made into an agent once the spaces of an environment are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from remanence.agents.base import AT_SWITCH, Agent, ConsolidateEvery, check_hyper
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.composition import separate_networks
from remanence.agents.dqn import (
    DECAY,
    REINIT,
    Consolidation,
    OnConsolidate,
    Training,
    clear_replay,
    deep_agent,
    dqn,
    reset_all,
)
from remanence.agents.linear import Value, linear, one_hot
from remanence.agents.networks import Conv, Dense, Flatten, Layer, Network, OneHot, Relu, Scale, sequence
from remanence.agents.pt import PTHypers, pt_q
from remanence.agents.td import CONTROL, NoHypers, TDHypers, q_learning, random_agent
from remanence.core.errors import UserError, unknown
from remanence.core.types import Hypers, Steps
from remanence.gym.spaces import DISCRETE, IMAGE, Spaces

LARGE = 10  # how many times larger a large buffer is


class BuiltAgent(NamedTuple):
    """An agent and its hyper-parameters."""

    agent: Agent
    hypers: Hypers


@runtime_checkable
class AgentConfig(Protocol):
    """Whatever makes an agent from the spaces of an environment and the number of tasks."""

    @property
    def name(self) -> str: ...

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent: ...


@dataclass(frozen=True)
class Random:
    """Acts uniformly and learns nothing."""

    @property
    def name(self) -> str:
        return "Random"

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent:
        del tasks
        return BuiltAgent(random_agent(spaces.actions), NoHypers())


@dataclass(frozen=True)
class Q:
    """Q-learning with a table, for observations that are numbers of states."""

    lr: float = 0.1
    epsilon: float = 0.1
    reset: bool = False
    """whether the table begins anew at every switch the agent is told of"""

    def __post_init__(self) -> None:
        _check_numbers(self)

    @property
    def name(self) -> str:
        return "Q-reset" if self.reset else "Q"

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent:
        del tasks
        agent = q_learning(_table(self.name, spaces), epsilon_greedy(self.epsilon), self.reset)
        return BuiltAgent(agent, TDHypers(self.lr))


@dataclass(frozen=True)
class PTQ:
    """Q-learning with a permanent and a transient table."""

    permanent_lr: float = 0.01
    transient_lr: float = 0.1
    decay: float = 0.5
    """what is left of the transient part after it was consolidated"""
    consolidate_every: int | None = 1_000
    """steps between two consolidations; None: at the switches the agent is told of"""
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        _check_numbers(self)

    @property
    def name(self) -> str:
        return "PT-Q"

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent:
        del tasks
        agent = pt_q(
            _table(self.name, spaces),
            epsilon_greedy(self.epsilon),
            consolidate_every=_consolidate_every(self.consolidate_every),
        )
        return BuiltAgent(agent, PTHypers(self.permanent_lr, self.transient_lr, self.decay))


@dataclass(frozen=True, kw_only=True)
class Deep:
    """What agents with networks share."""

    hidden: tuple[int, ...] = (64, 64)
    """units of the dense layers of a network; images pass two convolutions before"""
    batch: int = 64
    replay: int = 10_000
    """how many transitions are remembered"""
    target_every: int | None = 200
    """steps between two copies to the target network"""
    epsilon: float = 0.1
    optimizer: str = "adam"
    scale: float | None = None
    """observations are divided by this; None: images of bytes by the largest value their space allows, others by nothing"""

    def __post_init__(self) -> None:
        _check_numbers(self)

    @property
    def training(self) -> Training:
        return Training(self.optimizer, self.batch, self.replay, self.target_every)


@dataclass(frozen=True, kw_only=True)
class DQN(Deep):
    """DQN and its variants."""

    lr: float = 1e-3
    reset: bool = False
    """whether all begins anew at every switch the agent is told of"""
    multihead: bool = False
    """whether it is told which task is live, and has a head for each"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset and self.multihead:
            raise UserError("DQN has either a head for each task or a reset at each switch, not both")

    @property
    def name(self) -> str:
        return "DQN-multihead" if self.multihead else "DQN-reset" if self.reset else "DQN"

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent:
        if self.multihead and tasks < 2:
            raise UserError("DQN-multihead has a head for each task: it needs a stream of several tasks (Switches)")
        heads = tasks if self.multihead else 1
        agent = dqn(
            _network(self, spaces, heads * spaces.actions),
            epsilon_greedy(self.epsilon),
            _example(spaces),
            self.training,
            (reset_all() if self.reset else clear_replay()) if self.reset or self.multihead else None,
            heads,
        )
        return BuiltAgent(agent, TDHypers(self.lr))


@dataclass(frozen=True, kw_only=True)
class PTDQN(Deep):
    """DQN with a permanent and a transient network (paper, Algorithm 4)."""

    permanent_lr: float = 1e-4
    transient_lr: float = 1e-3
    decay: float = 0.75
    """what is left of the transient weights after they were consolidated; 0 draws them anew"""
    consolidate_every: int | None = 5_000
    """steps between two consolidations; None: at the switches the agent is told of, where it also empties its memory"""
    permanent_optimizer: str = "sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.consolidate_every is not None and self.consolidate_every < self.batch:
            raise UserError(
                f"a period of {self.consolidate_every} steps fills no batch of {self.batch}: make one of them fit"
            )

    @property
    def name(self) -> str:
        return "PT-DQN"

    def build(self, spaces: Spaces, tasks: int) -> BuiltAgent:
        del tasks
        boundaries_known = self.consolidate_every is None
        agent = deep_agent(
            CONTROL,
            separate_networks(*(_network(self, spaces, spaces.actions) for _ in range(2))),
            epsilon_greedy(self.epsilon),
            _example(spaces),
            self.training,
            # Weights that are all zero would never move again: nothing left means drawn anew.
            OnConsolidate(
                DECAY if self.decay > 0 else REINIT,
                clear_replay=boundaries_known,
                reset_optimizer=boundaries_known or self.decay == 0,
            ),
            Consolidation(
                self.permanent_optimizer,
                self.batch,
                buffer=max(self.consolidate_every or self.replay, self.batch),
                in_order=True,
                max_batches=None,
                cache=True,
            ),
            _consolidate_every(self.consolidate_every),
        )
        return BuiltAgent(agent, PTHypers(self.permanent_lr, self.transient_lr, self.decay))


KNOWN: dict[str, Callable[[], AgentConfig]] = {
    "Q": Q,
    "Q-reset": lambda: Q(reset=True),
    "PT-Q": PTQ,
    "DQN": DQN,
    "DQN-reset": lambda: DQN(reset=True),
    "PT-DQN": PTDQN,
    "DQN-multihead": lambda: DQN(multihead=True),
    "DQN-large-buffer": lambda: DQN(replay=LARGE * DQN.replay),
    "Random": Random,
}
CONFIGS: dict[str, type] = {kind.__name__: kind for kind in (Random, Q, PTQ, DQN, PTDQN)}


def is_ours(guest: Any) -> bool:
    """Whether it can be written down and made again from that."""
    return type(guest) in CONFIGS.values()


def config_named(name: str) -> AgentConfig:
    """The recipe of that name, with our values."""
    if name not in KNOWN:
        raise unknown("agent", name, KNOWN)
    return KNOWN[name]()


def _check_numbers(config: Any) -> None:
    """Refuses numbers that can only be a mistake, when they are written down; makes NumPy's numbers plain, as files need them."""
    for field in dataclasses.fields(config):
        value: Any = getattr(config, field.name)
        if field.name == "hidden":
            value = tuple(np.asarray(value).ravel().tolist())
        elif isinstance(value, np.generic):
            value = value.item()
        object.__setattr__(config, field.name, value)
        if field.name.endswith("lr") or field.name == "decay":
            check_hyper(field.name, value)
        elif field.name in ("batch", "replay", "target_every", "consolidate_every"):
            if value is not None and value < 1:
                raise UserError(f"{field.name} must be at least 1; got {value}")
        elif field.name == "epsilon":
            epsilon_greedy(value)
        elif field.name == "hidden" and any(units < 1 for units in value):
            raise UserError(f"a layer needs at least one unit; got hidden={value}")
        elif field.name == "scale" and value is not None and not value > 0:
            raise UserError(f"observations can only be divided by a number above 0; got scale={value}")


def _consolidate_every(consolidate_every: int | None) -> ConsolidateEvery:
    return AT_SWITCH if consolidate_every is None else Steps(consolidate_every)


def _table(name: str, spaces: Spaces) -> Value:
    if spaces.kind != DISCRETE:
        raise UserError(
            f"{name} keeps a table and needs observations that are numbers of states (Discrete); these are {spaces.kind}s of shape "
            f"{spaces.env_shape}: take DQN or PT-DQN"
        )
    return linear(one_hot(spaces.states), spaces.actions)


def _example(spaces: Spaces) -> jax.Array:
    return jnp.zeros(spaces.shape, spaces.dtype)


def _network(config: Deep, spaces: Spaces, outputs: int) -> Network:
    """Dense layers; before them one input per state for numbers, and convolutions for images."""
    layers: list[Layer] = []
    if spaces.kind == DISCRETE:
        layers.append(OneHot(spaces.states))
    elif (scale := config.scale or (spaces.max_value if (spaces.kind, spaces.dtype) == (IMAGE, "uint8") else 1)) != 1:
        layers.append(Scale(scale))
    if spaces.kind == IMAGE:
        layers += _convolutions(min(spaces.shape[:2]))
    layers.append(Flatten())
    for units in config.hidden:
        layers += [Dense(units, "uniform"), Relu()]
    return sequence([*layers, Dense(outputs, "uniform")], spaces.shape)


def _convolutions(side: int) -> list[Layer]:
    """Two of them, with strides where images are large."""
    if side >= 36:
        return [Conv(16, 8, stride=4), Relu(), Conv(32, 4, stride=2), Relu()]
    if side >= 12:
        return [Conv(16, 3, stride=2), Relu(), Conv(32, 3), Relu()]
    return [Conv(16, 2), Relu(), Conv(32, 2), Relu()] if side >= 3 else []
