"""One configuration per agent, as a frozen dataclass.

`remanence.live`, the paper's experiments and sweeps use the same configurations. They are part of the description and hash of a run
and of saved policies, and `--set AGENT.FIELD=VALUE` changes any of their fields. Fields typed `PerLane` may differ between lanes of
one compiled program; all others determine the program.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import optax

from remanence.agents.base import AT_SWITCH, Agent, AgentConfig, ConsolidateEvery, PerLane, check_hyper
from remanence.agents.behaviour import Behaviour, epsilon_greedy, uniform
from remanence.agents.composition import ValueComposition, index_rows, separate_networks, shared_trunk, single
from remanence.agents.dqn import (
    Consolidation,
    OnConsolidate,
    Renewal,
    Training,
    clear_replay,
    deep_agent,
    reset_all,
)
from remanence.agents.linear import FeatureConfig, RowAndColumn, Table, ThresholdedRBF, linear
from remanence.agents.networks import (
    Conv,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    Network,
    OneHot,
    Relu,
    Scale,
    Tanh,
    precomputed_inputs,
    sequence,
    stacked,
)
from remanence.agents.pt import pt_q, pt_td
from remanence.agents.td import CONTROL, PREDICTION, Problem, q_learning, random_agent, td
from remanence.core.errors import UserError, unknown
from remanence.core.types import EnvSpec, Episodes, ObsSpec, Steps

TABLE = Table()
LARGE = 10  # the size of a large replay buffer, relative to the default
Interval = int | Steps | Episodes | None  # a number of steps, or of episodes; None: known task boundaries
Optimizer = str | optax.GradientTransformation


class _Config:
    """Checks every field of a new configuration."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = _plain(getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            _check(field.name, value, hints[field.name])


@dataclass(frozen=True, kw_only=True)
class Random(_Config):
    """Acts uniformly and learns nothing."""

    @property
    def name(self) -> str:
        return "Random"

    def build(self, spec: EnvSpec) -> Agent:
        return random_agent(spec.num_actions)


@dataclass(frozen=True, kw_only=True)
class TD(_Config):
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
class PTTD(_Config):
    """TD learning with a permanent and a transient part (paper, Algorithm 1)."""

    permanent_lr: PerLane = 0.01
    transient_lr: PerLane = 0.1
    decay: PerLane = 0.0
    """λ: the transient weights are multiplied by it at a consolidation"""
    features: FeatureConfig = TABLE
    consolidate_every: Interval = None
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries"""
    buffer: int | None = None
    """how many visits are stored for a consolidation, the newest ones; None: all, as counts (tables only)"""

    @property
    def name(self) -> str:
        return "PT-TD"

    def build(self, spec: EnvSpec) -> Agent:
        value = linear(self.features.build(spec.obs, self.name))
        every = _interval(self.consolidate_every)
        return pt_td(value, uniform(spec.num_actions), spec.obs.zeros(), self.buffer, every)


@dataclass(frozen=True, kw_only=True)
class Q(_Config):
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
class PTQ(_Config):
    """Q-learning with a permanent and a transient part (paper, Algorithms 2 and 3)."""

    permanent_lr: PerLane = 0.01
    transient_lr: PerLane = 0.1
    decay: PerLane = 0.5
    """λ: the transient weights are multiplied by it at a consolidation"""
    consolidate_every: Interval = 1_000
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries"""
    epsilon: float = 0.1
    features: FeatureConfig = TABLE
    buffer: int | None = None
    """how many visits are stored for a consolidation, the newest ones; None: all, as counts (tables only)"""
    clear_buffer: bool = True
    """whether a consolidation empties the buffer, as in the paper; the released continual agent does not"""

    @property
    def name(self) -> str:
        return "PT-Q"

    def build(self, spec: EnvSpec) -> Agent:
        value = linear(self.features.build(spec.obs, self.name), spec.num_actions)
        every = _interval(self.consolidate_every)
        behaviour = epsilon_greedy(self.epsilon)
        return pt_q(value, behaviour, spec.obs.zeros(), self.buffer, every, self.clear_buffer)


