"""Trains V^P until it has absorbed a stated share of V^T, by as many batches as that takes.

The target is V^P_old + a V^T. How far a step of a given size moves V^P depends on the network, the observations and their scale, so
the step size is found on the way: it doubles after every round of batches that brought V^P closer to the target on a sample of the
visited states, and a round that did not is undone and its step size divided by four. So the share needs no step size to be tuned,
and V^P never ends farther from its target than it was.

Every consolidation has a target of its own, so the optimizer starts afresh: momentum towards the target before it would lead every
round away from this one. The next consolidation begins with twice the largest step size that helped in this one: where only a
few rounds are affordable, it is found over several consolidations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents import ring as rings
from remanence.agents.composition import taken
from remanence.agents.ring import Ring
from remanence.core.masking import max_over_lanes
from remanence.core.tree_utils import tree_where
from remanence.core.types import Hypers, Key

if TYPE_CHECKING:
    from remanence.agents.dqn import DeepLearner, DeepState

BATCHES_PER_ROUND = 8
PASSES = 4  # the most batches, in passes over the visits since the last consolidation, if their number is not given
FEWEST_ROUNDS = 8  # but that many rounds in any case: a step size that is too large takes some to be corrected
TOLERANCE = 0.05  # of the share
FASTER, SLOWER = 2.0, 0.25
SMALLEST = 1e-6  # of the first step size: if none helped down to here, the search begins again


class Fit(NamedTuple):
    """A permanent network in training."""

    network: Any  # weights, optimizer state
    lr: Array  # []
    error: Array  # [] root mean squared distance from the target, relative to where it began
    helped: Array  # [] the largest step size that brought it closer; 0: none yet
    left: Array  # [] rounds
    round: Array  # []


def until_absorbed(
    network: Any,
    lr: Array,
    first_lr: Array,
    rounds: Array,
    step: Callable[[Array, Any, Array, Array], Any],
    measure: Callable[[Any], tuple[Array, Array]],
    active: Array | bool,
) -> tuple[Any, Array]:
    """The network after at most `rounds` [] rounds, and the step size to begin with next time.

    Args:
        lr: the step size of the first round.
        first_lr: where the search for it begins again.
        step: (number of the batch, network, whether to learn, lr) -> network.
        measure: network -> what it has absorbed, relative to the share; its distance from the target, relative to the share.
    """

    def one_round(fit: Fit) -> Fit:
        ready = fit.left > 0

        def one_batch(j: Array, network: Any) -> Any:
            return step(fit.round * BATCHES_PER_ROUND + j, network, ready, fit.lr)

        moved = jax.lax.fori_loop(0, BATCHES_PER_ROUND, one_batch, fit.network)
        absorbed, error = measure(moved)
        closer = ready & (error < fit.error)
        done = closer & (jnp.abs(absorbed - 1) <= TOLERANCE)
        return Fit(
            tree_where(closer, moved, fit.network),
            jnp.where(ready, jnp.where(closer, FASTER, SLOWER), 1.0) * fit.lr,
            jnp.where(closer, error, fit.error),
            jnp.where(closer, jnp.maximum(fit.lr, fit.helped), fit.helped),
            jnp.where(done, 0, fit.left - ready),
            fit.round + 1,
        )

    start = Fit(network, lr, jnp.float32(1), jnp.float32(0), rounds, jnp.int32(0))
    fit = jax.lax.while_loop(lambda fit: max_over_lanes(fit.left, active) > 0, one_round, start)
    still_searching = jnp.where(fit.lr > SMALLEST * first_lr, fit.lr, first_lr)
    return fit.network, jnp.where(fit.helped > 0, FASTER * fit.helped, still_searching)


def absorb_share(learner: DeepLearner, state: DeepState, hypers: Hypers, key: Key, active: Array | bool) -> DeepState:
    """Trains the permanent part to Q^P + a Q^T on the states of B, by as many batches as it takes.

    Not only on the latest visits and the actions taken: Q^T decays in all states and for all actions. A random action of each
    state stands for all of them. What is absorbed is measured on the actions in turn.
    """
    options, seen = learner.consolidation, learner.visited_states(state)
    k_batches, k_replay = jax.random.split(key)
    transient_q = taken(learner.parts.transient(state.transient, seen.obs), seen.output)
    before = taken(learner.parts.permanent(state.permanent, state.transient, seen.obs), seen.output)
    wanted = jnp.where(seen.weight > 0, hypers.absorb * transient_q, 0.0)
    size = jnp.sum(wanted**2)
    in_b = state._replace(visited=visits_of_replay(learner, state.replay, k_replay))

    def step(i: Array, network: Any, ready: Array, lr: Array) -> Any:
        ages = learner.replay.draw_ages(state.replay, jax.random.fold_in(k_batches, i), options.batch)
        return learner.permanent_step(in_b, hypers, ages, network, ready, hypers.absorb, lr)

    def measure(network: Any) -> tuple[Array, Array]:
        now = taken(learner.parts.permanent(network[0], state.transient, seen.obs), seen.output)
        moved = jnp.where(seen.weight > 0, now - before, 0.0)
        return jnp.sum(moved * wanted) / size, jnp.sqrt(jnp.sum((moved - wanted) ** 2) / size)

    held = rings.size(state.replay)
    batches = PASSES * jnp.minimum(held, options.buffer) // options.batch
    batches, fewest = jnp.maximum(batches, options.min_batches), FEWEST_ROUNDS
    if options.max_batches is not None:
        batches, fewest = jnp.full_like(batches, max(options.max_batches, options.min_batches)), 1
    rounds = jnp.maximum(batches // BATCHES_PER_ROUND, fewest)
    rounds = jnp.where((size > 0) & (held >= options.batch), rounds, 0)
    network = state.permanent, learner.permanent_optimizer.init(state.permanent)
    first_lr = jnp.asarray(hypers.permanent_lr, jnp.float32)
    (permanent, _), lr = until_absorbed(network, state.absorb_lr, first_lr, rounds, step, measure, active)
    return state._replace(permanent=permanent, absorb_lr=lr)


def visits_of_replay(learner: DeepLearner, replay: Ring, key: Key) -> Ring:
    """B as D would be: a random action for each of its states, with its Q^P, if that is cached."""
    action, cached = replay.items["extras"]["action"], replay.items["now"]["cached"]
    output = jax.random.randint(key, action.shape, 0, learner.parts.outputs).astype(action.dtype)
    value = taken(cached, output.astype(jnp.int32)) if learner.use_cache else jnp.zeros(action.shape)
    return Ring({"now": replay.items["now"], "extras": {"output": output, "value": value}}, replay.count)
