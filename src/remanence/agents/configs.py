"""One configuration per agent, as a frozen dataclass. Those of deep agents are in `deep_configs.py`.

`remanence.live`, the paper's experiments and sweeps use the same configurations. They are part of the description and hash of a run
and of saved policies, and `--set AGENT.FIELD=VALUE` changes any of their fields. Fields typed `PerLane` may differ between lanes of
one compiled program; all others determine the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remanence.agents.base import Agent, AgentConfig, PerLane, PerLaneOrDefault, PerLaneOrNone
from remanence.agents.behaviour import Linear, epsilon_greedy, uniform
from remanence.agents.checked import CheckedConfig, Interval, consolidation_interval
from remanence.agents.deep_configs import DQN, PTDQN, Deep, DeepPTTD, DeepTD
from remanence.agents.layers import CRelu, Dueling, LayerNorm
from remanence.agents.linear import FeatureConfig, RowAndColumn, Table, ThresholdedRBF, linear
from remanence.agents.networks import Conv, Dense, Flatten, MaxPool, OneHot, Relu, Scale, Tanh
from remanence.agents.pt import pt_q, pt_td
from remanence.agents.shares import AUTO, HalfLife, settle_shares
from remanence.agents.td import q_learning, random_agent, td
from remanence.core.errors import unknown
from remanence.core.types import EnvSpec, Episodes, Steps

__all__ = [
    "AGENTS",
    "DQN",
    "KINDS",
    "LARGE",
    "PTDQN",
    "PTQ",
    "PTTD",
    "TD",
    "Deep",
    "DeepPTTD",
    "DeepTD",
    "Q",
    "Random",
    "config_named",
]

TABLE = Table()
PER_HALF_LIFE = 16  # consolidations: those of a table cost little
LARGE = 10  # the size of a large replay buffer, relative to the default


@dataclass(frozen=True, kw_only=True)
class Random(CheckedConfig):
    """Acts uniformly and learns nothing."""

    @property
    def name(self) -> str:
        return "Random"

    def build(self, spec: EnvSpec) -> Agent:
        return random_agent(spec.num_actions)


@dataclass(frozen=True, kw_only=True)
class TD(CheckedConfig):
    """TD learning of the uniformly random policy's values, linear in features; a table by default (paper, §2)."""

    lr: PerLane = 0.1
    features: FeatureConfig = TABLE
    reset: bool = False
    """whether the weights are reinitialised at every known task boundary"""

    @property
    def name(self) -> str:
        return "TD-reset" if self.reset else "TD"

    def build(self, spec: EnvSpec) -> Agent:
        return td(linear(self.features.build(spec.obs, self.name)), uniform(spec.num_actions), self.reset)


@dataclass(frozen=True, kw_only=True)
class PTTD(CheckedConfig):
    """TD learning with a permanent and a transient part (paper, Algorithm 1)."""

    permanent_lr: PerLane = 0.01
    transient_lr: PerLane = 0.1
    decay: PerLaneOrDefault = None
    """λ: the transient weights are multiplied by it at a consolidation; None: 0, or as `transient_half_life` says"""
    absorb: PerLaneOrNone = None
    """a: the permanent part absorbs this share of the transient part at a consolidation, at most 1 − λ; None: it moves by
    `permanent_lr` with every visit (paper), or a tenth of 1 − λ with a half-life"""
    transient_half_life: HalfLife = None
    """steps, or `Episodes(n)`, after which half of the transient part is left: it decides λ"""
    features: FeatureConfig = TABLE
    consolidate_every: Interval = AUTO
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries, the default; with a half-life, a
    sixteenth of it"""
    buffer: int | None = None
    """how many visits are stored for a consolidation, the newest ones; None: all, as counts (tables only)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_shares(self, None, 0.0, PER_HALF_LIFE)

    @property
    def name(self) -> str:
        return "PT-TD"

    def build(self, spec: EnvSpec) -> Agent:
        value = linear(self.features.build(spec.obs, self.name))
        every = consolidation_interval(self.consolidate_every)
        absorbs = self.absorb is not None
        return pt_td(value, uniform(spec.num_actions), spec.obs.zeros(), self.buffer, every, absorbs)


