"""Step sizes from the exact learning curve: the largest stable one, the best constant, the best schedule.

The second moment of the error obeys M' = M − α 𝓑 M + α² 𝓒 M + noise, with

    𝓑 M = N (B M + M Bᵀ)          𝓒 M = N (Φᵀ diag(d q(M)) Φ + (N − 1) B M Bᵀ)

where q(M) is the part of E[δ² | s] that is linear in M. Both 𝓒 and 𝓑⁻¹ map covariances to covariances, so the first step size at
which an eigenvalue of the map reaches 1 is α* = 1 / ρ(𝓑⁻¹ 𝓒): no search is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from remanence.core.errors import UserError
from remanence.theory.linear import check_features
from remanence.theory.moments import Belief, Dynamics, drift_matrices, fixed_points, make_dynamics, of_states, one_round
from remanence.theory.process import RewardProcess

Objective = Literal["average", "final"]
DENSE_UP_TO = 8  # features: below this all eigenvalues are found at once


class BestStepSize(NamedTuple):
    step_size: float
    mse: float
    """the objective there: E_τ of the mean squared error, averaged over the rounds or after the last"""
    slope: float
    """d log(mse) / d log(step size) there: 0 at an optimum"""


class BestSchedule(NamedTuple):
    step_sizes: np.ndarray  # [rounds]
    mse: float
    constant: BestStepSize
    """the MSE of the best constant step size, for comparison"""


def stability_limit(process: RewardProcess, samples: int = 1, features: np.ndarray | None = None) -> np.ndarray:
    """[tasks] the stability limit: the mean squared error is bounded for every smaller step size."""
    return np.array([1.0 / _growth(parts) for parts in _maps(process, samples, features)])


def steady_state(
    process: RewardProcess, step_size: float, samples: int = 1, features: np.ndarray | None = None
) -> np.ndarray:
    """[tasks, features, features] the stationary covariance of the estimate with a constant step size.

    Solves (𝓑 − α 𝓒) M = α N Φᵀ diag(d (c + E[u²])) Φ.
    """
    limits = stability_limit(process, samples, features)
    if not 0.0 < step_size < limits.min():
        raise UserError(
            f"there is no stationary covariance with step size {step_size:g}: it must be above 0 and below {limits.min():g}, "
            "where it becomes unstable"
        )
    answers = []
    for parts in _maps(process, samples, features):
        size = len(parts.drift)
        noise = parts.invert(step_size * parts.noise)

        def residual(flat: np.ndarray, parts: _Maps = parts) -> np.ndarray:
            second = flat.reshape(len(parts.drift), -1)
            return (second - parts.invert(step_size * parts.enlarge(second))).ravel()

        operator = scipy.sparse.linalg.LinearOperator((size * size, size * size), matvec=residual)  # type: ignore[call-arg]
        found, failed = scipy.sparse.linalg.gmres(operator, noise.ravel(), rtol=1e-12, maxiter=500)
        if failed:
            raise ArithmeticError(f"the stationary covariance was not found to 12 digits ({failed} iterations)")
        answers.append(found.reshape(size, size))
    return np.stack(answers)


def best_step_size(
    process: RewardProcess,
    rounds: int,
    samples: int = 1,
    start: np.ndarray | float = 0.0,
    objective: Objective = "average",
    weighted: bool = False,
    features: np.ndarray | None = None,
) -> BestStepSize:
    """The constant step size with the lowest E_τ MSE over a horizon: a root of the exact curve's derivative."""
    with jax.enable_x64(True):
        score = _objective(process, samples, start, objective, weighted, features)
        along = jax.jit(lambda log_step: score(jnp.full(rounds, jnp.exp(log_step))))
        slope = jax.jit(jax.jacfwd(lambda log_step: jnp.log(score(jnp.full(rounds, jnp.exp(log_step))))))
        top = np.log(4 * stability_limit(process, samples, features).min())
        grid = np.linspace(top - 16, top, 97)
        scores = np.asarray(jax.lax.map(along, jnp.asarray(grid)))
        best = int(np.nanargmin(np.where(np.isfinite(scores), scores, np.inf)))
        if best in (0, len(grid) - 1):  # only noise to learn from, or a horizon so short that any step helps
            found = grid[best]
        else:
            found = float(scipy.optimize.brentq(lambda x: float(slope(x)), grid[best - 1], grid[best + 1], xtol=1e-13))  # type: ignore[arg-type]
        return BestStepSize(float(np.exp(found)), float(along(found)), float(slope(found)))


def best_schedule(
    process: RewardProcess,
    rounds: int,
    samples: int = 1,
    start: np.ndarray | float = 0.0,
    objective: Objective = "average",
    weighted: bool = False,
    features: np.ndarray | None = None,
) -> BestSchedule:
    """One step size per round, with the lowest E_τ MSE over a horizon: gradient descent on the exact curve."""
    constant = best_step_size(process, rounds, samples, start, objective, weighted, features)
    with jax.enable_x64(True):
        score = _objective(process, samples, start, objective, weighted, features)
        slope = jax.jit(jax.value_and_grad(lambda factors: jnp.log(score(constant.step_size * factors))))
        found = scipy.optimize.minimize(
            lambda factors: tuple(np.asarray(part, np.float64) for part in slope(factors)),
            np.ones(rounds),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * rounds,
            options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-9},
        )
    return BestSchedule(constant.step_size * found.x, float(np.exp(found.fun)), constant)