@dataclass(frozen=True, kw_only=True)
class Deep(_Config):
    """Fields that all deep agents share."""

    layers: tuple[Layer, ...] | None = None
    """hidden layers, without the output layer; None: chosen from the observations and `hidden`"""
    hidden: tuple[int, ...] = (64, 64)
    """units of the dense layers, if `layers` is None; images pass two convolutions first"""
    trunk: tuple[Layer, ...] = ()
    """layers before these, which the permanent and the transient part of a PT agent share"""
    output_init: str = "uniform"
    """initialisation of the output layer: uniform or small"""
    batch: int = 64
    replay: int = 10_000
    """capacity of the replay buffer, in transitions"""
    replace: bool = True
    """whether a batch may contain the same transition twice"""
    implicit_next: bool = False
    """whether the next state is read from the following transition. This halves the memory of the replay buffer; transitions at
    which an episode was truncated are then not learned from"""
    target_every: int | None = 200
    """steps between two copies to the target network; None bootstraps from the network itself"""
    epsilon: float = 0.1
    optimizer: Optimizer = "adam"
    """sgd, adam, rmsprop, or an optax transformation without its learning rate"""
    frames: int = 1
    """observations that are stacked to one input"""
    scale: float | None = None
    """observations are divided by this; None: uint8 images by the largest value of their space, others by 1"""
    penalty: Callable[..., Any] | None = None
    """(transient weights, initial transient weights) -> a number that is added to the loss"""
    renewal: Renewal | None = None
    """`Renewal(every, renew)`: a change of the transient weights every n steps, such as shrink-and-perturb"""
    problem: ClassVar[Problem] = CONTROL

    @property
    def training(self) -> Training:
        return Training(
            self.optimizer,
            self.batch,
            self.replay,
            self.target_every,
            self.frames,
            self.replace,
            self.implicit_next,
            self.penalty,
            self.renewal,
        )

    def behaviour(self, spec: EnvSpec) -> Behaviour:
        return epsilon_greedy(self.epsilon) if self.problem is CONTROL else uniform(spec.num_actions)

    def outputs(self, spec: EnvSpec) -> int:
        return spec.num_actions if self.problem is CONTROL else 1

    def composition(self, spec: EnvSpec, outputs: int, permanent: bool) -> ValueComposition:
        """The value networks: one, or a permanent and a transient one; on a shared trunk if there is one."""
        images = spec.obs.images
        shape = _stacked_shape(spec.obs.shape, self.frames) if images is None else images.shape[1:]
        hidden = self.hidden_layers(spec.obs, shape)
        rest = (*hidden, Dense(outputs, self.output_init))

        def from_input(layers: tuple[Layer, ...]) -> Network:
            return sequence(layers, shape) if images is None else precomputed_inputs(layers, images)

        if self.trunk:
            trunk = from_input(self.trunk)
            head = sequence(rest, trunk.output)
            parts = shared_trunk(trunk, head) if permanent else single(stacked(trunk, head))
        elif permanent:
            parts = separate_networks(from_input(rest), from_input(rest))
        else:
            parts = single(from_input(rest))
        return parts if images is None else index_rows(parts)

    def hidden_layers(self, obs: ObsSpec, shape: tuple[int, ...]) -> tuple[Layer, ...]:
        """The layers before the output: as given, else dense ones after what the observations need.

        Discrete observations become one input per state; images pass two convolutions; uint8 images are scaled to 0 … 1.
        """
        if self.layers is not None:
            return self.layers
        layers: list[Layer] = []
        if obs.num_states and obs.images is None:
            layers.append(OneHot(obs.num_states))
        else:
            is_uint8_image = len(shape) == 3 and obs.dtype == "uint8"
            scale = self.scale or (obs.max_value if is_uint8_image else 1)
            if scale != 1:
                layers.append(Scale(scale))
        if len(shape) == 3:
            layers += _convolutions(min(shape[:2]))
        layers.append(Flatten())
        for units in self.hidden:
            layers += [Dense(units, "uniform"), Relu()]
        return tuple(layers)


