"""Deep agents: one learner from replayed batches, for TD and DQN, with or without a permanent part (paper, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike

from remanence.agents import ring as rings
from remanence.agents.base import AT_SWITCH, Agent, ConsolidateEvery
from remanence.agents.behaviour import Behaviour
from remanence.agents.composition import ValueComposition, separate_networks, single
from remanence.agents.networks import Network
from remanence.agents.replay import IMPLICIT, NONE, SEPARATE, Frame, make_replay
from remanence.agents.ring import Ring
from remanence.agents.td import CONTROL, Problem
from remanence.core.errors import UserError, unknown
from remanence.core.frames import join_frames
from remanence.core.masking import max_over_lanes
from remanence.core.tree_utils import tree_where
from remanence.core.types import Hypers, Key, TaskObs, Transition

OPTIMIZERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "sgd": optax.identity,
    "adam": optax.scale_by_adam,
}
KEEP, REINIT, DECAY = "keep", "redraw", "decay"


@dataclass(frozen=True)
class Training:
    """How the part that learns at every step is trained."""

    optimizer: str = "sgd"
    batch: int = 64
    replay: int = 100_000
    """how many transitions are remembered"""
    target_every: int | None = None
    """steps between two copies to the target network; None bootstraps from the network itself"""
    frames: int = 1
    """observations that make one input"""
    replace: bool = True
    """whether a transition may be drawn twice for one batch"""
    implicit_next: bool = False
    """whether the next state of a transition is looked up in the one that followed, which takes half of the memory: one at which
    an episode was cut off, not ended, then teaches nothing"""


@dataclass(frozen=True)
class OnConsolidate:
    """What happens when the agent consolidates, besides the permanent part's own training."""

    weights: str = REINIT
    """of the learning part: keep them, redraw what is not shared, or decay all of them by λ"""
    replay: bool = True
    """whether the replay memory is emptied"""
    opt_state: bool = True
    """whether the optimizer's moments begin anew"""
    target: bool = False
    """whether the target network follows decayed weights at once, or with its next copy (Algorithm 4). It always follows redrawn
    ones, because a target from before would teach the old task"""


@dataclass(frozen=True)
class Consolidation:
    """How the permanent part is trained (Algorithm 4, lines 14 to 16)."""

    optimizer: str = "sgd"
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
    """whether V^P of remembered transitions is kept with them instead of computed for each batch"""


class DeepState(NamedTuple):
    permanent: Any  # weights of V^P
    transient: Any  # weights of V^T, the part that learns
    target: Any  # a copy of them; () if there is no target network
    opt_state: Any  # of the transient part's optimizer
    permanent_opt_state: Any
    replay: Ring  # B
    visited: Any  # D: a ring, or () without a permanent part
    recent: Array  # [frames − 1, *frame] the frames before this one in the episode; zero where there were none
    age: Array  # [] how many steps the episode has lasted
    steps: Array  # [] lived
    dropped: Array  # [] visits that did not fit in D


