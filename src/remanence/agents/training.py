"""The options of deep agents, and their optimizers. What is done with them is in `dqn.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from remanence.agents.composition import ValueComposition
from remanence.core.errors import UserError, unknown
from remanence.core.tree_utils import tree_where
from remanence.core.types import Key

OPTIMIZERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "sgd": optax.identity,
    "adam": optax.scale_by_adam,
    "rmsprop": optax.scale_by_rms,
}
KEEP, REINIT, DECAY = "keep", "reinit", "decay"


@dataclass(frozen=True)
class Renewal:
    """A change of the transient weights every so many steps, such as shrink-and-perturb or the reset of dormant units."""

    every: int
    """steps between two renewals, counted from the agent's first step"""
    renew: Callable[[Key, Any, Any], tuple[Any, Any]]
    """(key, transient weights, optimizer state) -> both, of the same shapes"""


@dataclass(frozen=True)
class Training:
    """How the transient part, which learns at every step, is trained."""

    optimizer: str | optax.GradientTransformation = "sgd"
    """a name of `OPTIMIZERS`, or any transformation of optax without its learning rate: `optax.scale_by_lion()`, or
    `optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())`, but not `optax.adam(1e-3)`. Its output is multiplied by
    the agent's step size, which may differ between lanes, and subtracted from the weights"""
    batch: int = 64
    replay: int = 100_000
    """how many transitions are kept"""
    target_every: int | None = None
    """steps between two copies to the target network; None bootstraps from the network itself"""
    frames: int = 1
    """observations that make one input"""
    replace: bool = True
    """whether a transition may be drawn twice for one batch"""
    implicit_next: bool = False
    """whether the next state of a transition is looked up in the one that followed, which takes half of the memory: one at which
    an episode was truncated, not terminated, then teaches nothing"""
    penalty: Callable[[Any, Any], Array] | None = None
    """(transient weights, the weights they were drawn with) -> a number that is added to the loss, such as half the squared
    distance between them (regenerative regularization)"""
    renewal: Renewal | None = None


@dataclass(frozen=True)
class OnConsolidate:
    """What happens when the agent consolidates, besides the permanent part's own training."""

    transient: str = REINIT
    """weights of the transient part: "keep" them, "reinit" what is not shared with the permanent part, or "decay" all by λ"""
    clear_replay: bool = True
    """whether the replay buffer B is emptied"""
    reset_optimizer: bool = True
    """whether the optimizer state of the transient part is reset"""
    sync_target: bool = False
    """whether the target network follows decayed weights at once, or with its next copy (Algorithm 4). It always follows
    reinitialised ones, because a target from before would teach the old task"""


@dataclass(frozen=True)
class Consolidation:
    """How the permanent part is trained (Algorithm 4, lines 14 to 16)."""

    optimizer: str | optax.GradientTransformation = "sgd"
    """as `Training.optimizer`"""
    batch: int = 64
    buffer: int = 100_000
    """how many visits D holds"""
    in_order: bool = False
    """batches one after the other, oldest first, each visit once; else drawn at random"""
    max_batches: int | None = 100
    """None: as many as the visits fill"""
    min_batches: int = 0
    """batches to draw even if D holds fewer: 100 gradient steps on the image grid, whatever the number of visits"""
    cache: bool = False
    """whether V^P of stored transitions is kept with them instead of computed for each batch"""


NOTHING = OnConsolidate(KEEP, clear_replay=False, reset_optimizer=False)


def clear_replay() -> OnConsolidate:
    """Empties the replay buffer and keeps everything else: what TD and DQN do at a known task boundary."""
    return OnConsolidate(KEEP, clear_replay=True, reset_optimizer=False)


def reset_all() -> OnConsolidate:
    """Reinitialises weights and optimizer state and empties the replay buffer: the reset baselines."""
    return OnConsolidate(REINIT, clear_replay=True, reset_optimizer=True)


def make_optimizer(option: str | optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimizer of that name, or the given one."""
    if isinstance(option, optax.GradientTransformation):
        return option
    if option not in OPTIMIZERS:
        raise unknown("optimizer", option, OPTIMIZERS)
    return OPTIMIZERS[option]()


def apply_gradient(
    optimizer: optax.GradientTransformation,
    gradient: Any,
    weights: Any,
    opt_state: Any,
    lr: float | Array,
    ready: Array,
) -> tuple[Any, Any]:
    """One step of an optimizer, or none: the weights and the optimizer state after it."""
    direction, new_opt_state = optimizer.update(gradient, opt_state, weights)
    moved = jax.tree.map(lambda leaf, step: leaf - lr * step, weights, direction)
    return tree_where(ready, moved, weights), tree_where(ready, new_opt_state, opt_state)


def check_options(
    parts: ValueComposition,
    training: Training,
    consolidation: Consolidation,
    on_consolidate: OnConsolidate,
    frame: tuple[int, ...],
) -> None:
    """Refuses what could only fail later, or never end."""
    _check_optimizers(parts, training, consolidation)
    for what, batch, room in (
        ("replay buffer", training.batch, training.replay),
        ("buffer for consolidation", consolidation.batch, consolidation.buffer),
    ):
        if batch < 1:
            raise UserError(f"a batch needs at least one sample; got {batch}")
        if room < batch + training.frames - 1:  # the oldest ones lack their earlier frames
            raise UserError(f"the {what} holds {room} samples, fewer than a batch of {batch} needs: make it larger")
    if training.target_every is not None and training.target_every < 1:
        raise UserError(f"the target network must be copied every 1 or more steps; got {training.target_every}")
    if training.renewal is not None and training.renewal.every < 1:
        raise UserError(f"weights must be renewed every 1 or more steps; got {training.renewal.every}")
    if on_consolidate.transient not in (KEEP, REINIT, DECAY):
        raise unknown("treatment of the transient weights", on_consolidate.transient, (KEEP, REINIT, DECAY))
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


def _check_optimizers(parts: ValueComposition, training: Training, consolidation: Consolidation) -> None:
    """Refuses names that are not known, and transformations that point downhill already: they have a learning rate in them."""
    for part, option in enumerate((consolidation.optimizer, training.optimizer)):
        optimizer = make_optimizer(option)
        if isinstance(option, str):
            continue
        shapes = jax.eval_shape(parts.init, jax.random.key(0))[part]
        weights, gradient = (jax.tree.map(lambda leaf, n=n: jnp.full(leaf.shape, n), shapes) for n in (0.0, 1.0))
        steps = jax.tree.leaves(optimizer.update(gradient, optimizer.init(weights), weights)[0])
        if steps and all(bool((step < 0).all()) for step in steps):
            raise UserError(
                "this optimizer has a learning rate in it, but the agent has its own: give optax.scale_by_adam(), for instance, "
                "in place of optax.adam(lr)"
            )