@dataclass(frozen=True, kw_only=True)
class DQN(Deep):
    """DQN and its variants."""

    lr: PerLane = 1e-3
    clear_replay: bool = False
    """whether the replay buffer is emptied at every known task boundary"""
    reset: bool = False
    """whether weights, optimizer state and replay buffer are reinitialised at every known task boundary"""
    multihead: bool = False
    """whether it observes the current task and has a head for each; the replay buffer is emptied at every switch"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset and self.multihead:
            raise UserError(
                "DQN has either a head for each task or a reset at each switch: give multihead or reset, not both"
            )

    @property
    def name(self) -> str:
        return "DQN-multihead" if self.multihead else "DQN-reset" if self.reset else "DQN"

    def build(self, spec: EnvSpec) -> Agent:
        if self.multihead and spec.num_tasks < 2:
            raise UserError("DQN-multihead has a head for each task: it needs a stream of several tasks (Switches)")
        heads = spec.num_tasks if self.multihead else 1
        at_switch = self.reset or self.clear_replay or self.multihead
        return deep_agent(
            self.problem,
            self.composition(spec, heads * self.outputs(spec), permanent=False),
            self.behaviour(spec),
            spec.obs.zeros(),
            self.training,
            (reset_all() if self.reset else clear_replay()) if at_switch else None,
            consolidate_every=AT_SWITCH if at_switch else None,
            heads=heads,
        )


@dataclass(frozen=True, kw_only=True)
class PTDQN(Deep):
    """DQN with a permanent and a transient part (paper, Algorithm 4)."""

    permanent_lr: PerLane = 1e-4
    transient_lr: PerLane = 1e-3
    decay: PerLane = 0.75
    """λ: the transient weights are multiplied by it at a consolidation"""
    consolidate_every: Interval = 5_000
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries, where the replay buffer is emptied too"""
    permanent_optimizer: Optimizer = "sgd"
    reinit: bool | None = None
    """whether the transient weights are reinitialised at a consolidation instead of decayed; None: if `decay` is 0, as weights that
    are all zero never learn again. A shared trunk is kept"""
    clear_replay: bool | None = None
    """whether a consolidation empties the replay buffer; None: if it happens at known task boundaries"""
    reset_optimizer: bool | None = None
    """whether a consolidation resets the transient part's optimizer state; None: at known task boundaries and with `reinit`"""
    sync_target: bool = False
    """whether decayed weights are copied to the target network at once, not with the next copy (Algorithm 4)"""
    buffer: int | None = None
    """how many visits are stored for a consolidation; None: those of one interval, or the capacity of the replay buffer"""
    in_order: bool = True
    """whether a consolidation reads each visit once, in order; else it draws random batches"""
    max_batches: int | None = None
    """the largest number of batches of a consolidation; None: as many as the visits fill"""
    min_batches: int = 0
    """the smallest number of batches of a consolidation, even if there are fewer visits"""
    cache: bool | None = None
    """whether V^P of stored transitions is stored with them instead of computed for each batch; None: unless there is a trunk"""

    @property
    def name(self) -> str:
        return "PT-DQN"

    def __post_init__(self) -> None:
        if self.reinit is None:
            object.__setattr__(self, "reinit", self.decay == 0)
        super().__post_init__()
        if self.decay == 0 and not self.reinit:
            raise UserError(
                "with decay=0, all transient weights become zero and never learn again: give reinit=True as well"
            )
        if isinstance(self.consolidate_every, int) and self.consolidate_every < self.batch:
            raise UserError(
                f"{self.consolidate_every} steps between consolidations do not fill a batch of {self.batch}: change one of them"
            )

    def build(self, spec: EnvSpec) -> Agent:
        every = _interval(self.consolidate_every)
        at_switch = every == AT_SWITCH
        visits = every.count if isinstance(every, Steps) else self.replay
        return deep_agent(
            self.problem,
            self.composition(spec, self.outputs(spec), permanent=True),
            self.behaviour(spec),
            spec.obs.zeros(),
            self.training,
            OnConsolidate(
                "reinit" if self.reinit else "decay",
                at_switch if self.clear_replay is None else self.clear_replay,
                (at_switch or bool(self.reinit)) if self.reset_optimizer is None else self.reset_optimizer,
                self.sync_target,
            ),
            Consolidation(
                self.permanent_optimizer,
                self.batch,
                max(self.buffer or visits, self.batch),
                self.in_order,
                self.max_batches,
                self.min_batches,
                not self.trunk if self.cache is None else self.cache,
            ),
            every,
        )