class _Maps(NamedTuple):
    """𝓑 and 𝓒 of one task, as functions of a symmetric matrix."""

    samples: int
    drift: np.ndarray
    noise: np.ndarray  # the constant part: N Φᵀ diag(d (c + E[u²])) Φ
    visits: np.ndarray
    transitions: np.ndarray
    discount: float
    features: np.ndarray | None

    def invert(self, matrix: np.ndarray) -> np.ndarray:
        """𝓑⁻¹: the Lyapunov equation N (B X + X Bᵀ) = matrix."""
        return scipy.linalg.solve_continuous_lyapunov(self.drift, matrix / self.samples)

    def enlarge(self, second: np.ndarray) -> np.ndarray:
        """𝓒."""
        inside = second if self.features is None else self.features @ second @ self.features.T
        diagonal = np.diagonal(inside)
        cross = (self.transitions * (inside + inside.T)).sum(axis=1)  # symmetric part only: 𝓒 is defined for those
        squared = self.discount**2 * self.transitions @ diagonal - self.discount * cross + diagonal
        scatter = np.diag(self.visits * squared)
        if self.features is not None:
            scatter = self.features.T @ scatter @ self.features
        return self.samples * (scatter + (self.samples - 1) * self.drift @ second @ self.drift.T)


def _maps(process: RewardProcess, samples: int, features: np.ndarray | None) -> list[_Maps]:
    if samples < 1:
        raise UserError(f"a round needs at least one sample; got {samples}")
    basis = None if features is None else check_features(features, process.num_states)
    unvisited = np.argwhere(process.visits == 0)
    if basis is None and len(unvisited):
        task, state = unvisited[0]
        raise UserError(f"state {state} is never visited in the long run (task {task}): its estimate never converges")
    found = []
    tasks = zip(
        process.transitions, process.visits, drift_matrices(process, basis), _noises(process, basis), strict=True
    )
    for transitions, visits, drift, noise in tasks:
        scatter = np.diag(visits * noise) if basis is None else (basis.T * (visits * noise)) @ basis
        found.append(_Maps(samples, drift, samples * scatter, visits, transitions, process.discount, basis))
    return found


def _noises(process: RewardProcess, features: np.ndarray | None) -> np.ndarray:
    """[tasks, states] c(s) + E[u² | s]."""
    with jax.enable_x64(True):
        return np.asarray(make_dynamics(process, features)[0].noise)


def _growth(maps: _Maps) -> float:
    """ρ(𝓑⁻¹ 𝓒)."""
    size = len(maps.drift)
    apply = lambda flat: maps.invert(maps.enlarge(flat.reshape(size, size))).ravel()  # noqa: E731
    if size <= DENSE_UP_TO:
        matrix = np.stack([apply(unit) for unit in np.eye(size * size)], axis=1)
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    operator = scipy.sparse.linalg.LinearOperator((size * size, size * size), matvec=apply)  # type: ignore[arg-type]
    try:
        found = scipy.sparse.linalg.eigs(
            operator, k=1, which="LM", v0=np.eye(size).ravel(), return_eigenvectors=False, tol=1e-10
        )  # type: ignore[arg-type]
    except scipy.sparse.linalg.ArpackNoConvergence as error:
        raise ArithmeticError("the stability limit was not found to 10 digits") from error
    return float(np.abs(found).max())


def _objective(
    process: RewardProcess,
    samples: int,
    start: np.ndarray | float,
    objective: Objective,
    weighted: bool,
    features: np.ndarray | None,
) -> Callable[[Array], Array]:
    """E_τ MSE over the horizon as a function of the schedule [rounds]."""
    if objective not in ("average", "final"):
        raise UserError(f"the objective must be 'average' or 'final'; got '{objective}'")
    basis = None if features is None else check_features(features, process.num_states)
    dynamics, axes = make_dynamics(process, basis)
    fixed_weights = fixed_points(process, basis)
    offsets = jnp.asarray((fixed_weights if basis is None else fixed_weights @ basis.T) - process.values)
    biases = jnp.asarray(np.broadcast_to(np.asarray(start, np.float64), fixed_weights.shape[1:]) - fixed_weights)
    weights = jnp.asarray(process.visits if weighted else np.ones_like(process.visits))

    def of_task(dynamics: Dynamics, schedule: Array, bias: Array, offset: Array, weight: Array) -> Array:
        def advance(belief: Belief, step_size: Array) -> tuple[Belief, Array]:
            belief = one_round(dynamics, samples, step_size, belief)
            error, variance = of_states(dynamics, belief)
            return belief, weight @ (variance + (error + offset) ** 2)

        initial = Belief(bias, jnp.zeros((len(bias), len(bias))))
        _, errors = jax.lax.scan(advance, initial, schedule)
        return errors.mean() if objective == "average" else errors[-1]

    over_tasks = jax.vmap(of_task, in_axes=(axes, None, 0, 0, 0))
    return lambda schedule: (
        jnp.asarray(process.probabilities) @ over_tasks(dynamics, schedule, biases, offsets, weights)
    )
