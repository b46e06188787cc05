"""Deep agents: one learner from replayed batches, for TD and DQN, with or without a permanent part.

`deep_agent` is the paper's Algorithm 4 (PT-DQN), in its order. The numbers in the code are its lines:

     1–3   Initialize buffers B and D, networks w^P and w^T, target network w^T_target                 init
     5     Take action A_t according to the ε-greedy policy                                            act
     7     Store (S_t, A_t, R_{t+1}, S_{t+1}) in B                                                     store
     8     Store (S_t, A_t, Q^P(S_t, A_t)) in D                                                        store
     9     Sample a batch of transitions from B                                                        learn
    10     y = R_{j+1} + γ max_a' (Q^P(S_{j+1}, a') + Q^T(S_{j+1}, a'; w^T_target)) − Q^P(S_j, A_j)    learn
    11     Gradient step on (y − Q^T(S_j, A_j))² with respect to w^T                                   learn
    12     w^T_target = w^T every N steps                                                              sync_target
    13     Every k steps (the loop calls it, see `consolidate_every`):                                 consolidate
    14         Sample a batch (S_j, A_j, Q^P(S_j, A_j)) from D                                         update_permanent
    15         ŷ = Q^P(S_j, A_j) as stored + Q^T(S_j, A_j)                                             update_permanent
    16         Gradient step on (ŷ − Q^P(S_j, A_j))² with respect to w^P                               update_permanent
    17         w^T = λ w^T                                                                             consolidate
    18         D = {}                                                                                  update_permanent

Without a permanent part, Q^P is 0 and lines 8 and 14 to 18 are skipped: this is DQN. For prediction, V(s) replaces Q(s, a), and the
value of the next state replaces the maximum: this is TD. The equations are in `updates.py`, the options in
`training.py`, frame stacks in `frames.py`, and heads per task in `heads.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from remanence.agents import ring as rings
from remanence.agents.base import AT_SWITCH, Agent, ConsolidateEvery
from remanence.agents.behaviour import Behaviour
from remanence.agents.composition import ValueComposition, separate_networks, single
from remanence.agents.frames import frame_stack
from remanence.agents.heads import head_per_task, one_head, with_task_obs
from remanence.agents.networks import Network
from remanence.agents.replay import IMPLICIT, NONE, SEPARATE, Frame, Sample, make_replay
from remanence.agents.ring import Ring
from remanence.agents.td import CONTROL, Problem
from remanence.agents.training import (
    DECAY,
    KEEP,
    NOTHING,
    OPTIMIZERS,
    REINIT,
    Consolidation,
    OnConsolidate,
    Renewal,
    Training,
    apply_gradient,
    check_options,
    clear_replay,
    make_optimizer,
    reset_all,
)
from remanence.core.masking import max_over_lanes
from remanence.core.tree_utils import tree_where
from remanence.core.types import Hypers, Key, Transition
from remanence.updates import decayed, permanent_loss, td_target, transient_loss

__all__ = [
    "DECAY",
    "KEEP",
    "OPTIMIZERS",
    "REINIT",
    "Consolidation",
    "DeepState",
    "OnConsolidate",
    "Renewal",
    "Training",
    "clear_replay",
    "deep_agent",
    "dqn",
    "pt_dqn",
    "reset_all",
]


class DeepState(NamedTuple):
    permanent: Any  # w^P, weights of V^P
    transient: Any  # w^T, weights of V^T, trained at every step
    target: Any  # w^T_target, an older copy of w^T; () if there is no target network
    opt_state: Any  # of the transient part's optimizer
    permanent_opt_state: Any
    replay: Ring  # B
    visited: Any  # D: a ring, or () without a permanent part
    recent: Array  # [frames − 1, *frame] the previous frames of the episode; zero before its start
    age: Array  # [] steps of the current episode
    steps: Array  # [] steps learned from
    dropped: Array  # [] visits that a full D dropped
    initial: Any = ()  # the initial w^T, for a penalty; () without one


def deep_agent(
    problem: Problem,
    parts: ValueComposition,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    on_consolidate: OnConsolidate | None = None,
    consolidation: Consolidation | None = None,
    consolidate_every: ConsolidateEvery = None,
    heads: int = 1,
) -> Agent:
    """An agent that learns from batches of replayed transitions.

    Args:
        parts: the value networks; `single(network)` for TD and DQN, which have `lr`; the others have `permanent_lr`, `transient_lr`
            and `decay`.
        example_obs: [*obs] an observation of the world.
        on_consolidate: what is reset, decayed or cleared at a consolidation; None: nothing.
        consolidation: how the permanent part is trained at a consolidation.
        consolidate_every: at known task boundaries (`AT_SWITCH`), every k episodes or steps, or never (None).
        heads: if more than 1, the network has a head for each of that many tasks, and the agent observes the current task.
    """
    consolidation, on_consolidate = consolidation or Consolidation(), on_consolidate or NOTHING
    check_options(parts, training, consolidation, on_consolidate, np.shape(example_obs))
    outputs = one_head(problem) if heads == 1 else head_per_task(problem, heads, parts.outputs)
    optimizer, permanent_optimizer = make_optimizer(training.optimizer), make_optimizer(consolidation.optimizer)
    use_cache = consolidation.cache and parts.has_permanent  # Q^P of stored transitions is stored with them
    frames = frame_stack(example_obs, training.frames)
    replay = make_replay(  # B
        example_obs,
        {"action": _integer(parts.outputs), "reward": np.float32(0), "discount": np.float32(0)},
        training.replay,
        training.frames,
        training.replace,
        IMPLICIT if training.implicit_next else SEPARATE,
        cached=np.zeros(parts.outputs, np.float32) if use_cache else (),
    )
    visits = make_replay(  # D
        example_obs,
        {"output": _integer(parts.outputs), "value": np.float32(0)},
        consolidation.buffer,
        training.frames,
        next_obs_storage=NONE,
    )

    def init(key: Key, hypers: Hypers) -> DeepState:
        del hypers
        permanent, transient = parts.init(key)
        return DeepState(
            permanent,  # line 2
            transient,  # line 2
            transient if training.target_every else (),  # line 3
            optimizer.init(transient),
            permanent_optimizer.init(permanent),
            replay.begin(),  # line 1
            visits.begin() if parts.has_permanent else (),  # line 1
            frames.begin(),
            age=jnp.int32(0),
            steps=jnp.int32(0),
            dropped=jnp.int32(0),
            initial=transient if training.penalty else (),
        )

    def values(state: DeepState, obs: Array) -> Array:
        """Q^P + Q^T of the current input, [outputs]."""
        seen = frames.input(state.recent, obs)
        return (parts.permanent(state.permanent, state.transient, seen) + parts.transient(state.transient, seen))[0]

    def act(state: DeepState, hypers: Hypers, obs: Array, key: Key) -> Array:
        return behaviour(values(state, obs), hypers, key)  # line 5

    def learn(state: DeepState, hypers: Hypers, transition: Transition, key: Key) -> DeepState:
        state = store(state, transition)  # lines 7, 8
        sample = replay.sample(state.replay, key, training.batch)  # line 9
        actions = sample.extras["action"].astype(jnp.int32)
        output = jnp.broadcast_to(outputs.output(actions), actions.shape)
        target_weights = state.target if training.target_every else state.transient
        permanent_q, next_permanent_q = permanent_values(state, sample, target_weights)
        next_q = next_permanent_q + parts.transient(target_weights, sample.next_obs)
        next_value = jax.vmap(outputs.bootstrap)(next_q, actions)
        # line 10; the loss subtracts Q^P(S_j, A_j)
        y = td_target(sample.extras["reward"], sample.extras["discount"], next_value)

        def loss(transient: Any) -> Array:
            transient_q = parts.transient(transient, sample.obs)
            squared = transient_loss(taken(transient_q, output), taken(permanent_q, output), y, sample.valid)
            return squared if training.penalty is None else squared + training.penalty(transient, state.initial)

        ready = transition.valid & (rings.size(state.replay) >= training.batch)
        transient, opt_state = apply_gradient(  # line 11
            optimizer, jax.grad(loss)(state.transient), state.transient, state.opt_state, _lr(hypers), ready
        )
        state = state._replace(transient=transient, opt_state=opt_state, steps=state.steps + transition.valid)
        return sync_target(renew(state, transition.valid, key), transition.valid)  # line 12

    def store(state: DeepState, transition: Transition) -> DeepState:
        """Stores the transition in B, and the visit with its Q^P in D."""
        now, following = Frame(transition.obs, state.age), Frame(transition.next_obs, state.age + 1)
        if parts.has_permanent:
            seen = frames.input(state.recent, transition.obs)
            permanent_q = parts.permanent(state.permanent, state.transient, seen)[0]
            output = outputs.output(transition.action)
            visit = {"output": output, "value": permanent_q[output]}
            visited = visits.add(state.visited, now, following, visit, jnp.bool_(False), transition.valid)  # line 8
            state = state._replace(visited=visited)
            if use_cache:
                seen = frames.input(frames.push(state.recent, transition.obs), transition.next_obs)
                next_permanent_q = parts.permanent(state.permanent, state.transient, seen)[0]
                now, following = now._replace(cached=permanent_q), following._replace(cached=next_permanent_q)
        extras = {"action": transition.action, "reward": transition.reward, "discount": transition.discount}
        truncated = transition.last & (transition.discount > 0)
        recent, age = frames.advance(state.recent, state.age, transition)
        return state._replace(
            replay=replay.add(state.replay, now, following, extras, truncated, transition.valid),  # line 7
            recent=recent,
            age=age,
        )

    def permanent_values(state: DeepState, sample: Sample, target_weights: Any) -> tuple[Array, Array]:
        """Q^P of the sampled states and of the next ones, each [batch, outputs]."""
        if use_cache:
            return sample.cached, sample.next_cached
        return (
            parts.permanent(state.permanent, state.transient, sample.obs),
            parts.permanent(state.permanent, target_weights, sample.next_obs),
        )

    def renew(state: DeepState, valid: Array, key: Key) -> DeepState:
        """Applies `Training.renewal` every n steps."""
        if training.renewal is None:
            return state
        every, renewed = training.renewal.every, training.renewal.renew
        due, old = valid & (state.steps % every == 0), (state.transient, state.opt_state)
        transient, opt_state = _when_due(due, lambda: renewed(jax.random.fold_in(key, 1), *old), old)
        return state._replace(transient=transient, opt_state=opt_state)

    def sync_target(state: DeepState, valid: Array) -> DeepState:
        """Every `target_every` steps, copies the transient weights to the target network."""
        if not training.target_every:
            return state
        due = valid & (state.steps % training.target_every == 0)
        return state._replace(target=_when_due(due, lambda: state.transient, state.target))

    def consolidate(state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        k_permanent, k_reinit = jax.random.split(key)
        if parts.has_permanent:
            state = update_permanent(state, hypers, k_permanent, active)  # lines 14, 15, 16, 18
        if on_consolidate.transient == DECAY:
            state = state._replace(
                transient=jax.tree.map(lambda w: decayed(w, hypers.decay), state.transient)
            )  # line 17
        elif on_consolidate.transient == REINIT:  # λ = 0: weights that are all zero would never learn
            state = state._replace(transient=parts.reinit(k_reinit, state.transient))
            if training.penalty:
                state = state._replace(initial=parts.reinit(k_reinit, state.initial))
        if training.target_every and (on_consolidate.sync_target or on_consolidate.transient == REINIT):
            state = state._replace(target=state.transient)
        if on_consolidate.reset_optimizer:
            state = state._replace(opt_state=optimizer.init(state.transient))
        if on_consolidate.clear_replay:
            state = state._replace(replay=rings.emptied(state.replay))
        elif use_cache:
            new_values = partial(parts.permanent, state.permanent, state.transient)
            state = state._replace(replay=replay.refresh(state.replay, new_values, 4 * training.batch, active))
        return state

    def update_permanent(state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        """Trains the permanent part on the visits in D, towards Q^P + Q^T, and empties D."""
        held = rings.size(state.visited)
        batches = held // consolidation.batch
        if consolidation.max_batches is not None:
            batches = jnp.minimum(batches, consolidation.max_batches)
        batches = jnp.where(held > 0, jnp.maximum(batches, consolidation.min_batches), 0)

        def one_batch(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            permanent, opt_state = carry
            if consolidation.in_order:  # line 14
                ages = i * consolidation.batch + jnp.arange(consolidation.batch)
                sample = visits.read(state.visited, jnp.minimum(ages, held - 1))
            else:
                sample = visits.sample(state.visited, jax.random.fold_in(key, i), consolidation.batch)
            output, stored = sample.extras["output"].astype(jnp.int32), sample.extras["value"]
            transient_q = taken(parts.transient(state.transient, sample.obs), output)

            def loss(weights: Any) -> Array:
                permanent_q = taken(parts.permanent(weights, state.transient, sample.obs), output)
                return permanent_loss(permanent_q, stored, transient_q, sample.valid)  # line 15

            return apply_gradient(  # line 16
                permanent_optimizer, jax.grad(loss)(permanent), permanent, opt_state, hypers.permanent_lr, i < batches
            )

        start = state.permanent, state.permanent_opt_state
        permanent, opt_state = jax.lax.fori_loop(0, max_over_lanes(batches, active), one_batch, start)
        return state._replace(
            permanent=permanent,
            permanent_opt_state=opt_state,
            visited=rings.emptied(state.visited),  # line 18
            dropped=state.dropped + rings.overwritten(state.visited),
        )

    def inspect(state: DeepState, obs: Array) -> dict[str, Array]:
        """`obs` is a network input: with several frames, their stack."""
        transient = parts.transient(state.transient, obs[None])[0]
        if not parts.has_permanent:
            return {"value": transient}
        permanent = parts.permanent(state.permanent, state.transient, obs[None])[0]
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    def activations(state: DeepState, obs: Array) -> list[Array]:
        """`obs` is a network input. The outputs of all layers of the transient network, Q^T last."""
        assert parts.activations is not None
        return [layer[0] for layer in parts.activations(state.transient, obs[None])]

    def features(state: DeepState, obs: Array) -> Array:
        """The input of the last layer."""
        return [obs, *activations(state, obs)][-2]

    agent = Agent(
        init,
        act,
        learn,
        consolidate,
        inspect,
        consolidate_every,
        samples_dropped=lambda state: state.dropped,
        policy_state=_policy_state,
        features=features if parts.activations else None,
        activations=activations if parts.activations else None,
    )
    return agent if heads == 1 else with_task_obs(agent, values, problem, behaviour, heads, parts.outputs)


def taken(values: Array, output: Array) -> Array:
    """[batch, outputs] -> [batch] the values of the actions that were taken."""
    return values[jnp.arange(len(values)), output]


def _policy_state(state: DeepState) -> DeepState:
    """The weights and the recent frames."""
    needed = ("permanent", "transient", "recent")
    return state._replace(**{name: () for name in state._fields if name not in needed})


def _when_due(due: Array, new: Any, old: Any) -> Any:
    """`new()` if it is due in this lane, else `old`. It is computed only when it is due in some lane."""
    return jax.lax.cond(
        max_over_lanes(due.astype(jnp.int32), True) > 0, lambda: tree_where(due, new(), old), lambda: old
    )


def _lr(hypers: Hypers) -> float | Array:
    """The step size of the transient part."""
    return hypers.transient_lr if hasattr(hypers, "transient_lr") else hypers.lr


def _integer(outputs: int) -> np.int8 | np.int32:
    """The smallest integer type that can index the outputs."""
    return np.int8(0) if outputs <= 128 else np.int32(0)


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
        training: with a large `replay`, this is the large-buffer variant.
        at_switch: what is done at known task boundaries: `clear_replay()` empties the replay buffer, `reset_all()` also
            reinitialises the network; None: nothing.
        heads: if more than 1, the multi-head variant: the network has a head for each of that many tasks, and the agent observes
            the current task.
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
    """Continual PT-DQN (Algorithm 4): two networks, the transient one decays by λ; replay buffer and optimizer state are kept.

    Args:
        target_follows: whether a consolidation also copies the decayed weights to the target network.
    """
    return deep_agent(
        CONTROL,
        separate_networks(permanent, transient),
        behaviour,
        example_obs,
        training,
        OnConsolidate(DECAY, clear_replay=False, reset_optimizer=False, sync_target=target_follows),
        consolidation,
        consolidate_every,
    )
