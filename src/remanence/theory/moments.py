"""The exact learning curve of TD and PT-TD: mean, covariance and mean squared error after each round (paper, Theorems 9 and 10).

In a round the agent sees N independent samples (s, r, s') with s from the stationary distribution d, adds up their TD errors and
then moves: w ← w + α Σ_k φ(S_k) δ_k. Written for the error e = w − w* around the fixed point, with u(s, s') the TD error that is
left at w* (plus the noise of the reward, variance c), one sample's error is

    δ = u(s, s') + (γ φ(s') − φ(s))ᵀ e          and, with B = Φᵀ D (I − γ P) Φ,      E[φ δ | e] = −B e.

So for the mean b and the covariance C of e, with the second moment M = C + b bᵀ:

    b' = (I − α N B) b
    C' = (I − α N B) C (I − α N B)ᵀ + α² N ( Φᵀ diag(d q) Φ − B M Bᵀ )
    q(s) = E[δ² | s] = c(s) + E[u² | s] + 2 E[u (γ φ(s') − φ(s))ᵀ b | s] + E[(γ φ(s') − φ(s))ᵀ M (γ φ(s') − φ(s)) | s]

The first term of C' propagates the old covariance; the bracket is the covariance of a single sample's update.
For tables Φ = I and w* = v. By Theorem 1, PT-TD in a new task is this recursion started at V^P (plus what is left of V^T).
`docs/theory.md` derives it and lists the errors of the printed one. Tracking errors and covariances, rather than raw second
moments, avoids cancellation when the variance is small compared with the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError
from remanence.theory.linear import check_features, linear_fixed_point
from remanence.theory.process import RewardProcess


class Dynamics(NamedTuple):
    """The parameters of the recursion for one task. With several tasks, arrays have a leading axis."""

    visits: Array  # [states] d
    transitions: Array  # [states, states] P
    discount: Array  # [] γ
    drift: Array  # [features, features] B
    noise: Array  # [states] c(s) + E[u² | s]
    surprise: Array  # [states, states] P(s' | s) u(s, s')
    features: Array | None  # [states, features] Φ; None for tables


class Belief(NamedTuple):
    """Mean and covariance of the error of the weights."""

    bias: Array  # [features] b
    covariance: Array  # [features, features] C


def one_round(dynamics: Dynamics, samples: int, step_size: Array, belief: Belief) -> Belief:
    """Mean and covariance after a round of N samples."""
    bias, covariance = belief
    drift, discount, transitions = dynamics.drift, dynamics.discount, dynamics.transitions
    moved, pulled = drift @ bias, drift @ covariance
    shrunk = pulled @ drift.T

    if dynamics.features is None:
        second, error = covariance + jnp.outer(bias, bias), bias
    else:
        error = dynamics.features @ bias
        second = dynamics.features @ covariance @ dynamics.features.T + jnp.outer(error, error)
    diagonal = jnp.diagonal(second)
    squared_error = (
        dynamics.noise
        + 2 * (discount * dynamics.surprise @ error - dynamics.surprise.sum(axis=1) * error)
        + discount**2 * transitions @ diagonal
        - 2 * discount * (transitions * second).sum(axis=1)  # M is symmetric
        + diagonal
    )
    weight = dynamics.visits * squared_error
    scatter = jnp.diag(weight) if dynamics.features is None else (dynamics.features.T * weight) @ dynamics.features

    half = covariance / 2 - step_size * samples * pulled
    half += step_size**2 * samples / 2 * (scatter + (samples - 1) * shrunk - jnp.outer(moved, moved))
    return Belief(
        bias - step_size * samples * moved, half + half.T
    )  # exactly symmetric, so that rounding errors do not accumulate


def of_states(dynamics: Dynamics, belief: Belief) -> tuple[Array, Array]:
    """Each [states]: mean and variance of the difference between a state's estimate and the fixed point."""
    if dynamics.features is None:
        return belief.bias, jnp.diagonal(belief.covariance)
    basis = dynamics.features
    return basis @ belief.bias, jnp.einsum("si,ij,sj->s", basis, belief.covariance, basis)


