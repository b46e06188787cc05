"""Configurations of deep agents: DQN and its variants, PT-DQN, and both for prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import optax

from remanence.agents.base import AT_SWITCH, Agent, PerLane, PerLaneOrDefault, PerLaneOrNone
from remanence.agents.behaviour import Behaviour, Linear, epsilon_greedy, uniform
from remanence.agents.checked import CheckedConfig, Interval, consolidation_interval
from remanence.agents.composition import ValueComposition, index_rows, separate_networks, shared_trunk, single
from remanence.agents.dqn import deep_agent
from remanence.agents.layers import Dueling
from remanence.agents.modules import as_layer
from remanence.agents.networks import (
    Conv,
    Dense,
    Flatten,
    Layer,
    Network,
    OneHot,
    Relu,
    Scale,
    precomputed_inputs,
    sequence,
    stacked,
)
from remanence.agents.shares import AUTO, HalfLife, settle_half_life, settle_shares
from remanence.agents.td import CONTROL, PREDICTION, Problem
from remanence.agents.training import (
    DECAY,
    DECAY_OUTPUT,
    REINIT,
    Consolidation,
    OnConsolidate,
    Renewal,
    Training,
    clear_replay,
    reset_all,
)
from remanence.core.describe import later
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, ObsSpec, Steps

PER_HALF_LIFE = 8  # consolidations
HALF_LIFE = 5_000  # steps, if nothing is given
REFRESHES = (
    8  # steps between two consolidations, at least, in parts of the replay buffer: each computes its cached V^P again
)

Optimizer = str | optax.GradientTransformation


@dataclass(frozen=True, kw_only=True)
class Deep(CheckedConfig):
    """Fields that all deep agents share."""

    layers: tuple[Layer, ...] | None = None
    """hidden layers, without the output layer; None: chosen from the observations and `hidden`. A module of Flax or Equinox can be
    one of them (`agents/modules.py`)"""
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
    epsilon: float | Linear | Callable[..., Any] = 0.1
    """probability of a random action: a number, or a schedule such as `Linear(1.0, 0.05, 10_000)` or one of optax"""
    optimizer: Optimizer = "adam"
    """sgd, adam, rmsprop, "rmsprop of dqn", or an optax transformation without its learning rate"""
    frames: int = 1
    """observations that are stacked to one input"""
    repeat_first: bool = False
    """whether the first frame of an episode stands for those before it, as in the released code; else they are zero"""
    scale: float | None = None
    """observations are divided by this; None: uint8 images by the largest value of their space, others by 1"""
    penalty: Callable[..., Any] | None = None
    """(transient weights, initial transient weights) -> a number that is added to the loss"""
    renewal: Renewal | None = None
    """`Renewal(every, renew)`: a change of the transient weights every n steps, such as shrink-and-perturb"""
    network: Layer | None = later(None)
    """the entire network, with one output per action: a module of Flax or Equinox (`agents/modules.py`), or a layer"""
    dueling: int | None = later(None)
    """units of the hidden layer of each of two streams, value and advantages, instead of one output layer; None: no streams"""
    learning_starts: int | None = later(None)
    """steps before the first update; None: as soon as the replay buffer holds a batch"""
    train_every: int = later(1)
    """steps between two trainings"""
    gradient_steps: int = later(1)
    """batches, and gradient steps, of a training"""
    n_step: int = later(1)
    """steps of the return in the target"""
    double: bool = later(False)
    """whether the network chooses the next action, and the target network evaluates it (Double DQN)"""
    loss: str | Callable[..., Any] = later("squared")
    """squared, huber, or a function of the TD errors, [batch] -> [batch], whose mean is minimized"""
    max_grad_norm: float | None = later(None)
    """the largest norm of a gradient of the transient part; a longer one is shortened to it"""
    tau: float = later(1.0)
    """the share of the weights that is copied to the target network every `target_every` steps"""
    reward_scale: float = later(1.0)
    """rewards are multiplied by it before they are learned from; recorded returns are not"""
    reward_clip: float | None = later(None)
    """then rewards are limited to ± this"""
    problem: ClassVar[Problem] = CONTROL

    def __post_init__(self) -> None:
        for name in ("layers", "trunk"):
            layers = getattr(self, name)
            if isinstance(layers, tuple | list):
                object.__setattr__(self, name, tuple(map(as_layer, layers)))
        if self.network is not None:
            object.__setattr__(self, "network", as_layer(self.network))
        super().__post_init__()
        self._check_options()

    def _check_options(self) -> None:
        """Raises for options that make no sense together."""
        if self.network is not None and (self.layers is not None or self.trunk or self.dueling):
            raise UserError("network is the entire network: give network, or layers, trunk and dueling, not both")
        if self.problem is PREDICTION and (self.double or self.dueling):
            raise UserError("double and dueling are about the values of actions, and prediction has none: omit them")

    @property
    def training(self) -> Training:
        return Training(
            self.optimizer,
            self.batch,
            self.replay,
            self.target_every,
            self.frames,
            self.repeat_first,
            self.replace,
            self.implicit_next,
            self.penalty,
            self.renewal,
            self.learning_starts,
            self.train_every,
            self.gradient_steps,
            self.n_step,
            self.double,
            self.loss,
            self.max_grad_norm,
            self.tau,
            self.reward_scale,
            self.reward_clip,
        )

    def behaviour(self, spec: EnvSpec) -> Behaviour:
        return epsilon_greedy(self.epsilon) if self.problem is CONTROL else uniform(spec.num_actions)

    def outputs(self, spec: EnvSpec) -> int:
        return spec.num_actions if self.problem is CONTROL else 1

    def composition(self, spec: EnvSpec, outputs: int, permanent: bool) -> ValueComposition:
        """The value networks: one, or a permanent and a transient one; on a shared trunk if there is one."""
        images = spec.obs.images
        shape = _stacked_shape(spec.obs.shape, self.frames) if images is None else images.shape[1:]
        if self.network is not None:
            rest = (*self.input_layers(spec.obs, shape), self.network)
        else:
            dueling = Dueling(outputs, self.dueling, self.output_init) if self.dueling else None
            rest = (*self.hidden_layers(spec.obs, shape), dueling or Dense(outputs, self.output_init))

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
        if parts.outputs != outputs:
            raise UserError(
                f"the network has {parts.outputs} outputs, and there are {outputs} actions: give it as many"
            )
        return parts if images is None else index_rows(parts)

    def input_layers(self, obs: ObsSpec, shape: tuple[int, ...]) -> list[Layer]:
        """What makes numbers of observations that a network can use."""
        if obs.num_states and obs.images is None:
            return [OneHot(obs.num_states)]
        is_uint8_image = len(shape) == 3 and obs.dtype == "uint8"
        scale = self.scale or (obs.max_value if is_uint8_image else 1)
        return [Scale(scale)] if scale != 1 else []

    def hidden_layers(self, obs: ObsSpec, shape: tuple[int, ...]) -> tuple[Layer, ...]:
        """The layers before the output: as given, else dense ones after what the observations need.

        Discrete observations become one input per state; images pass two convolutions; uint8 images are scaled to 0 … 1.
        """
        if self.layers is not None:
            return self.layers
        layers = self.input_layers(obs, shape)
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
    sync_target: bool = False
    """whether the target network is also copied where the replay buffer is emptied, as in the released code. With `reset` it always
    is"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset and self.multihead:
            raise UserError(
                "DQN has either a head for each task or a reset at each switch: give multihead or reset, not both"
            )
        if self.multihead and self.dueling:
            raise UserError(
                "dueling has one state value, and multihead a head for each task: give one of them, not both"
            )
        if self.sync_target and not (self.clear_replay or self.reset or self.multihead):
            raise UserError(
                "sync_target copies the target network at known task boundaries: give clear_replay=True as well"
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
            (reset_all() if self.reset else clear_replay(self.sync_target)) if at_switch else None,
            consolidate_every=AT_SWITCH if at_switch else None,
            heads=heads,
        )


