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
from remanence.agents.base import AT_SWITCH, Agent, Rhythm
from remanence.agents.behaviour import Behaviour
from remanence.agents.composition import Parts, alone, side_by_side
from remanence.agents.networks import Network
from remanence.agents.replay import APART, CHAINED, WITHOUT, Seen, join_frames, make_replay
from remanence.agents.ring import Ring
from remanence.agents.td import CONTROL, Problem
from remanence.core.errors import UserError, unknown
from remanence.core.masking import longest
from remanence.core.tree_utils import choose
from remanence.core.types import Hypers, Key, Told, Transition

OPTIMISERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "sgd": optax.identity,
    "adam": optax.scale_by_adam,
}
KEEP, REDRAW, DECAY = "keep", "redraw", "decay"


@dataclass(frozen=True)
class Training:
    """How the part that learns at every step is trained."""

    optimiser: str = "sgd"
    batch: int = 64
    replay: int = 100_000
    """how many transitions are remembered"""
    target_period: int | None = None
    """steps between two copies to the target network; None bootstraps from the network itself"""
    frames: int = 1
    """observations that make one input"""
    replace: bool = True
    """whether a transition may be drawn twice for one batch"""
    chained: bool = False
    """whether the next state of a transition is looked up in the one that followed, which takes half of the memory: one at which
    an episode was cut off, not ended, then teaches nothing"""


@dataclass(frozen=True)
class Forgetting:
    """What happens when the agent consolidates, besides the permanent part's own training."""

    weights: str = REDRAW
    """of the learning part: keep them, redraw what is not shared, or decay all of them by λ"""
    replay: bool = True
    """whether the replay memory is emptied"""
    moments: bool = True
    """whether the optimiser's moments begin anew"""
    target: bool = False
    """whether the target network follows decayed weights at once, or with its next copy (Algorithm 4). It always follows redrawn
    ones, because a target from before would teach the old task"""


@dataclass(frozen=True)
class Consolidation:
    """How the permanent part is trained (Algorithm 4, lines 14 to 16)."""

    optimiser: str = "sgd"
    batch: int = 64
    buffer: int = 100_000
    """how many visits D holds"""
    in_order: bool = False
    """batches one after the other, oldest first, each visit once; else drawn at random"""
    most_batches: int | None = 100
    """None: as many as the visits fill"""
    at_least: int = 0
    """batches to draw even if D holds fewer: 100 gradient steps on the image grid, whatever the number of visits"""
    cache: bool = False
    """whether V^P of remembered transitions is kept with them instead of computed for each batch"""


class DeepState(NamedTuple):
    permanent: Any  # weights of V^P
    transient: Any  # weights of V^T, the part that learns
    target: Any  # a copy of them; () if there is no target network
    moments: Any  # of the transient part's optimiser
    permanent_moments: Any
    replay: Ring  # B
    visited: Any  # D: a ring, or () without a permanent part
    recent: Array  # [frames − 1, *frame] the frames before this one in the episode; zero where there were none
    age: Array  # [] how many steps the episode has lasted
    steps: Array  # [] lived
    lost: Array  # [] visits that did not fit in D