@dataclass(frozen=True, kw_only=True)
class Q(CheckedConfig):
    """Q-learning, linear in features; a table by default."""

    lr: PerLane = 0.1
    epsilon: float = 0.1
    features: FeatureConfig = TABLE
    reset: bool = False
    """whether the weights are reinitialised at every known task boundary"""

    @property
    def name(self) -> str:
        return "Q-reset" if self.reset else "Q"

    def build(self, spec: EnvSpec) -> Agent:
        value = linear(self.features.build(spec.obs, self.name), spec.num_actions)
        return q_learning(value, epsilon_greedy(self.epsilon), self.reset)


@dataclass(frozen=True, kw_only=True)
class PTQ(CheckedConfig):
    """Q-learning with a permanent and a transient part (paper, Algorithms 2 and 3)."""

    permanent_lr: PerLane = 0.01
    transient_lr: PerLane = 0.1
    decay: PerLaneOrDefault = None
    """λ: the transient weights are multiplied by it at a consolidation; None: 0.5, and 0 at known task boundaries, or as
    `transient_half_life` says"""
    absorb: PerLaneOrNone = None
    """a: the permanent part absorbs this share of the transient part at a consolidation, at most 1 − λ; None: it moves by
    `permanent_lr` with every visit (paper), or a tenth of 1 − λ with a half-life"""
    transient_half_life: HalfLife = None
    """steps, or `Episodes(n)`, after which half of the transient part is left: it decides λ"""
    consolidate_every: Interval = AUTO
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries; by default 1 000 steps, and with a
    half-life a sixteenth of it"""
    epsilon: float = 0.1
    features: FeatureConfig = TABLE
    buffer: int | None = None
    """how many visits are stored for a consolidation, the newest ones; None: all, as counts (tables only)"""
    clear_buffer: bool = True
    """whether a consolidation empties the buffer, as in the paper; the released continual agent does not"""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_shares(self, 1_000, 0.5, PER_HALF_LIFE)

    @property
    def name(self) -> str:
        return "PT-Q"

    def build(self, spec: EnvSpec) -> Agent:
        value = linear(self.features.build(spec.obs, self.name), spec.num_actions)
        every = consolidation_interval(self.consolidate_every)
        behaviour = epsilon_greedy(self.epsilon)
        absorbs = self.absorb is not None
        return pt_q(value, behaviour, spec.obs.zeros(), self.buffer, every, self.clear_buffer, absorbs)


AGENTS: dict[str, Callable[[], AgentConfig]] = {
    "TD": TD,
    "TD-reset": lambda: TD(reset=True),
    "PT-TD": PTTD,
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
"""the paper's agents by name, with default values"""

AT_BOUNDARIES: dict[str, Callable[[], AgentConfig]] = {
    "PT-Q": lambda: PTQ(consolidate_every=None),
    "PT-DQN": lambda: PTDQN(consolidate_every=None),
}
"""those of them that are others where task boundaries are known: they consolidate and reset the transient part there (paper, §5)"""

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Random, TD, PTTD, Q, PTQ, DQN, PTDQN, DeepTD, DeepPTTD),
        *(Dense, Conv, MaxPool, Flatten, Relu, Tanh, OneHot, Scale, LayerNorm, CRelu, Dueling),
        *(Table, RowAndColumn, ThresholdedRBF),
        *(Steps, Episodes, Linear),
    )
}
"""the classes that configurations consist of, by name"""


def config_named(name: str, boundaries_known: bool = False) -> AgentConfig:
    """The configuration of the agent with this name, with default values for known or unknown task boundaries."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return (AT_BOUNDARIES if boundaries_known and name in AT_BOUNDARIES else AGENTS)[name]()
