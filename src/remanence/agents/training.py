"""Options and optimizers of deep agents. They are used in `dqn.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from remanence.agents.composition import ValueComposition
from remanence.core.errors import UserError, calling, unknown
from remanence.core.tree_utils import tree_where
from remanence.core.types import Key
from remanence.updates import huber, squared


class Adam(optax.GradientTransformation):
    """optax's Adam. Its direction is a function of the new moments alone, so `apply_gradient` computes it from these.

    Otherwise XLA computes the new moments twice, for the state and for the direction, and copies the old ones, which it would
    replace in place.
    """

    decay_of_mean, decay_of_square, eps = 0.9, 0.999, 1e-8

    @classmethod
    def make(cls) -> Adam:
        return cls(*optax.scale_by_adam(cls.decay_of_mean, cls.decay_of_square, cls.eps))

    def direction(self, state: optax.ScaleByAdamState) -> Any:
        first, second = 1 - self.decay_of_mean**state.count, 1 - self.decay_of_square**state.count
        return jax.tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second) + self.eps), state.mu, state.nu)


class RMSPropState(NamedTuple):
    mu: Any  # mean of the latest gradients
    nu: Any  # mean of their squares
    trace: Any  # the direction, with momentum


def rmsprop_of_dqn() -> optax.GradientTransformation:
    """RMSProp as in the first DQNs (Mnih et al., 2015), and as PyTorch computes it: gradients are divided by the standard deviation
    of the latest ones, and have momentum. `optax.scale_by_stddev` gives NaN where rounding makes a variance negative."""
    decay, eps, momentum = 0.95, 0.01, 0.95

    def init(params: Any) -> RMSPropState:
        return RMSPropState(*(jax.tree.map(jnp.zeros_like, params) for _ in range(3)))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, RMSPropState]:
        del params
        mu = jax.tree.map(lambda old, g: decay * old + (1 - decay) * g, state.mu, updates)
        nu = jax.tree.map(lambda old, g: decay * old + (1 - decay) * g**2, state.nu, updates)
        deviation = jax.tree.map(lambda m, n: jnp.sqrt(jnp.maximum(n - m**2, 0.0)), mu, nu)
        trace = jax.tree.map(lambda old, g, d: momentum * old + g / (d + eps), state.trace, updates, deviation)
        return trace, RMSPropState(mu, nu, trace)

    return optax.GradientTransformation(init, update)


RMSPROP_OF_DQN = "rmsprop of dqn"
OPTIMIZERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "sgd": optax.identity,
    "adam": Adam.make,
    "rmsprop": optax.scale_by_rms,
    RMSPROP_OF_DQN: rmsprop_of_dqn,
}
LOSSES: dict[str, Callable[[Array], Array]] = {"squared": squared, "huber": huber}
KEEP, REINIT, DECAY, DECAY_OUTPUT = "keep", "reinit", "decay", "decay output"


@dataclass(frozen=True)
class Renewal:
    """A change of the transient weights every n steps, such as shrink-and-perturb or the reset of dormant units."""

    every: int
    """steps between two renewals"""
    renew: Callable[[Key, Any, Any], tuple[Any, Any]]
    """(key, transient weights, optimizer state) -> both, of the same shapes"""


@dataclass(frozen=True)
class Training:
    """How the transient part is trained, at every step."""

    optimizer: str | optax.GradientTransformation = "sgd"
    """a name of `OPTIMIZERS`, or any transformation of optax without its learning rate: `optax.scale_by_lion()`, or
    `optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())`, but not `optax.adam(1e-3)`. Its output is multiplied by
    the agent's learning rate, which may differ between lanes, and subtracted from the weights"""
    batch: int = 64
    replay: int = 100_000
    """capacity of the replay buffer, in transitions"""
    target_every: int | None = None
    """steps between two copies to the target network; None bootstraps from the network itself"""
    frames: int = 1
    """observations that are stacked to one input"""
    repeat_first: bool = False
    """whether the first frame of an episode stands for those before it; else they are zero"""
    replace: bool = True
    """whether a batch may contain the same transition twice"""
    implicit_next: bool = False
    """whether the next state is read from the following transition. This halves the memory of the replay buffer; transitions at
    which an episode was truncated are then not learned from"""
    penalty: Callable[[Any, Any], Array] | None = None
    """(transient weights, initial transient weights) -> a number that is added to the loss, such as half the squared distance
    between them (regenerative regularization)"""
    renewal: Renewal | None = None
    learning_starts: int | None = None
    """steps before the first update; None: as soon as the replay buffer holds a batch"""
    train_every: int = 1
    """steps between two trainings. Where none is due, none is computed"""
    gradient_steps: int = 1
    """batches, and gradient steps, of a training"""
    n_step: int = 1
    """steps of the return that the target consists of, before it bootstraps"""
    double: bool = False
    """whether the network chooses the next action, and the target network evaluates it (Double DQN)"""
    loss: str | Callable[[Array], Array] = "squared"
    """a name of `LOSSES`, or a function of the TD errors, [batch] -> [batch], whose mean is minimized"""
    max_grad_norm: float | None = None
    """the largest norm of a gradient, all weights together; a longer one is shortened to it"""
    tau: float = 1.0
    """the share of the weights that is copied to the target network every `target_every` steps"""
    reward_scale: float = 1.0
    """rewards are multiplied by it before they are stored"""
    reward_clip: float | None = None
    """then rewards are limited to ± this"""