@dataclass(frozen=True, eq=False)
class Curve:
    """Exact moments of the estimate of every state, before the first round and after each.

    Arrays are [tasks, *batch, rounds + 1, states]; the batch axes are those of the starts and step sizes, broadcast.
    """

    mean: np.ndarray
    """E[v_t(s)]"""
    variance: np.ndarray
    """Var[v_t(s)]"""
    truth: np.ndarray
    """[tasks, states]"""
    visits: np.ndarray
    """[tasks, states] d"""
    snapshots: dict[int, tuple[np.ndarray, np.ndarray]]
    """round -> mean [tasks, *batch, features] and covariance [tasks, *batch, features, features] of the weights (tables: values)"""

    @property
    def bias(self) -> np.ndarray:
        """E[v_t(s)] − v(s)."""
        return self.mean - self._per_task(self.truth)

    def squared_errors(self) -> np.ndarray:
        """E[(v_t(s) − v(s))²], bias² + variance of each state."""
        return self.bias**2 + self.variance

    def mse(self, weighted: bool = False) -> np.ndarray:
        """[tasks, *batch, rounds + 1] summed over states as in the paper, or averaged with the weights d."""
        errors = self.squared_errors()
        return ((errors * self._per_task(self.visits)) if weighted else errors).sum(axis=-1)

    def _per_task(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(len(array), *(1,) * (self.mean.ndim - 2), array.shape[-1])


def learning_curve(
    process: RewardProcess,
    step_sizes: np.ndarray | float,
    rounds: int,
    samples: int = 1,
    start: np.ndarray | float = 0.0,
    covariance: np.ndarray | None = None,
    features: np.ndarray | None = None,
    keep: Sequence[int] = (),
) -> Curve:
    """The exact learning curve of TD in every task, or of PT-TD if `start` is the permanent estimate.

    Args:
        step_sizes: one number, or [*batch, 1] constant ones, or [*batch, rounds] schedules.
        samples: N, independent samples per round.
        start: [*batch, states] values the estimate starts from (weights [*batch, features] if there are features).
        covariance: [*batch, states, states] of the start; default: zero.
        features: [states, features] Φ; default: tabular.
        keep: rounds after which the full covariance matrix is returned too.
    """
    _check(step_sizes, rounds, samples, keep)
    basis = None if features is None else check_features(features, process.num_states)
    size = process.num_states if basis is None else basis.shape[1]
    steps, start = np.atleast_1d(np.asarray(step_sizes, np.float64)), np.asarray(start, np.float64)
    start = np.broadcast_to(start, (size,)) if start.ndim == 0 else start
    if start.shape[-1] != size:
        raise UserError(f"the start must be [..., {size}]; its shape is {start.shape}")
    covariance = np.zeros((size, size)) if covariance is None else np.asarray(covariance, np.float64)
    if covariance.shape[-2:] != (size, size):
        raise UserError(f"the start's covariance must be [..., {size}, {size}]; its shape is {covariance.shape}")
    batch = np.broadcast_shapes(steps.shape[:-1], start.shape[:-1], covariance.shape[:-2])
    steps = np.broadcast_to(steps, (*batch, rounds)).reshape(-1, rounds)
    start = np.broadcast_to(start, (*batch, size)).reshape(-1, size)
    covariance = np.broadcast_to(covariance, (*batch, size, size)).reshape(-1, size, size)
    marks = tuple(sorted({*keep, rounds}))

    fixed_weights = fixed_points(process, basis)
    with jax.enable_x64(True):
        dynamics, axes = make_dynamics(process, basis)
        bias = start[None] - fixed_weights[:, None]  # [tasks, batch, features]
        record, ends = _unroll(dynamics, axes, samples, marks, steps, bias, covariance)
        biases, variances = (np.asarray(leaf) for leaf in record)  # [tasks, batch, rounds + 1, states]
        ends = jax.tree.map(np.asarray, ends)
    fixed = fixed_weights if basis is None else fixed_weights @ basis.T
    shape = (process.num_tasks, *batch, rounds + 1, process.num_states)
    return Curve(
        (biases + fixed[:, None, None]).reshape(shape),
        variances.reshape(shape),
        process.values,
        process.visits,
        {
            mark: (
                (end.bias + fixed_weights[:, None]).reshape(process.num_tasks, *batch, size),
                end.covariance.reshape(process.num_tasks, *batch, size, size),
            )
            for mark, end in zip(marks, ends, strict=True)
            if mark in keep
        },
    )


class Response(NamedTuple):
    """The mean squared error after each round as a function of the error e the estimate starts with: eᵀ Q e + l e + c.

    Random starts enter by their moments: <Q, M> + l b + c. Arrays are [tasks, rounds + 1, ...].
    """

    quadratic: np.ndarray  # [tasks, rounds + 1, states, states] Q
    linear: np.ndarray  # [tasks, rounds + 1, states] l
    constant: np.ndarray  # [tasks, rounds + 1] c

    def mse(self, errors: np.ndarray) -> np.ndarray:
        """[tasks, starts, rounds + 1] for errors [tasks, starts, states]."""
        quadratic = np.einsum("tki,trij,tkj->tkr", errors, self.quadratic, errors, optimize=True)
        return quadratic + np.einsum("tki,tri->tkr", errors, self.linear) + self.constant[:, None]


def response(
    process: RewardProcess, step_size: float, rounds: int, samples: int = 1, weighted: bool = False
) -> Response:
    """The curve as a function of the start: the recursion is linear in (b, M), so we run its transpose."""
    _check(step_size, rounds, samples, ())
    with jax.enable_x64(True):
        dynamics, axes = make_dynamics(process, None)
        weights = process.visits if weighted else np.ones_like(process.visits)
        answer = jax.jit(jax.vmap(partial(_respond, samples, rounds), in_axes=(axes, None, 0)))(
            dynamics, jnp.float64(step_size), weights
        )
        return Response(*(np.asarray(leaf) for leaf in answer))


def fixed_points(process: RewardProcess, features: np.ndarray | None) -> np.ndarray:
    """[tasks, features] w* of TD; for tables, the values."""
    if features is None:
        return process.values
    tasks = zip(process.transitions, process.expected_rewards, process.visits, strict=True)
    return np.stack([linear_fixed_point(P, r, process.discount, features, d) for P, r, d in tasks])


def drift_matrices(process: RewardProcess, features: np.ndarray | None) -> np.ndarray:
    """[tasks, features, features] B = Φᵀ D (I − γ P) Φ."""
    drift = process.visits[:, :, None] * (np.eye(process.num_states) - process.discount * process.transitions)
    return drift if features is None else np.einsum("si,tsz,zj->tij", features, drift, features)


def make_dynamics(process: RewardProcess, features: np.ndarray | None) -> tuple[Dynamics, Dynamics]:
    """Dynamics of all tasks, and which leaves have a task axis: shared arrays are not repeated."""
    share = all(np.array_equal(process.transitions[0], other) for other in process.transitions[1:])
    transitions, visits = process.transitions, process.visits
    fixed = fixed_points(process, features)
    fixed = fixed if features is None else fixed @ features.T
    rewards = process.rewards if process.rewards.ndim == 3 else process.rewards[:, :, None]
    left = rewards + process.discount * fixed[:, None, :] - fixed[:, :, None]  # [tasks, s, s'] u
    drift = drift_matrices(process, features)
    dynamics = Dynamics(
        visits=jnp.asarray(visits[0] if share else visits),
        transitions=jnp.asarray(transitions[0] if share else transitions),
        discount=jnp.float64(process.discount),
        drift=jnp.asarray(drift[0] if share else drift),
        noise=jnp.asarray(process.variance + (transitions * left**2).sum(axis=-1)),
        surprise=jnp.asarray(transitions * left),
        features=None if features is None else jnp.asarray(features),
    )
    each = None if share else 0
    return dynamics, Dynamics(each, each, None, each, 0, 0, None)  # type: ignore[arg-type]


@partial(jax.jit, static_argnames=("axes", "samples", "marks"))
def _unroll(
    dynamics: Dynamics,
    axes: Dynamics,
    samples: int,
    marks: tuple[int, ...],
    steps: Array,
    bias: Array,
    covariance: Array,
) -> tuple[tuple[Array, Array], list[Belief]]:
    """Runs the recursion for all tasks and starts: biases and variances of all states per round, beliefs at the chosen rounds."""

    def one(
        dynamics: Dynamics, bias: Array, covariance: Array, steps: Array
    ) -> tuple[tuple[Array, Array], list[Belief]]:
        def advance(belief: Belief, step_size: Array) -> tuple[Belief, tuple[Array, Array]]:
            belief = one_round(dynamics, samples, step_size, belief)
            return belief, of_states(dynamics, belief)

        belief, ends, done = Belief(bias, covariance), [], 0
        seen = [jax.tree.map(lambda leaf: leaf[None], of_states(dynamics, belief))]
        for mark in marks:
            belief, part = jax.lax.scan(advance, belief, steps[done:mark])
            seen.append(part)
            ends.append(belief)
            done = mark
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *seen), ends

    over_batch = jax.vmap(one, in_axes=(None, 0, 0, 0))
    return jax.vmap(over_batch, in_axes=(axes, 0, None, None))(dynamics, bias, covariance, steps)