def deep_agent(
    problem: Problem,
    parts: ValueComposition,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    forgetting: OnConsolidate | None = None,
    consolidation: Consolidation | None = None,
    consolidate_every: ConsolidateEvery = None,
    heads: int = 1,
) -> Agent:
    """An agent that learns from batches of remembered transitions.

    Args:
        parts: the value networks; `single(network)` for TD and DQN, whose hyper-parameters are `TDHypers`, else `PTHypers`.
        example_obs: [*obs] an observation of the world.
        forgetting: what is given up whenever the agent consolidates; None: nothing.
        rhythm: when that is. At told switches, every k episodes or steps, or never.
        heads: with more than one, the network has outputs for so many tasks, and the agent is told which task is live.
    """
    consolidation = consolidation or Consolidation()
    _check(parts, training, consolidation, forgetting, np.shape(example_obs))
    forgetting = forgetting or OnConsolidate(KEEP, replay=False, opt_state=False)
    optimizer, permanent_optimizer = OPTIMIZERS[training.optimizer](), OPTIMIZERS[consolidation.optimizer]()
    use_cache = consolidation.cache and parts.has_permanent
    frame, outputs = jnp.asarray(example_obs), parts.outputs
    if heads < 1 or outputs % heads:
        raise UserError(f"{outputs} outputs cannot be shared equally by {heads} heads")
    replay = make_replay(
        example_obs,
        {"action": _number(outputs), "reward": np.float32(0), "discount": np.float32(0)}
        | ({"task": _number(outputs)} if heads > 1 else {}),
        training.replay,
        training.frames,
        training.replace,
        IMPLICIT if training.implicit_next else SEPARATE,
        cached=np.zeros(outputs, np.float32) if use_cache else (),
    )
    visits = make_replay(
        example_obs,
        {"output": _number(outputs), "value": np.float32(0)},
        consolidation.buffer,
        training.frames,
        next_obs_storage=NONE,
    )

    def init(key: Key, hypers: Hypers) -> DeepState:
        del hypers
        permanent, transient = parts.init(key)
        return DeepState(
            permanent,
            transient,
            transient if training.target_every else (),
            optimizer.init(transient),
            permanent_optimizer.init(permanent),
            replay.begin(),
            () if not parts.has_permanent else visits.begin(),
            jnp.zeros((training.frames - 1, *frame.shape), frame.dtype),
            jnp.int32(0),
            jnp.int32(0),
            jnp.int32(0),
        )

    def perceive(state: DeepState, obs: Array) -> Array:
        """[1, *input] with the frames that came before."""
        if training.frames == 1:
            return obs[None]
        return join_frames(jnp.concatenate([state.recent, obs[None]])[None])

    def of_head(values: Array, task: Array) -> Array:
        """[outputs] -> those of one task's head."""
        return values if heads == 1 else values.reshape(heads, -1)[task]

    def first_of(task: Array) -> Array:
        """The first output of a task's head."""
        return task * (outputs // heads)

    def act(state: DeepState, hypers: Hypers, obs: Any, key: Key) -> Array:
        obs, task = _split_task(obs)
        seen = perceive(state, obs)
        values = parts.permanent(state.permanent, state.transient, seen) + parts.transient(state.transient, seen)
        return behaviour(of_head(values[0], task), hypers, key)

    def learn(state: DeepState, hypers: Hypers, transition: Transition, key: Key) -> DeepState:
        (obs, task), (next_obs, _) = _split_task(transition.obs), _split_task(transition.next_obs)
        state = remember(state, transition._replace(obs=obs, next_obs=next_obs), task)
        sample = replay.sample(state.replay, key, training.batch)
        ready = transition.valid & (rings.size(state.replay) >= training.batch)
        target = state.target if training.target_every else state.transient
        if use_cache:
            permanent_q, next_permanent_q = sample.cached, sample.next_cached
        else:
            permanent_q = parts.permanent(state.permanent, state.transient, sample.obs)
            next_permanent_q = parts.permanent(state.permanent, target, sample.next_obs)
        next_values = next_permanent_q + parts.transient(target, sample.next_obs)
        tasks = sample.extras["task"].astype(jnp.int32) if heads > 1 else jnp.zeros(training.batch, jnp.int32)
        then = jax.vmap(lambda values, task: problem.bootstrap(of_head(values, task)))(next_values, tasks)
        td_target = jax.lax.stop_gradient(sample.extras["reward"] + sample.extras["discount"] * then)
        actions = problem.output(sample.extras["action"].astype(jnp.int32))
        rows, output = jnp.arange(training.batch), first_of(tasks) + actions
        permanent_q = jax.lax.stop_gradient(permanent_q)[rows, output]

        def loss(weights: Any) -> Array:
            """The squared TD error; to the part that learns, V^P is only a number (Eq. 5, App. A)."""
            error = td_target - permanent_q - parts.transient(weights, sample.obs)[rows, output]
            return jnp.mean(jnp.where(sample.valid, error, 0.0) ** 2)

        transient, opt_state = apply_gradient(
            optimizer, jax.grad(loss)(state.transient), state.transient, state.opt_state, _lr(hypers), ready
        )
        steps = state.steps + transition.valid
        if training.target_every:
            synced = transition.valid & (steps % training.target_every == 0)
            # Lanes that keep the same time pay for the copy only when it is made.
            target = jax.lax.cond(
                max_over_lanes(synced.astype(jnp.int32), transition.valid) > 0,
                lambda: tree_where(synced, transient, state.target),
                lambda: state.target,
            )
            state = state._replace(target=target)
        return state._replace(transient=transient, opt_state=opt_state, steps=steps)

    def remember(state: DeepState, transition: Transition, task: Array) -> DeepState:
        """Notes the transition in B and the visit, with its V^P, in D."""
        extras = {"action": transition.action, "reward": transition.reward, "discount": transition.discount}
        if heads > 1:
            extras["task"] = task
        stack = jnp.concatenate([state.recent, transition.obs[None].astype(frame.dtype)])
        now, then = Frame(transition.obs, state.age), Frame(transition.next_obs, state.age + 1)
        if parts.has_permanent:
            value = parts.permanent(state.permanent, state.transient, perceive(state, transition.obs))[0]
            output = first_of(task) + problem.output(transition.action)
            visit = {"output": output, "value": value[output]}
            state = state._replace(
                visited=visits.add(state.visited, now, then, visit, jnp.bool_(False), transition.valid)
            )
            if use_cache:
                following = perceive(state._replace(recent=stack[1:]), transition.next_obs)
                next_value = parts.permanent(state.permanent, state.transient, following)[0]
                now, then = now._replace(cached=value), then._replace(cached=next_value)
        going_on = ~transition.last
        cut = transition.last & (transition.discount > 0)
        return state._replace(
            replay=replay.add(state.replay, now, then, extras, cut, transition.valid),
            recent=jnp.where(transition.valid, jnp.where(going_on, stack[1:], jnp.zeros_like(stack[1:])), state.recent),
            age=jnp.where(transition.valid, jnp.where(going_on, state.age + 1, 0), state.age),
        )

    def consolidate(state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        k_permanent, k_reinit = jax.random.split(key)
        if parts.has_permanent:
            state = update_permanent(state, hypers, k_permanent, active)
        if forgetting.weights == REINIT:
            state = state._replace(transient=parts.reinit(k_reinit, state.transient))
        elif forgetting.weights == DECAY:
            state = state._replace(transient=jax.tree.map(lambda leaf: hypers.decay * leaf, state.transient))
        if training.target_every and (forgetting.target or forgetting.weights == REINIT):
            state = state._replace(target=state.transient)
        if forgetting.opt_state:
            state = state._replace(opt_state=optimizer.init(state.transient))
        if forgetting.replay:
            state = state._replace(replay=rings.emptied(state.replay))
        elif use_cache:
            believe = partial(parts.permanent, state.permanent, state.transient)
            state = state._replace(replay=replay.refresh(state.replay, believe, 4 * training.batch, active))
        return state

    def update_permanent(state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        """Trains the permanent part towards V^P as stored + V^T (Algorithm 4, lines 14 to 16), and empties D."""
        held = rings.size(state.visited)
        count = held // consolidation.batch
        if consolidation.max_batches is not None:
            count = jnp.minimum(count, consolidation.max_batches)
        count = jnp.where(held > 0, jnp.maximum(count, consolidation.min_batches), 0)

        def one_batch(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            permanent, opt_state = carry
            if consolidation.in_order:
                ages = i * consolidation.batch + jnp.arange(consolidation.batch)
                sample = visits.read(state.visited, jnp.minimum(ages, held - 1))
            else:
                sample = visits.sample(state.visited, jax.random.fold_in(key, i), consolidation.batch)
            rows, output = jnp.arange(consolidation.batch), sample.extras["output"].astype(jnp.int32)
            td_target = sample.extras["value"] + parts.transient(state.transient, sample.obs)[rows, output]

            def loss(weights: Any) -> Array:
                error = td_target - parts.permanent(weights, state.transient, sample.obs)[rows, output]
                return jnp.mean(jnp.where(sample.valid, error, 0.0) ** 2)

            gradient = jax.grad(loss)(permanent)
            return apply_gradient(permanent_optimizer, gradient, permanent, opt_state, hypers.permanent_lr, i < count)

        permanent, opt_state = jax.lax.fori_loop(
            0, max_over_lanes(count, active), one_batch, (state.permanent, state.permanent_opt_state)
        )
        return state._replace(
            permanent=permanent,
            permanent_opt_state=opt_state,
            visited=rings.emptied(state.visited),
            dropped=state.dropped + rings.overwritten(state.visited),
        )

    def inspect(state: DeepState, obs: Array) -> dict[str, Array]:
        """`obs` is a whole input: with several frames, their stack."""
        transient = parts.transient(state.transient, obs[None])[0]
        if not parts.has_permanent:
            return {"value": transient}
        permanent = parts.permanent(state.permanent, state.transient, obs[None])[0]
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    return Agent(
        init,
        act,
        learn,
        consolidate,
        inspect,
        consolidate_every,
        task_aware=heads > 1,
        samples_dropped=lambda state: state.dropped,
        policy_state=_policy_state,
    )


def _policy_state(state: DeepState) -> DeepState:
    """Weights, and the frames an input is stacked from."""
    kept = ("permanent", "transient", "recent")
    return state._replace(**{name: () for name in state._fields if name not in kept})


def _split_task(obs: Any) -> tuple[Array, Array]:
    """The observation and the task; task 0 for agents that are not told."""
    return (obs.obs, obs.task) if isinstance(obs, TaskObs) else (obs, jnp.int32(0))


def apply_gradient(
    optimizer: optax.GradientTransformation,
    gradient: Any,
    weights: Any,
    opt_state: Any,
    lr: float | Array,
    really: Array,
) -> tuple[Any, Any]:
    """One step of an optimizer, or none."""
    direction, new_opt_state = optimizer.update(gradient, opt_state, weights)
    moved = jax.tree.map(lambda leaf, step: leaf - lr * step, weights, direction)
    return tree_where(really, moved, weights), tree_where(really, new_opt_state, opt_state)


def _lr(hypers: Hypers) -> float | Array:
    """The step size of the part that learns."""
    return hypers.transient_lr if hasattr(hypers, "transient_lr") else hypers.lr


def _number(outputs: int) -> np.int8 | np.int32:
    """Room for the number of an output."""
    return np.int8(0) if outputs <= 128 else np.int32(0)


def _check(
    parts: ValueComposition,
    training: Training,
    consolidation: Consolidation,
    forgetting: OnConsolidate | None,
    frame: tuple[int, ...],
) -> None:
    """Refuses what could only fail later, or never end."""
    for optimizer in (training.optimizer, consolidation.optimizer):
        if optimizer not in OPTIMIZERS:
            raise unknown("optimizer", optimizer, OPTIMIZERS)
    for what, batch, room in (
        ("replay memory", training.batch, training.replay),
        ("buffer for consolidation", consolidation.batch, consolidation.buffer),
    ):
        if batch < 1:
            raise UserError(f"a batch needs at least one sample; got {batch}")
        if room < batch + training.frames - 1:  # the oldest ones lack their earlier frames
            raise UserError(f"the {what} holds {room} samples, fewer than a batch of {batch} needs: make it larger")
    if training.target_every is not None and training.target_every < 1:
        raise UserError(f"the target network must be copied every 1 or more steps; got {training.target_every}")
    if forgetting is not None and forgetting.weights not in (KEEP, REINIT, DECAY):
        raise unknown("way to forget", forgetting.weights, (KEEP, REINIT, DECAY))
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


def clear_replay() -> OnConsolidate:
    """Empties the replay buffer and keeps everything else: what TD and DQN do at a known task boundary."""
    return OnConsolidate(KEEP, replay=True, opt_state=False)


def reset_all() -> OnConsolidate:
    """Reinitialises weights and optimizer state and empties the replay buffer: the reset baselines."""
    return OnConsolidate(REINIT, replay=True, opt_state=True)


def dqn(
    network: Network,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    at_switch: OnConsolidate | None = None,
    heads: int = 1,
) -> Agent:
    """DQN and its variants.

    Args:
        training: with a large `replay` this is the large-buffer variant.
        at_switch: what is done at switches the agent is told of: `clear_replay()` empties the memory, `reset_all()` also
            begins anew; None if it is not told, or does not care.
        heads: with more than one, the multi-head variant: the network has outputs for so many tasks, and the agent is told which
            is live.
    """
    consolidate_every = None if at_switch is None else AT_SWITCH
    return deep_agent(
        CONTROL,
        single(network),
        behaviour,
        example_obs,
        training,
        at_switch,
        consolidate_every=consolidate_every,
        heads=heads,
    )


def pt_dqn(
    permanent: Network,
    transient: Network,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    consolidation: Consolidation,
    consolidate_every: ConsolidateEvery,
    target_follows: bool = False,
) -> Agent:
    """PT-DQN for a continual life (Algorithm 4): two networks, the transient one decayed by λ; B and the moments are kept.

    Args:
        target_follows: whether the target network is decayed at once, not with its next copy.
    """
    return deep_agent(
        CONTROL,
        separate_networks(permanent, transient),
        behaviour,
        example_obs,
        training,
        OnConsolidate(DECAY, replay=False, opt_state=False, target=target_follows),
        consolidation,
        consolidate_every,
    )