@dataclass(frozen=True, kw_only=True)
class DeepTD(DQN):
    """TD learning of the uniformly random policy's values with a network (paper, App. C.1.1)."""

    problem: ClassVar[Problem] = PREDICTION

    @property
    def name(self) -> str:
        return "TD-reset" if self.reset else "TD"


@dataclass(frozen=True, kw_only=True)
class DeepPTTD(PTDQN):
    """TD learning with a permanent and a transient network (paper, App. C.1.1)."""

    problem: ClassVar[Problem] = PREDICTION

    @property
    def name(self) -> str:
        return "PT-TD"


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

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Random, TD, PTTD, Q, PTQ, DQN, PTDQN, DeepTD, DeepPTTD),
        *(Dense, Conv, MaxPool, Flatten, Relu, Tanh, OneHot, Scale),
        *(Table, RowAndColumn, ThresholdedRBF),
        *(Steps, Episodes),
    )
}
"""the classes that configurations consist of, by name"""


def config_named(name: str) -> AgentConfig:
    """The configuration of the agent with this name, with default values."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return AGENTS[name]()


def _interval(every: Interval) -> ConsolidateEvery:
    if every is None:
        return AT_SWITCH
    return Steps(every) if isinstance(every, int) else every


def _stacked_shape(shape: tuple[int, ...], frames: int) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] * frames) if shape else shape


def _convolutions(side: int) -> list[Layer]:
    """Two convolutions, with strides for large images."""
    if side >= 36:
        return [Conv(16, 8, stride=4), Relu(), Conv(32, 4, stride=2), Relu()]
    if side >= 12:
        return [Conv(16, 3, stride=2), Relu(), Conv(32, 3), Relu()]
    return [Conv(16, 2), Relu(), Conv(32, 2), Relu()] if side >= 3 else []


def _plain(value: Any) -> Any:
    """NumPy values and lists as Python numbers and tuples: configurations are hashed, compared and written to files."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | list):
        return tuple(_plain(one) for one in value)
    return value


def _check(name: str, value: Any, hint: Any) -> None:
    """Raises for values that cannot work."""
    if not _fits(value, hint):
        raise UserError(f"{name} must be {_type_names(hint)}; got {value!r}")
    if name.endswith("lr") or name == "decay":
        check_hyper(name, value)
    elif name == "epsilon":
        epsilon_greedy(value)
    elif name == "scale" and value is not None and not value > 0:
        raise UserError(f"scale must be positive; got scale={value}")
    elif name == "hidden" and any(units < 1 for units in value or ()):
        raise UserError(f"a layer needs at least one unit; got hidden={value}")
    elif isinstance(value, int) and not isinstance(value, bool) and value < 1 and name != "min_batches":
        raise UserError(f"{name} must be at least 1; got {value}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type that the field declares."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, arguments[0]) for one in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str, type(None)) or dataclasses.is_dataclass(hint):
        return isinstance(value, hint)  # type: ignore[arg-type]
    return True  # functions, layers and transformations are checked where they are used


def _type_names(hint: Any) -> str:
    names = [getattr(one, "__name__", str(one)) for one in typing.get_args(hint) or (hint,)]
    return " or ".join("None" if name == "NoneType" else name for name in names)
