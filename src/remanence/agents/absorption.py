"""Trains V^P until it has absorbed a stated share of V^T, by as many batches as that takes.

The target is V^P_old + a V^T. How far a step of a given size moves V^P depends on the network, the observations and their scale, so
the step size is found on the way: it doubles after every round of batches that brought V^P closer to the target on a sample of the
visited states, and a round that did not is undone and its step size divided by four. So the share needs no step size to be tuned,
and V^P never ends farther from its target than it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.core.masking import max_over_lanes
from remanence.core.tree_utils import tree_where

BATCHES_PER_ROUND = 8
PASSES = 4  # the most batches, in passes over the visits, if their number is not given
TOLERANCE = 0.05  # of the share
FASTER, SLOWER = 2.0, 0.25


class Fit(NamedTuple):
    """A permanent network in training."""

    network: Any  # weights, optimizer state
    lr: Array  # []
    error: Array  # [] root mean squared distance from the target, relative to where it began
    left: Array  # [] rounds
    round: Array  # []


def absorb(
    network: Any,
    lr: Array,
    rounds: Array,
    step: Callable[[Array, Any, Array, Array], Any],
    measure: Callable[[Any], tuple[Array, Array]],
    active: Array | bool,
) -> tuple[Any, Array]:
    """The network after at most `rounds` [] rounds, and the step size that it found.

    Args:
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
            jnp.where(done, 0, fit.left - ready),
            fit.round + 1,
        )

    start = Fit(network, lr, jnp.float32(1), rounds, jnp.int32(0))
    fit = jax.lax.while_loop(lambda fit: max_over_lanes(fit.left, active) > 0, one_round, start)
    return fit.network, fit.lr