@dataclass(frozen=True)
class OnConsolidate:
    """What happens at a consolidation, besides the training of the permanent part."""

    transient: str = REINIT
    """weights of the transient part: "keep", "reinit" (except a shared trunk), "decay" by λ, or "decay output": those of the last
    layer decay, so that V^T is multiplied by λ exactly, and the target network's likewise"""
    clear_replay: bool = True
    """whether the replay buffer B is emptied"""
    reset_optimizer: bool = True
    """whether the optimizer state of the transient part is reset"""
    sync_target: bool = False
    """whether the weights, decayed or kept, are copied to the target network at once, or with the next copy (Algorithm 4).
    Reinitialised weights are always copied at once: an older target would train towards the old task"""


@dataclass(frozen=True)
class Consolidation:
    """How the permanent part is trained (Algorithm 4, lines 14 to 16)."""

    optimizer: str | optax.GradientTransformation = "sgd"
    """as `Training.optimizer`"""
    batch: int = 64
    buffer: int = 100_000
    """capacity of D, in visits"""
    in_order: bool = False
    """whether batches are read in order, oldest first, each visit once; else they are drawn at random"""
    max_batches: int | None = 100
    """the largest number of batches; None: as many as the visits fill"""
    min_batches: int = 0
    """the smallest number of batches, even if D holds fewer: 100 on the image grid, whatever the number of visits"""
    absorbs: bool = False
    """whether V^P is trained to absorb the share `hypers.absorb` of V^T in the states of B, by as many batches as that takes; else
    one step per batch of D towards V^P + V^T"""
    cache: bool = False
    """whether V^P of stored transitions is stored with them instead of computed for each batch"""


NOTHING = OnConsolidate(KEEP, clear_replay=False, reset_optimizer=False)


def clear_replay(sync_target: bool = False) -> OnConsolidate:
    """Empties the replay buffer and keeps all weights: what TD and DQN do at a known task boundary.

    Args: sync_target: whether the target network is also copied, as in the released code.
    """
    return OnConsolidate(KEEP, clear_replay=True, reset_optimizer=False, sync_target=sync_target)


def reset_all() -> OnConsolidate:
    """Reinitialises weights and optimizer state and empties the replay buffer: the reset baselines."""
    return OnConsolidate(REINIT, clear_replay=True, reset_optimizer=True)