@dataclass(frozen=True, kw_only=True)
class PTDQN(Deep):
    """DQN with a permanent and a transient part (paper, Algorithm 4)."""

    permanent_lr: PerLane = 1e-4
    """step size of the permanent part; with `absorb`, the first one of those that are tried"""
    transient_lr: PerLane = 1e-3
    decay: PerLaneOrDefault = None
    """λ: the transient weights are multiplied by it at a consolidation; None: 0.75, and 0 at known task boundaries, or as
    `transient_half_life` says"""
    absorb: PerLaneOrNone = None
    """a: the permanent part is trained to V^P + a V^T at a consolidation, on the states of the replay buffer, by as many batches as
    that takes; at most 1 − λ. None: a step of size `permanent_lr` towards V^P + V^T with every batch of the latest visits (paper),
    or a tenth of 1 − λ with a half-life"""
    transient_half_life: HalfLife = AUTO
    """steps, or `Episodes(n)`, after which half of the transient part is left: it decides λ. By default 5 000 steps; None, if any
    of `decay`, `absorb`, `consolidate_every`, `reinit=True` and `decay_output=False` is given and decides (paper), and with
    `network`, whose last layer is not ours"""
    consolidate_every: Interval = AUTO
    """steps between two consolidations, or `Episodes(n)`; None: at known task boundaries, where the replay buffer is emptied too.
    By default an eighth of the half-life, or more where that would cost much; without one 5 000 steps"""
    permanent_optimizer: Optimizer | None = None
    """None: sgd (paper), or adam with `absorb`"""
    decay_output: bool | None = None
    """whether V^T itself is multiplied by λ, by its last layer, in the target network too; else all weights are (paper), and less
    of V^T is left: about λ to the number of layers. None: with `absorb`"""
    reinit: bool | None = None
    """whether the transient weights are reinitialised at a consolidation instead of decayed; None: if `decay` is 0, as weights that
    are all zero never learn again, and not with `decay_output`. A shared trunk is kept"""
    clear_replay: bool | None = None
    """whether a consolidation empties the replay buffer; None: if it happens at known task boundaries"""
    reset_optimizer: bool | None = None
    """whether a consolidation resets the transient part's optimizer state; None: at known task boundaries and with `reinit`"""
    sync_target: bool = False
    """whether decayed weights are copied to the target network at once, not with the next copy (Algorithm 4). With `absorb`, the
    target network decays at once in any case"""
    buffer: int | None = None
    """how many visits are stored for a consolidation; None: those of one interval, or the capacity of the replay buffer"""
    in_order: bool | None = None
    """whether a consolidation reads each visit once, in order; else it draws random batches. None: without `absorb`"""
    max_batches: int | None = None
    """the largest number of batches of a consolidation; None: as many as the visits fill, four times as many with `absorb`, which
    takes them in rounds of eight"""
    min_batches: int = 0
    """the smallest number of batches of a consolidation, even if there are fewer visits"""
    cache: bool | None = None
    """whether V^P of stored transitions is stored with them instead of computed for each batch; None: unless there is a trunk"""

    @property
    def name(self) -> str:
        return "PT-DQN"

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_half_life(self, HALF_LIFE if self.network is None else None)
        settle_shares(self, 5_000, 0.75, PER_HALF_LIFE, self._fewest_steps)
        absorbs = self.absorb is not None
        for name, value in (
            ("decay_output", absorbs),
            ("reinit", self.decay == 0 and not (absorbs if self.decay_output is None else self.decay_output)),
            ("in_order", not absorbs),
            ("permanent_optimizer", "adam" if absorbs else "sgd"),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if self.transient_half_life is not None and (self.reinit or not self.decay_output):
            raise UserError(
                "transient_half_life multiplies V^T itself by λ, by its last layer: omit reinit and decay_output, or give decay "
                "and absorb instead"
            )
        if absorbs and self.in_order:
            raise UserError("absorb takes as many batches as it needs: they are drawn at random, give in_order=False")
        if self.decay == 0 and not (self.reinit or self.decay_output):
            raise UserError(
                "with decay=0, all transient weights become zero and never learn again: give reinit=True as well"
            )
        every = consolidation_interval(self.consolidate_every)
        if isinstance(every, Steps) and every.count < self.batch:
            raise UserError(
                f"{every.count} steps between consolidations do not fill a batch of {self.batch}: change one of them"
            )

    @property
    def _fewest_steps(self) -> int:
        """Between two consolidations, so that they cost a few per cent of learning; but never more than a half-life."""
        half_life = self.transient_half_life
        count = half_life.count if isinstance(half_life, Steps) else half_life if isinstance(half_life, int) else 1
        return max(self.batch, min(count, self.replay // REFRESHES))

    def build(self, spec: EnvSpec) -> Agent:
        every = consolidation_interval(self.consolidate_every)
        at_switch = every == AT_SWITCH
        visits = every.count if isinstance(every, Steps) else self.replay
        return deep_agent(
            self.problem,
            self.composition(spec, self.outputs(spec), permanent=True),
            self.behaviour(spec),
            spec.obs.zeros(),
            self.training,
            OnConsolidate(
                REINIT if self.reinit else DECAY_OUTPUT if self.decay_output else DECAY,
                at_switch if self.clear_replay is None else self.clear_replay,
                (at_switch or bool(self.reinit)) if self.reset_optimizer is None else self.reset_optimizer,
                self.sync_target,
            ),
            Consolidation(
                self.permanent_optimizer or "sgd",
                self.batch,
                max(self.buffer or visits, self.batch),
                bool(self.in_order),
                self.max_batches,
                self.min_batches,
                self.absorb is not None,
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


def _stacked_shape(shape: tuple[int, ...], frames: int) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] * frames) if shape else shape


def _convolutions(side: int) -> list[Layer]:
    """Two convolutions, with strides for large images."""
    if side >= 36:
        return [Conv(16, 8, stride=4), Relu(), Conv(32, 4, stride=2), Relu()]
    if side >= 12:
        return [Conv(16, 3, stride=2), Relu(), Conv(32, 3), Relu()]
    return [Conv(16, 2), Relu(), Conv(32, 2), Relu()] if side >= 3 else []
