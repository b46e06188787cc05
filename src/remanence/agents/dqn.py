"""Deep agents: one learner from replayed batches, for TD and DQN, with or without a permanent part.

`DeepLearner` is the paper's Algorithm 4 (PT-DQN), in its order. The numbers in the code are its lines:

     1–3   Initialize buffers B and D, networks w^P and w^T, target network w^T_target                 init
     5     Take action A_t according to the ε-greedy policy                                            act
     7     Store (S_t, A_t, R_{t+1}, S_{t+1}) in B                                                     store
     8     Store (S_t, A_t, Q^P(S_t, A_t)) in D                                                        store
     9     Sample a batch of transitions from B                                                        update_transient
    10     y = R_{j+1} + γ max_a' (Q^P(S_{j+1}, a') + Q^T(S_{j+1}, a'; w^T_target)) − Q^P(S_j, A_j)    gradient
    11     Gradient step on (y − Q^T(S_j, A_j))² with respect to w^T                                   gradient
    12     w^T_target = w^T every N steps                                                              sync_target
    13     Every k steps (the loop calls it, see `consolidate_every`):                                 consolidate
    14         Sample a batch (S_j, A_j, Q^P(S_j, A_j)) from D                                         update_permanent
    15         ŷ = Q^P(S_j, A_j) as stored + Q^T(S_j, A_j)                                             permanent_gradient
    16         Gradient step on (ŷ − Q^P(S_j, A_j))² with respect to w^P                               permanent_step
    17         w^T = λ w^T                                                                             consolidate
    18         D = {}                                                                                  update_permanent

Without a permanent part, Q^P is 0 and lines 8 and 14 to 18 are skipped: this is DQN. For prediction, V(s) replaces Q(s, a), and the
value of the next state replaces the maximum: this is TD. The equations are in `updates.py`, the options in
`training.py`, frame stacks in `frames.py`, and heads per task in `heads.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.custom_batching import sequential_vmap
from jax.typing import ArrayLike

from remanence.agents import absorption
from remanence.agents import ring as rings
from remanence.agents.base import Agent, ConsolidateEvery, Visited
from remanence.agents.behaviour import LAST_STEP, Behaviour
from remanence.agents.composition import ValueComposition, taken
from remanence.agents.frames import FrameStack, frame_stack
from remanence.agents.heads import OutputProblem, head_per_task, one_head, with_task_obs
from remanence.agents.n_step import read_n_steps
from remanence.agents.native.support import why_not_native
from remanence.agents.replay import IMPLICIT, NONE, SEPARATE, Frame, Replay, Sample
from remanence.agents.ring import Ring
from remanence.agents.td import Problem
from remanence.agents.training import (
    DECAY,
    DECAY_OUTPUT,
    NOTHING,
    REINIT,
    Consolidation,
    OnConsolidate,
    Training,
    apply_gradient,
    check_options,
    learned_reward,
    make_loss,
    make_optimizer,
    transient_optimizer,
)
from remanence.core.errors import calling
from remanence.core.masking import max_over_lanes
from remanence.core.tree_utils import tree_where
from remanence.core.types import Hypers, Key, Transition
from remanence.updates import double_value, permanent_loss, soft_copy, td_target, transient_loss

LARGE = 2**19  # bytes of one array: those of a batch fill the cache of a core
SAMPLE = 256  # visited states on which networks are measured


class DeepState(NamedTuple):
    permanent: Any  # w^P, weights of V^P
    transient: Any  # w^T, weights of V^T, trained at every step
    target: Any  # w^T_target, an older copy of w^T; () if there is no target network
    opt_state: Any  # of the transient part's optimizer
    permanent_opt_state: Any  # () where a share is absorbed: every consolidation has an optimizer of its own
    replay: Ring  # B
    visited: Any  # D: a ring, or () without a permanent part
    recent: Array  # [frames − 1, *frame] the previous frames of the episode; zero before its start
    age: Array  # [] steps of the current episode
    steps: Array  # [] steps learned from
    dropped: Array  # [] visits that a full D dropped
    initial: Any = ()  # the initial w^T, for a penalty; () without one
    absorb_lr: Any = ()  # [] the step size of the permanent part, where it is found; else ()


@dataclass(frozen=True, eq=False)
class DeepLearner:
    """Algorithm 4 for one lane: learns from batches of replayed transitions."""

    problem: Problem
    parts: ValueComposition
    behaviour: Behaviour
    example_obs: ArrayLike
    training: Training
    on_consolidate: OnConsolidate
    consolidation: Consolidation
    heads: int = 1

    @cached_property
    def outputs(self) -> OutputProblem:
        return one_head(self.problem) if self.heads == 1 else head_per_task(self.heads, self.parts.outputs)

    @cached_property
    def optimizer(self) -> optax.GradientTransformation:
        return transient_optimizer(self.training)

    @cached_property
    def permanent_optimizer(self) -> optax.GradientTransformation:
        return make_optimizer(self.consolidation.optimizer)

    @cached_property
    def frames(self) -> FrameStack:
        return frame_stack(self.example_obs, self.training.frames, self.training.repeat_first)

    def by_lane(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function of a batch; on a CPU, if the batch fills the cache of a core, it does one lane after the other."""
        return sequential_vmap(function) if self.fills_cache and jax.default_backend() == "cpu" else function

    @cached_property
    def fills_cache(self) -> bool:
        """Whether the input of a batch, or the output of a layer, is large."""
        parts, obs = self.parts, jax.ShapeDtypeStruct((self.training.batch, *self.parts.input), np.int32)
        layers: Any = [obs]
        if parts.activations is not None:
            transient = jax.eval_shape(parts.init, jax.random.key(0))[1]
            layers += jax.tree.leaves(jax.eval_shape(parts.activations, transient, obs))
        return 4 * max(math.prod(layer.shape) for layer in layers) >= LARGE

    @property
    def use_cache(self) -> bool:
        """Whether Q^P of stored transitions is stored with them."""
        return self.consolidation.cache and self.parts.has_permanent

    @cached_property
    def replay(self) -> Replay:
        """B"""
        extras = {"action": _integer(self.parts.outputs), "reward": np.float32(0), "discount": np.float32(0)}
        return Replay(
            self.example_obs,
            extras if self.training.n_step == 1 else {**extras, "last": np.bool_(False)},
            self.training.replay,
            self.training.frames,
            self.training.replace,
            IMPLICIT if self.training.implicit_next else SEPARATE,
            cached=np.zeros(self.parts.outputs, np.float32) if self.use_cache else (),
            repeat_first=self.training.repeat_first,
        )

    @property
    def absorbs(self) -> bool:
        """Whether Q^P absorbs a share of Q^T in the states of B, and there is no D."""
        return self.consolidation.absorbs and self.parts.has_permanent

    @cached_property
    def visits(self) -> Replay:
        """D; where a share is absorbed, B read as D is."""
        if self.absorbs:
            return replace(self.replay, capacity=self.replay.slots, next_obs_storage=NONE)
        return Replay(
            self.example_obs,
            {"output": _integer(self.parts.outputs), "value": np.float32(0)},
            self.consolidation.buffer,
            self.training.frames,
            next_obs_storage=NONE,
            repeat_first=self.training.repeat_first,
        )

    def init(self, key: Key, hypers: Hypers) -> DeepState:
        permanent, transient = self.parts.init(key)
        return DeepState(
            permanent,  # line 2
            transient,  # line 2
            transient if self.training.target_every else (),  # line 3
            self.optimizer.init(transient),
            () if self.absorbs else self.permanent_optimizer.init(permanent),
            self.replay.begin(),  # line 1
            self.visits.begin() if self.parts.has_permanent and not self.absorbs else (),  # line 1
            self.frames.begin(),
            age=jnp.int32(0),
            steps=jnp.int32(0),
            dropped=jnp.int32(0),
            initial=transient if self.training.penalty else (),
            absorb_lr=jnp.asarray(hypers.permanent_lr, jnp.float32) if self.absorbs else (),
        )

    def values(self, state: DeepState, obs: Array) -> Array:
        """Q^P + Q^T of the current input, [outputs]."""
        parts, seen = self.parts, self.frames.input(state.recent, obs, state.age)
        return (parts.permanent(state.permanent, state.transient, seen) + parts.transient(state.transient, seen))[0]

    def act(self, state: DeepState, hypers: Hypers, obs: Array, key: Key) -> Array:
        return self.behaviour(self.values(state, obs), hypers, key, _clock(state))  # line 5

    def learn(self, state: DeepState, hypers: Hypers, transition: Transition, key: Key) -> DeepState:
        state = self.store(state, transition)  # lines 7, 8
        state = self.train(state, hypers, self.can_learn(state, transition.valid), key)  # lines 9, 10, 11
        state = self.renew(state._replace(steps=state.steps + transition.valid), transition.valid, key)
        return self.sync_target(state, transition.valid)  # line 12

    def store(self, state: DeepState, transition: Transition) -> DeepState:
        """Stores the transition in B, and the visit with its Q^P in D."""
        parts, frames = self.parts, self.frames
        now, following = Frame(transition.obs, state.age), Frame(transition.next_obs, state.age + 1)
        if parts.has_permanent:
            seen = frames.input(state.recent, transition.obs, state.age)
            permanent_q = parts.permanent(state.permanent, state.transient, seen)[0]
            if not self.absorbs:
                output = self.outputs.output(transition.action)
                visit = {"output": output, "value": permanent_q[output]}
                visited = self.visits.add(
                    state.visited, now, following, visit, jnp.bool_(False), transition.valid
                )  # line 8
                state = state._replace(visited=visited)
            if self.use_cache:
                seen = frames.input(frames.push(state.recent, transition.obs), transition.next_obs, state.age + 1)
                next_permanent_q = parts.permanent(state.permanent, state.transient, seen)[0]
                now, following = now._replace(cached=permanent_q), following._replace(cached=next_permanent_q)
        reward = learned_reward(self.training, transition.reward)
        extras = {"action": transition.action, "reward": reward, "discount": transition.discount}
        if self.training.n_step > 1:
            extras["last"] = transition.last
        truncated = transition.last & (transition.discount > 0)
        recent, age = frames.advance(state.recent, state.age, transition)
        return state._replace(
            replay=self.replay.add(state.replay, now, following, extras, truncated, transition.valid),  # line 7
            recent=recent,
            age=age,
        )

    def train(self, state: DeepState, hypers: Hypers, due: Array, key: Key) -> DeepState:
        """Gradient steps on batches from B, if they are due."""
        every, count = self.training.train_every, self.training.gradient_steps
        if every == count == 1:
            return self.update_transient(state, hypers, due, key)

        def update(i: Array | int, trained: dict[str, Any]) -> dict[str, Any]:
            k_batch = key if count == 1 else jax.random.fold_in(key, i)
            new = self.update_transient(state._replace(**trained), hypers, due, k_batch)
            return {name: getattr(new, name) for name in trained}

        def updates() -> dict[str, Any]:
            return update(0, old) if count == 1 else jax.lax.fori_loop(0, count, update, old)

        old = {name: getattr(state, name) for name in ("transient", "opt_state")}
        return state._replace(**(updates() if every == 1 else _when_due(due, updates, old)))

    def update_transient(self, state: DeepState, hypers: Hypers, due: Array, key: Key) -> DeepState:
        """A gradient step on a batch from B."""
        ages = self.replay.draw_ages(state.replay, key, self.training.batch)  # line 9
        sample = read_n_steps(self.replay, state.replay, ages, self.training.n_step)
        target_weights = state.target if self.training.target_every else state.transient
        transient, opt_state = apply_gradient(  # line 11
            self.optimizer,
            self.by_lane(self.gradient)(_networks(state), target_weights, sample),
            state.transient,
            state.opt_state,
            transient_lr(hypers),
            due,
        )
        return state._replace(transient=transient, opt_state=opt_state)

    def gradient(self, state: DeepState, target_weights: Any, sample: Sample) -> Any:
        """That of the loss, with respect to the transient weights, on a batch from B. `state` has networks only."""
        actions = sample.extras["action"].astype(jnp.int32)
        output = jnp.broadcast_to(self.outputs.output(actions), actions.shape)
        permanent_q, next_permanent_q = self.permanent_values(state, sample, target_weights)
        next_q = next_permanent_q + self.parts.transient(target_weights, sample.next_obs)
        next_value = self.next_value(state, sample, actions, next_q)
        # line 10; the loss subtracts Q^P(S_j, A_j)
        y = td_target(sample.extras["reward"], sample.extras["discount"], next_value)

        def loss(transient: Any) -> Array:
            transient_q = self.parts.transient(transient, sample.obs)
            of_q, of_p = taken(transient_q, output), taken(permanent_q, output)
            td_loss = transient_loss(of_q, of_p, y, sample.valid, make_loss(self.training.loss))
            penalty = self.training.penalty
            return td_loss if penalty is None else td_loss + calling("the penalty", penalty, transient, state.initial)

        return jax.grad(loss)(state.transient)

    def next_value(self, state: DeepState, sample: Sample, actions: Array, next_q: Array) -> Array:
        """[batch] the values of the next states, of which `next_q` [batch, outputs] are those of all outputs."""
        of_head = jax.vmap(self.outputs.head)(next_q, actions)
        if not self.training.double:
            return jax.vmap(self.problem.bootstrap)(of_head)
        _, permanent_q = self.permanent_values(state, sample, state.transient)
        choosing = permanent_q + self.parts.transient(state.transient, sample.next_obs)
        return jax.vmap(double_value)(jax.vmap(self.outputs.head)(choosing, actions), of_head)

    def can_learn(self, state: DeepState, valid: Array) -> Array:
        """Whether B holds a batch, and the network is trained at this step, which counts."""
        options = self.training
        ready = valid & (rings.size(state.replay) >= options.batch)
        if options.learning_starts is not None:
            ready &= state.steps >= options.learning_starts
        return ready if options.train_every == 1 else ready & ((state.steps + 1) % options.train_every == 0)

    def permanent_values(self, state: DeepState, sample: Sample, target_weights: Any) -> tuple[Array, Array]:
        """Q^P of the sampled states and of the next ones, each [batch, outputs]."""
        if self.use_cache:
            return sample.cached, sample.next_cached
        return (
            self.parts.permanent(state.permanent, state.transient, sample.obs),
            self.parts.permanent(state.permanent, target_weights, sample.next_obs),
        )

    def renew(self, state: DeepState, valid: Array, key: Key) -> DeepState:
        """Applies `Training.renewal` every n steps."""
        renewal = self.training.renewal
        if renewal is None:
            return state
        due, old = valid & (state.steps % renewal.every == 0), (state.transient, state.opt_state)
        transient, opt_state = _when_due(due, lambda: renewal.renew(jax.random.fold_in(key, 1), *old), old)
        return state._replace(transient=transient, opt_state=opt_state)

    def sync_target(self, state: DeepState, valid: Array) -> DeepState:
        """Every `target_every` steps, copies the transient weights, or a share of them, to the target network."""
        if not self.training.target_every:
            return state
        due, tau = valid & (state.steps % self.training.target_every == 0), self.training.tau

        def copied() -> Any:
            if tau == 1.0:
                return state.transient
            return jax.tree.map(lambda target, weights: soft_copy(target, weights, tau), state.target, state.transient)

        return state._replace(target=_when_due(due, copied, state.target))

    def consolidate(self, state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        parts, training, options = self.parts, self.training, self.on_consolidate
        k_permanent, k_reinit = jax.random.split(key)
        if parts.has_permanent:
            state = self.update_permanent(state, hypers, k_permanent, active)  # lines 14, 15, 16, 18
        if options.transient in (DECAY, DECAY_OUTPUT):
            shrink = parts.decayed if options.transient == DECAY else parts.scaled
            assert shrink is not None
            # V^T itself decays in both networks; and what Q^P absorbed no longer belongs to the target network.
            if training.target_every and (self.absorbs or options.transient == DECAY_OUTPUT):
                state = state._replace(target=shrink(state.target, hypers.decay))
            state = state._replace(transient=shrink(state.transient, hypers.decay))  # line 17
        elif options.transient == REINIT:  # λ = 0: weights that are all zero would never learn
            state = state._replace(transient=parts.reinit(k_reinit, state.transient))
            if training.penalty:
                state = state._replace(initial=parts.reinit(k_reinit, state.initial))
        if training.target_every and (options.sync_target or options.transient == REINIT):
            state = state._replace(target=state.transient)
        if options.reset_optimizer:
            state = state._replace(opt_state=self.optimizer.init(state.transient))
        if options.clear_replay:
            state = state._replace(replay=rings.emptied(state.replay))
        elif self.use_cache:
            new_values = partial(parts.permanent, state.permanent, state.transient)
            state = state._replace(replay=self.replay.refresh(state.replay, new_values, 4 * training.batch, active))
        return state

    def update_permanent(self, state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
        """Trains the permanent part on the visits in D, towards Q^P + Q^T, and empties D; or it absorbs a share of Q^T."""
        if self.absorbs:
            return absorption.absorb_share(self, state, hypers, key, active)
        held = rings.size(state.visited)
        batches = jnp.maximum(held // self.consolidation.batch, held > 0)
        if self.consolidation.max_batches is not None:
            batches = jnp.minimum(batches, self.consolidation.max_batches)
        batches = jnp.where(held > 0, jnp.maximum(batches, self.consolidation.min_batches), 0)

        def one_batch(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            if self.consolidation.in_order:  # line 14
                ages = i * self.consolidation.batch + jnp.arange(self.consolidation.batch)
                ages = jnp.where(
                    held < self.consolidation.batch, ages % jnp.maximum(held, 1), jnp.minimum(ages, held - 1)
                )
            else:
                ages = self.visits.draw_ages(state.visited, jax.random.fold_in(key, i), self.consolidation.batch)
            return self.permanent_step(state, hypers, ages, carry, i < batches)

        start = state.permanent, state.permanent_opt_state
        permanent, opt_state = jax.lax.fori_loop(0, max_over_lanes(batches, active), one_batch, start)
        return state._replace(
            permanent=permanent,
            permanent_opt_state=opt_state,
            visited=rings.emptied(state.visited),  # line 18
            dropped=state.dropped + rings.overwritten(state.visited),
        )

    def permanent_step(
        self,
        state: DeepState,
        hypers: Hypers,
        ages: Array,
        permanent: tuple[Any, Any],
        ready: Array,
        share: float | Array = 1.0,
        lr: Array | None = None,
    ) -> tuple[Any, Any]:
        """A gradient step of the permanent part, (weights, optimizer state), on the visits of these ages.

        Args: share: of Q^T, which is added to Q^P for the target. lr: the step size, if it is not `hypers.permanent_lr`.
        """
        weights, opt_state = permanent
        sample = self.visits.read(state.visited, ages)
        return apply_gradient(  # line 16
            self.permanent_optimizer,
            self.by_lane(self.permanent_gradient)(_networks(state), weights, sample, share),
            weights,
            opt_state,
            hypers.permanent_lr if lr is None else lr,
            ready,
        )

    def permanent_gradient(self, state: DeepState, weights: Any, sample: Sample, share: float | Array) -> Any:
        """That of the loss, with respect to the permanent weights, on a batch of visits. `state` has networks only."""
        output, stored = sample.extras["output"].astype(jnp.int32), sample.extras["value"]
        transient_q = taken(self.parts.transient(state.transient, sample.obs), output)
        if self.absorbs and not self.use_cache:
            stored = taken(self.parts.permanent(state.permanent, state.transient, sample.obs), output)

        def loss(weights: Any) -> Array:
            permanent_q = taken(self.parts.permanent(weights, state.transient, sample.obs), output)
            return permanent_loss(permanent_q, stored, transient_q, sample.valid, share)  # line 15

        return jax.grad(loss)(weights)

    def visited_states(self, state: DeepState) -> Visited:
        """A sample of D, or of B if there is no D: evenly spaced from the oldest to the newest.

        With the actions taken; where a share is absorbed, of all actions, with each of them in turn.
        """
        has_d = self.parts.has_permanent and not self.absorbs
        replay, ring = (self.visits, state.visited) if has_d else (self.replay, state.replay)
        held = rings.size(ring)
        even, rest = jnp.divmod(held, SAMPLE)  # their product would not fit 32 bits if D is large
        ages = jnp.arange(SAMPLE) * even + jnp.arange(SAMPLE) * rest // SAMPLE
        sample = replay.read(ring, ages)
        output = sample.extras["output"] if has_d else self.outputs.output(sample.extras["action"])
        if self.absorbs:
            output = jnp.arange(SAMPLE) % self.parts.outputs
        output = jnp.broadcast_to(jnp.asarray(output, jnp.int32), ages.shape)
        return Visited(sample.obs, output, (sample.valid & (held > 0)).astype(jnp.float32))

    def inspect(self, state: DeepState, obs: Array) -> dict[str, Array]:
        """`obs` is a network input: with several frames, their stack."""
        transient = self.parts.transient(state.transient, obs[None])[0]
        if not self.parts.has_permanent:
            return {"value": transient}
        permanent = self.parts.permanent(state.permanent, state.transient, obs[None])[0]
        return {"value": permanent + transient, "permanent": permanent, "transient": transient}

    def activations(self, state: DeepState, obs: Array) -> list[Array]:
        """`obs` is a network input. The outputs of all layers of the transient network, Q^T last."""
        assert self.parts.activations is not None
        return [layer[0] for layer in self.parts.activations(state.transient, obs[None])]

    def features(self, state: DeepState, obs: Array) -> Array:
        """The input of the last layer."""
        return [obs, *self.activations(state, obs)][-2]

    def agent(self, consolidate_every: ConsolidateEvery) -> Agent:
        """The contract with the loop."""
        has_activations = self.parts.activations is not None
        agent = Agent(
            self.init,
            self.act,
            self.learn,
            self.consolidate,
            self.inspect,
            consolidate_every,
            samples_dropped=lambda state: state.dropped,
            policy_state=_policy_state,
            features=self.features if has_activations else None,
            activations=self.activations if has_activations else None,
            visited=self.visited_states if self.heads == 1 else None,
            learned_reward=partial(learned_reward, self.training),
            native=why_not_native(self) or partial(self._native_agent, consolidate_every),
        )
        if self.heads == 1:
            return agent
        return with_task_obs(agent, self.values, self.problem, self.behaviour, self.heads, self.parts.outputs, _clock)

    def _native_agent(self, consolidate_every: ConsolidateEvery) -> Agent:
        from remanence.core.native.compiling import one_at_a_time

        with one_at_a_time():
            from remanence.agents.native.learner import make_native  # compiles the kernels

        return make_native(self).agent(consolidate_every)


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
    learner = DeepLearner(problem, parts, behaviour, example_obs, training, on_consolidate, consolidation, heads)
    return learner.agent(consolidate_every)


def _policy_state(state: DeepState) -> DeepState:
    """The weights and the recent frames."""
    return _only(state, "permanent", "transient", "recent")


def _networks(state: DeepState) -> DeepState:
    """What a gradient depends on, besides the batch and the target network."""
    return _only(state, "permanent", "transient", "initial")


def _only(state: DeepState, *needed: str) -> DeepState:
    return state._replace(**{name: () for name in state._fields if name not in needed})


def _clock(state: DeepState) -> Array | int:
    """The step of a schedule; a saved policy does not count."""
    return LAST_STEP if isinstance(state.steps, tuple) else state.steps


def _when_due(due: Array, new: Any, old: Any) -> Any:
    """`new()` if it is due in this lane, else `old`. It is computed only when it is due in some lane."""
    return jax.lax.cond(
        max_over_lanes(due.astype(jnp.int32), True) > 0, lambda: tree_where(due, new(), old), lambda: old
    )


def transient_lr(hypers: Hypers) -> float | Array:
    """The step size of the transient part."""
    return hypers.transient_lr if hasattr(hypers, "transient_lr") else hypers.lr


def _integer(outputs: int) -> np.int8 | np.int32:
    """The smallest integer type that can index the outputs."""
    return np.int8(0) if outputs <= 128 else np.int32(0)