def make_optimizer(option: str | optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimizer with this name, or the given one."""
    if isinstance(option, optax.GradientTransformation):
        return option
    if option not in OPTIMIZERS:
        raise unknown("optimizer", option, OPTIMIZERS)
    return OPTIMIZERS[option]()


def make_loss(option: str | Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The loss with this name, or the given one."""
    if callable(option):
        return lambda error: calling("the loss", option, error)
    if option not in LOSSES:
        raise unknown("loss", option, LOSSES)
    return LOSSES[option]


def transient_optimizer(training: Training) -> optax.GradientTransformation:
    """The optimizer of the transient part, which sees gradients that are not too long."""
    optimizer = make_optimizer(training.optimizer)
    if training.max_grad_norm is None:
        return optimizer
    return optax.chain(optax.clip_by_global_norm(training.max_grad_norm), optimizer)


def learned_reward(training: Training, reward: Array) -> Array:
    """A reward as it is learned from."""
    if training.reward_scale != 1.0:
        reward = training.reward_scale * reward
    return reward if training.reward_clip is None else jnp.clip(reward, -training.reward_clip, training.reward_clip)


def apply_gradient(
    optimizer: optax.GradientTransformation,
    gradient: Any,
    weights: Any,
    opt_state: Any,
    lr: float | Array,
    ready: Array,
) -> tuple[Any, Any]:
    """One optimizer step, or none if not `ready`: the new weights and optimizer state."""
    direction, new_opt_state = optimizer.update(gradient, opt_state, weights)
    new_opt_state = tree_where(ready, new_opt_state, opt_state)
    if isinstance(optimizer, Adam):
        direction = optimizer.direction(new_opt_state)
    moved = jax.tree.map(lambda leaf, step: leaf - lr * step, weights, direction)
    return tree_where(ready, moved, weights), new_opt_state


def check_options(
    parts: ValueComposition,
    training: Training,
    consolidation: Consolidation,
    on_consolidate: OnConsolidate,
    frame: tuple[int, ...],
) -> None:
    """Raises for options that cannot work."""
    _check_optimizers(parts, training, consolidation)
    for what, batch, room in (
        ("replay buffer", training.batch, training.replay),
        ("buffer for consolidation", consolidation.batch, consolidation.buffer),
    ):
        if batch < 1:
            raise UserError(f"a batch needs at least one sample; got {batch}")
        if room < batch + training.frames - 1:  # the oldest transitions lack their earlier frames
            raise UserError(f"the {what} holds {room} samples, fewer than a batch of {batch} needs: make it larger")
    if training.target_every is not None and training.target_every < 1:
        raise UserError(f"the target network must be copied every 1 or more steps; got {training.target_every}")
    if training.renewal is not None and training.renewal.every < 1:
        raise UserError(f"weights must be renewed every 1 or more steps; got {training.renewal.every}")
    _check_learning(training)
    treatments = (KEEP, REINIT, DECAY, DECAY_OUTPUT)
    if on_consolidate.transient not in treatments:
        raise unknown("treatment of the transient weights", on_consolidate.transient, treatments)
    if on_consolidate.transient == DECAY_OUTPUT and parts.scaled is None:
        raise UserError("the output of a network can decay if its last layer is dense; this one is not")
    if consolidation.cache and not parts.permanent_static:
        raise UserError(
            "V^P on a shared trunk changes at every step: it cannot be cached; use two networks, or cache=False"
        )
    seen = (*frame[:-1], frame[-1] * training.frames) if frame else frame
    if seen != parts.input:
        raise UserError(
            f"the network takes observations of shape {parts.input}, but the world gives {frame}"
            + (f", {training.frames} frames of it {seen}" if training.frames > 1 else "")
        )


def _check_learning(training: Training) -> None:
    """Raises for options of learning that cannot work."""
    for name in ("train_every", "gradient_steps", "n_step"):
        if getattr(training, name) < 1:
            raise UserError(f"{name} must be at least 1; got {getattr(training, name)}")
    if training.n_step > training.replay:
        raise UserError(f"a return of {training.n_step} steps does not fit a replay buffer of {training.replay}")
    if not 0.0 < training.tau <= 1.0:
        raise UserError(
            f"tau is the share that is copied to the target network, above 0 and at most 1; got {training.tau}"
        )
    if training.target_every is None and (training.double or training.tau != 1.0):
        raise UserError("double and tau are about the target network, and there is none: give target_every")
    for name in ("max_grad_norm", "reward_clip", "reward_scale"):
        value = getattr(training, name)
        if value is not None and not 0 < value < float("inf"):
            raise UserError(f"{name} must be positive; got {value}")
    make_loss(training.loss)


def _check_optimizers(parts: ValueComposition, training: Training, consolidation: Consolidation) -> None:
    """Raises for unknown names, and for transformations that include a learning rate: their output points downhill."""
    for part, option in enumerate((consolidation.optimizer, training.optimizer)):
        optimizer = make_optimizer(option)
        if isinstance(option, str):
            continue
        shapes = jax.eval_shape(parts.init, jax.random.key(0))[part]
        weights, gradient = (jax.tree.map(lambda leaf, n=n: jnp.full(leaf.shape, n), shapes) for n in (0.0, 1.0))
        steps = jax.tree.leaves(optimizer.update(gradient, optimizer.init(weights), weights)[0])
        if steps and all(bool((step < 0).all()) for step in steps):
            raise UserError(
                "this optimizer includes a learning rate, but the agent has its own: give, for instance, optax.scale_by_adam() "
                "instead of optax.adam(lr)"
            )
