"""PT-TD over a stream of tasks, exactly: moments of V^P and V, and the transient lifetime with the lowest error.

Learning (`moments.one_round`) and consolidation (`shares`) are both linear in the moments of x = (P, V). In a task with values v,
for the mean b and the covariance C of the error x − (v, v), a round of N samples changes V alone:

    b_V' = (I − α N B) b_V,    C_PV' = C_PV (I − α N B)ᵀ,    C_VV' as in Theorem 9

and a consolidation is x ← G x with G = [[1 − a, a], [f, 1 − f]]. Its rows sum to 1, so it is the same map of errors. At a switch
the error moves by v_old − v_new. The next task is drawn from the tasks' probabilities, or follows in a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from remanence.core.errors import UserError
from remanence.theory.moments import Belief, Dynamics, make_dynamics, one_round
from remanence.theory.permanent import common_values
from remanence.theory.process import RewardProcess
from remanence.theory.step_sizes import stability_limit

Order = Literal["random", "cyclic"]


class StreamMoments(NamedTuple):
    """The last tasks of a stream: in a cycle all of them in turn, else what the next one is in expectation."""

    mse: np.ndarray
    """[tasks, length] the mean squared error of V with which each round of the task starts, summed over states"""
    permanent: np.ndarray
    """[tasks, states] the mean of V^P when the task has ended"""
    spread: np.ndarray
    """[tasks, states, states] its covariance"""


class BestLifetime(NamedTuple):
    lifetime: float
    """τ_T, in rounds"""
    step_size: float
    mse: float
    """E_τ of the mean squared error there, averaged over the rounds of a task"""
    slope: float
    """the largest |d log(mse)| by d log(lifetime) or, if it was searched too, d log(step size): 0 at an optimum"""


def stream_moments(
    process: RewardProcess,
    step_size: float,
    length: int,
    interval: int,
    transient_lifetime: float,
    permanent_lifetime: float = np.inf,
    samples: int = 1,
    order: Order = "random",
    tasks: int = 30,
    start: np.ndarray | None = None,
) -> StreamMoments:
    """The exact moments of PT-TD after many tasks.

    Args:
        length: rounds per task.
        interval: rounds between two consolidations; a divisor of the length.
        transient_lifetime: τ_T = −k / ln λ, in rounds.
        permanent_lifetime: τ_P = −k / ln(1 − a); infinite: V^P stays where it starts.
        tasks: how many tasks are met.
        start: [states] V^P and V at first; default: E_τ[v_τ], which is where the mean of V^P stays if tasks share transitions.
    """
    _check(process, length, interval, order, tasks)
    with jax.enable_x64(True):
        stream = _stream(process, length, interval, samples, order, tasks, start)
        found = stream(*(jnp.float64(value) for value in (step_size, transient_lifetime, permanent_lifetime)))
        return StreamMoments(*(np.asarray(leaf) for leaf in found))


def best_lifetime(
    process: RewardProcess,
    length: int,
    interval: int = 1,
    step_size: float | None = None,
    permanent_lifetime: float = np.inf,
    samples: int = 1,
    order: Order = "random",
    tasks: int = 30,
) -> BestLifetime:
    """The transient lifetime with the lowest mean error in a task of this length: gradient descent on the exact curve.

    Args: step_size: of TD; None: the best one, searched together with the lifetime.
    """
    _check(process, length, interval, order, tasks)
    limit = 4 * float(stability_limit(process, samples).min())
    with jax.enable_x64(True):
        stream = _stream(process, length, interval, samples, order, tasks, None)
        score = _score(process, stream, permanent_lifetime, order)
        fixed = None if step_size is None else np.log(step_size)
        along = lambda logs: score(logs[0], logs[1] if fixed is None else fixed)  # noqa: E731
        value_and_slope = jax.jit(jax.value_and_grad(along))
        lifetimes = np.log(length * np.geomspace(1 / 30, 10, 6))
        steps = np.log(limit * np.geomspace(3e-3, 0.3, 5)) if fixed is None else [fixed]
        grid = np.array([(a, b) for a in lifetimes for b in steps])
        scores = np.asarray(jax.lax.map(jax.jit(along), jnp.asarray(grid)))
        first = grid[int(np.nanargmin(np.where(np.isfinite(scores), scores, np.inf)))]
        free = 2 if fixed is None else 1
        bounds = [(np.log(length * 1e-3), np.log(length * 1e3)), (np.log(limit * 1e-5), np.log(limit))]
        found = scipy.optimize.minimize(
            lambda logs: tuple(np.asarray(part, np.float64) for part in value_and_slope(logs)),
            first[:free],
            jac=True,
            method="L-BFGS-B",
            bounds=bounds[:free],
            options={"ftol": 1e-15, "gtol": 1e-8},
        )
    chosen = float(np.exp(found.x[1])) if step_size is None else step_size
    return BestLifetime(float(np.exp(found.x[0])), chosen, float(np.exp(found.fun)), float(np.abs(found.jac).max()))


def _score(
    process: RewardProcess, stream: Callable[..., StreamMoments], permanent_lifetime: float, order: Order
) -> Callable[[Array, Array], Array]:
    """The logarithm of the mean error in a task, as a function of the logarithms of the lifetime and the step size."""
    weights = np.full(process.num_tasks, 1 / process.num_tasks) if order == "cyclic" else process.probabilities

    def score(log_lifetime: Array, log_step: Array) -> Array:
        found = stream(jnp.exp(log_step), jnp.exp(log_lifetime), jnp.float64(permanent_lifetime))
        return jnp.log(jnp.asarray(weights) @ found.mse.mean(axis=1))

    return score


def _stream(
    process: RewardProcess,
    length: int,
    interval: int,
    samples: int,
    order: Order,
    tasks: int,
    start: np.ndarray | None,
) -> Callable[..., StreamMoments]:
    """(step size, transient lifetime, permanent lifetime) -> the moments in the last tasks."""
    dynamics, axes = make_dynamics(process, None)
    first = common_values(process) if start is None else np.asarray(start, np.float64)
    turns = jnp.asarray((np.arange(length) + 1) % interval == 0)
    arrays = (jnp.asarray(process.values), jnp.asarray(process.probabilities), jnp.asarray(first), turns)
    return partial(_run, axes, samples, order, tasks, dynamics, *arrays, jnp.float64(interval))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(
    axes: Dynamics,
    samples: int,
    order: Order,
    tasks: int,
    dynamics: Dynamics,
    values: Array,
    chances: Array,
    start: Array,
    turns: Array,
    interval: Array,
    step_size: Array,
    transient: Array,
    permanent: Array,
) -> StreamMoments:
    count, states = values.shape
    kept, absorbed = jnp.exp(-interval / transient), -jnp.expm1(-interval / permanent)
    forgotten = 1 - kept - absorbed
    mixing = jnp.array([[1 - absorbed, absorbed], [forgotten, 1 - forgotten]])
    mixed = jnp.kron(mixing, jnp.eye(states))
    both = jnp.concatenate([values, values], axis=1)  # [tasks, 2 states]
    initial = Belief(jnp.tile(start, 2), jnp.zeros((2 * states, 2 * states)))

    def live(dynamics: Dynamics, value: Array, belief: Belief) -> tuple[Belief, Array]:
        """One task: the moments at its end, not centered, and the error at the start of each round."""
        advance = partial(_round, dynamics, samples, step_size, mixed)
        end, errors = jax.lax.scan(advance, Belief(belief.bias - value, belief.covariance), turns)
        return Belief(end.bias + value, end.covariance), errors

    every_task = jax.vmap(live, in_axes=(axes, 0, None))

    def draw_next(belief: Belief, _: None) -> tuple[Belief, None]:
        return _mixture(chances, every_task(dynamics, both, belief)[0]), None

    def follow(belief: Belief, task: Array) -> tuple[Belief, tuple[Belief, Array]]:
        one = jax.tree.map(lambda axis, leaf: leaf if axis is None else leaf[task], axes, dynamics, is_leaf=_is_none)
        end, errors = live(one, both[task], belief)
        return end, (end, errors)

    if order == "random":
        belief, _ = jax.lax.scan(draw_next, initial, length=tasks - 1)
        ends, errors = every_task(dynamics, both, belief)
    else:
        in_turn = jnp.arange(count)
        around = lambda belief, _: (jax.lax.scan(follow, belief, in_turn)[0], None)  # noqa: E731
        belief, _ = jax.lax.scan(around, initial, length=max(-(-tasks // count) - 1, 0))
        ends, errors = jax.lax.scan(follow, belief, in_turn)[1]
    return StreamMoments(errors, ends.bias[:, :states], ends.covariance[:, :states, :states])  # type: ignore[arg-type]


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _round(
    dynamics: Dynamics, samples: int, step_size: Array, mixed: Array, belief: Belief, turn: Array
) -> tuple[Belief, Array]:
    """Learns from a round of samples and, where it is due, consolidates."""
    bias, covariance = belief
    states = len(bias) // 2
    error = jnp.sum(bias[states:] ** 2) + jnp.trace(covariance[states:, states:])
    learned = one_round(dynamics, samples, step_size, Belief(bias[states:], covariance[states:, states:]))
    cross = covariance[:states, states:]
    cross -= step_size * samples * cross @ dynamics.drift.T
    bias = jnp.concatenate([bias[:states], learned.bias])
    covariance = jnp.block([[covariance[:states, :states], cross], [cross.T, learned.covariance]])
    after = Belief(mixed @ bias, mixed @ covariance @ mixed.T)
    return jax.tree.map(partial(jnp.where, turn), after, Belief(bias, covariance)), error


def _mixture(chances: Array, beliefs: Belief) -> Belief:
    """Mean and covariance of a mixture of the tasks' beliefs."""
    mean = chances @ beliefs.bias
    away = beliefs.bias - mean
    return Belief(mean, jnp.einsum("t,tij->ij", chances, beliefs.covariance + away[:, :, None] * away[:, None, :]))


def _check(process: RewardProcess, length: int, interval: int, order: str, tasks: int) -> None:
    if order not in ("random", "cyclic"):
        raise UserError(f"the order of tasks must be 'random' or 'cyclic'; got '{order}'")
    if order == "cyclic" and not np.allclose(process.probabilities, process.probabilities[0]):
        raise UserError("in a cycle all tasks come equally often: leave out their probabilities")
    if interval < 1 or length < 1 or length % interval:
        raise UserError(f"a task must last a number of intervals; got {length} rounds, consolidated every {interval}")
    if tasks < 1:
        raise UserError(f"a stream needs at least one task; got {tasks}")