def deep_agent(
    problem: Problem,
    parts: Parts,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    forgetting: Forgetting | None = None,
    consolidation: Consolidation | None = None,
    rhythm: Rhythm = None,
    heads: int = 1,
) -> Agent:
    """An agent that learns from batches of remembered transitions.

    Args:
        parts: the value networks; `alone(network)` for TD and DQN, whose hyper-parameters are `TDHypers`, else `PTHypers`.
        example_obs: [*obs] an observation of the world.
        forgetting: what is given up whenever the agent consolidates; None: nothing.
        rhythm: when that is. At told switches, every k episodes or steps, or never.
        heads: with more than one, the network has outputs for so many tasks, and the agent is told which task is live.
    """
    consolidation = consolidation or Consolidation()
    _check(parts, training, consolidation, forgetting, np.shape(example_obs))
    forgetting = forgetting or Forgetting(KEEP, replay=False, moments=False)
    rule, permanent_rule = OPTIMISERS[training.optimiser](), OPTIMISERS[consolidation.optimiser]()
    cached = consolidation.cache and not parts.empty
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
        CHAINED if training.chained else APART,
        known=np.zeros(outputs, np.float32) if cached else (),
    )
    visits = make_replay(
        example_obs,
        {"output": _number(outputs), "value": np.float32(0)},
        consolidation.buffer,
        training.frames,
        following=WITHOUT,
    )

    def init(key: Key, hypers: Hypers) -> DeepState:
        del hypers
        permanent, transient = parts.init(key)
        return DeepState(
            permanent,
            transient,
            transient if training.target_period else (),
            rule.init(transient),
            permanent_rule.init(permanent),
            replay.begin(),
            () if parts.empty else visits.begin(),
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
        obs, task = _untold(obs)
        seen = perceive(state, obs)
        values = parts.permanent(state.permanent, state.transient, seen) + parts.transient(state.transient, seen)
        return behaviour(of_head(values[0], task), hypers, key)

    def learn(state: DeepState, hypers: Hypers, transition: Transition, key: Key) -> DeepState:
        (obs, task), (next_obs, _) = _untold(transition.obs), _untold(transition.next_obs)
        state = remember(state, transition._replace(obs=obs, next_obs=next_obs), task)
        sample = replay.sample(state.replay, key, training.batch)
        ready = transition.real & (rings.size(state.replay) >= training.batch)
        target = state.target if training.target_period else state.transient
        if cached:
            offset, next_offset = sample.known, sample.next_known
        else:
            offset = parts.permanent(state.permanent, state.transient, sample.obs)
            next_offset = parts.permanent(state.permanent, target, sample.next_obs)
        next_values = next_offset + parts.transient(target, sample.next_obs)
        tasks = sample.extras["task"].astype(jnp.int32) if heads > 1 else jnp.zeros(training.batch, jnp.int32)
        then = jax.vmap(lambda values, task: problem.bootstrap(of_head(values, task)))(next_values, tasks)
        goal = jax.lax.stop_gradient(sample.extras["reward"] + sample.extras["discount"] * then)
        actions = problem.output(sample.extras["action"].astype(jnp.int32))
        rows, output = jnp.arange(training.batch), first_of(tasks) + actions
        offset = jax.lax.stop_gradient(offset)[rows, output]

        def loss(weights: Any) -> Array:
            """The squared TD error; to the part that learns, V^P is only a number (Eq. 5, App. A)."""
            error = goal - offset - parts.transient(weights, sample.obs)[rows, output]
            return jnp.mean(jnp.where(sample.whole, error, 0.0) ** 2)

        transient, moments = _descend(
            rule, jax.grad(loss)(state.transient), state.transient, state.moments, _lr(hypers), ready
        )
        steps = state.steps + transition.real
        if training.target_period:
            synced = transition.real & (steps % training.target_period == 0)
            # Lanes that keep the same time pay for the copy only when it is made.
            target = jax.lax.cond(
                longest(synced.astype(jnp.int32)) > 0,
                lambda: choose(synced, transient, state.target),
                lambda: state.target,
            )
            state = state._replace(target=target)
        return state._replace(transient=transient, moments=moments, steps=steps)

    def remember(state: DeepState, transition: Transition, task: Array) -> DeepState:
        """Notes the transition in B and the visit, with its V^P, in D."""
        extras = {"action": transition.action, "reward": transition.reward, "discount": transition.discount}
        if heads > 1:
            extras["task"] = task
        stack = jnp.concatenate([state.recent, transition.obs[None].astype(frame.dtype)])
        now, then = Seen(transition.obs, state.age), Seen(transition.next_obs, state.age + 1)
        if not parts.empty:
            value = parts.permanent(state.permanent, state.transient, perceive(state, transition.obs))[0]
            output = first_of(task) + problem.output(transition.action)
            visit = {"output": output, "value": value[output]}
            state = state._replace(
                visited=visits.note(state.visited, now, then, visit, jnp.bool_(False), transition.real)
            )
            if cached:
                following = perceive(state._replace(recent=stack[1:]), transition.next_obs)
                next_value = parts.permanent(state.permanent, state.transient, following)[0]
                now, then = now._replace(known=value), then._replace(known=next_value)
        going_on = ~transition.last
        cut = transition.last & (transition.discount > 0)
        return state._replace(
            replay=replay.note(state.replay, now, then, extras, cut, transition.real),
            recent=jnp.where(transition.real, jnp.where(going_on, stack[1:], jnp.zeros_like(stack[1:])), state.recent),
            age=jnp.where(transition.real, jnp.where(going_on, state.age + 1, 0), state.age),
        )

    def consolidate(state: DeepState, hypers: Hypers, key: Key) -> DeepState:
        k_absorb, k_redraw = jax.random.split(key)
        if not parts.empty:
            state = absorb(state, hypers, k_absorb)
        if forgetting.weights == REDRAW:
            state = state._replace(transient=parts.redraw(k_redraw, state.transient))
        elif forgetting.weights == DECAY:
            state = state._replace(transient=jax.tree.map(lambda leaf: hypers.decay * leaf, state.transient))
        if training.target_period and (forgetting.target or forgetting.weights == REDRAW):
            state = state._replace(target=state.transient)
        if forgetting.moments:
            state = state._replace(moments=rule.init(state.transient))
        if forgetting.replay:
            state = state._replace(replay=rings.emptied(state.replay))
        elif cached:
            believe = partial(parts.permanent, state.permanent, state.transient)
            state = state._replace(replay=replay.refresh(state.replay, believe, 4 * training.batch))
        return state

    def absorb(state: DeepState, hypers: Hypers, key: Key) -> DeepState:
        """Trains the permanent part towards V^P as stored + V^T (Algorithm 4, lines 14 to 16), and empties D."""
        held = rings.size(state.visited)
        count = held // consolidation.batch
        if consolidation.most_batches is not None:
            count = jnp.minimum(count, consolidation.most_batches)
        count = jnp.where(held > 0, jnp.maximum(count, consolidation.at_least), 0)

        def one_batch(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            permanent, moments = carry
            if consolidation.in_order:
                ages = i * consolidation.batch + jnp.arange(consolidation.batch)
                sample = visits.read(state.visited, jnp.minimum(ages, held - 1))
            else:
                sample = visits.sample(state.visited, jax.random.fold_in(key, i), consolidation.batch)
            rows, output = jnp.arange(consolidation.batch), sample.extras["output"].astype(jnp.int32)
            goal = sample.extras["value"] + parts.transient(state.transient, sample.obs)[rows, output]

            def loss(weights: Any) -> Array:
                error = goal - parts.permanent(weights, state.transient, sample.obs)[rows, output]
                return jnp.mean(jnp.where(sample.whole, error, 0.0) ** 2)

            gradient = jax.grad(loss)(permanent)
            return _descend(permanent_rule, gradient, permanent, moments, hypers.permanent_lr, i < count)

        permanent, moments = jax.lax.fori_loop(0, longest(count), one_batch, (state.permanent, state.permanent_moments))
        return state._replace(
            permanent=permanent,
            permanent_moments=moments,
            visited=rings.emptied(state.visited),
            lost=state.lost + rings.overwritten(state.visited),
        )

    def inspect(state: DeepState, obs: Array) -> dict[str, Array]:
        """`obs` is a whole input: with several frames, their stack."""
        transient = parts.transient(state.transient, obs[None])[0]
        if parts.empty:
            return {"value": transient}
        permanent = parts.permanent(state.permanent, state.transient, obs[None])[0]
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    return Agent(
        init, act, learn, consolidate, inspect, rhythm, knows_task=heads > 1, samples_lost=lambda state: state.lost
    )


def _untold(obs: Any) -> tuple[Array, Array]:
    """The observation and the task; task 0 for agents that are not told."""
    return (obs.obs, obs.task) if isinstance(obs, Told) else (obs, jnp.int32(0))


def _descend(
    rule: optax.GradientTransformation, gradient: Any, weights: Any, moments: Any, lr: float | Array, really: Array
) -> tuple[Any, Any]:
    """One step of an optimiser, or none."""
    direction, new_moments = rule.update(gradient, moments, weights)
    moved = jax.tree.map(lambda leaf, step: leaf - lr * step, weights, direction)
    return choose(really, moved, weights), choose(really, new_moments, moments)


def _lr(hypers: Hypers) -> float | Array:
    """The step size of the part that learns."""
    return hypers.transient_lr if hasattr(hypers, "transient_lr") else hypers.lr


def _number(outputs: int) -> np.int8 | np.int32:
    """Room for the number of an output."""
    return np.int8(0) if outputs <= 128 else np.int32(0)


def _check(
    parts: Parts,
    training: Training,
    consolidation: Consolidation,
    forgetting: Forgetting | None,
    frame: tuple[int, ...],
) -> None:
    """Refuses what could only fail later, or never end."""
    for rule in (training.optimiser, consolidation.optimiser):
        if rule not in OPTIMISERS:
            raise unknown("optimiser", rule, OPTIMISERS)
    for what, batch, room in (
        ("replay memory", training.batch, training.replay),
        ("buffer for consolidation", consolidation.batch, consolidation.buffer),
    ):
        if batch < 1:
            raise UserError(f"a batch needs at least one sample; got {batch}")
        if room < batch + training.frames - 1:  # the oldest ones lack their earlier frames
            raise UserError(f"the {what} holds {room} samples, fewer than a batch of {batch} needs: make it larger")
    if training.target_period is not None and training.target_period < 1:
        raise UserError(f"the target network must be copied every 1 or more steps; got {training.target_period}")
    if forgetting is not None and forgetting.weights not in (KEEP, REDRAW, DECAY):
        raise unknown("way to forget", forgetting.weights, (KEEP, REDRAW, DECAY))
    if consolidation.cache and parts.drifts:
        raise UserError(
            "V^P on a shared trunk changes at every step: it cannot be cached; use two networks, or cache=False"
        )
    seen = (*frame[:-1], frame[-1] * training.frames) if frame else frame
    if seen != parts.input:
        raise UserError(
            f"the network takes observations of shape {parts.input}, but the world gives {frame}"
            + (f", {training.frames} frames of it {seen}" if training.frames > 1 else "")
        )


def resetting(reset: bool) -> Forgetting:
    """What TD and DQN do at a switch they are told of: empty the replay memory, and with `reset` begin anew."""
    return Forgetting(REDRAW if reset else KEEP, replay=True, moments=reset)


def dqn(
    network: Network,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    at_switch: Forgetting | None = None,
    heads: int = 1,
) -> Agent:
    """DQN and its variants.

    Args:
        training: with a large `replay` this is the large-buffer variant.
        at_switch: what is done at switches the agent is told of: `resetting(False)` empties the memory, `resetting(True)` also
            begins anew; None if it is not told, or does not care.
        heads: with more than one, the multi-head variant: the network has outputs for so many tasks, and the agent is told which
            is live.
    """
    rhythm = None if at_switch is None else AT_SWITCH
    return deep_agent(CONTROL, alone(network), behaviour, example_obs, training, at_switch, rhythm=rhythm, heads=heads)


def pt_dqn(
    permanent: Network,
    transient: Network,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    consolidation: Consolidation,
    rhythm: Rhythm,
    target_follows: bool = False,
) -> Agent:
    """PT-DQN for a continual life (Algorithm 4): two networks, the transient one decayed by λ; B and the moments are kept.

    Args:
        target_follows: whether the target network is decayed at once, not with its next copy.
    """
    return deep_agent(
        CONTROL,
        side_by_side(permanent, transient),
        behaviour,
        example_obs,
        training,
        Forgetting(DECAY, replay=False, moments=False, target=target_follows),
        consolidation,
        rhythm,
    )