def _respond(samples: int, rounds: int, dynamics: Dynamics, step_size: Array, weights: Array) -> Response:
    def second_moments(bias: Array, second: Array) -> tuple[Array, Array]:
        belief = one_round(dynamics, samples, step_size, Belief(bias, second - jnp.outer(bias, bias)))
        return belief.bias, belief.covariance + jnp.outer(belief.bias, belief.bias)

    size = len(weights)
    origin = jnp.zeros(size), jnp.zeros((size, size))
    arrived, transpose = jax.vjp(second_moments, *origin)  # exact everywhere: the map is affine in (b, M)

    def earlier(answer: Response, _: None) -> tuple[Response, Response]:
        linear, quadratic = transpose((answer.linear, answer.quadratic))
        added = answer.linear @ arrived[0] + (answer.quadratic * arrived[1]).sum()
        quadratic = (quadratic + quadratic.T) / 2
        answer = Response(quadratic, linear, answer.constant + added)
        return answer, answer

    first = Response(jnp.diag(weights), jnp.zeros(size), jnp.float64(0))  # type: ignore[arg-type]
    _, later = jax.lax.scan(earlier, first, length=rounds)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)


def _check(step_sizes: np.ndarray | float, rounds: int, samples: int, keep: Sequence[int]) -> None:
    if rounds < 1:
        raise UserError(f"a curve needs at least one round; got {rounds}")
    if samples < 1:
        raise UserError(f"a round needs at least one sample; got {samples}")
    steps = np.asarray(step_sizes, np.float64)
    if not np.isfinite(steps).all() or (steps < 0).any():
        raise UserError("step sizes must be finite numbers that are not negative")
    if steps.ndim and steps.shape[-1] not in (1, rounds):
        raise UserError(
            f"step sizes must be [..., 1] (constant) or [..., {rounds}] (one per round); their shape is {steps.shape}"
        )
    strange = [mark for mark in keep if not 1 <= mark <= rounds]
    if strange:
        raise UserError(f"rounds to keep must lie between 1 and {rounds}; got {strange[0]}")
