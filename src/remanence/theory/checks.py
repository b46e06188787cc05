"""Checks every theorem of the paper on a process: the statement, what was computed, and the residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from remanence.core import backend
from remanence.core.errors import UserError
from remanence.theory.forgetting import (
    contraction,
    error_bounds,
    exact_forgetting_times,
    forgetting_times,
    mean_path_step_size,
)
from remanence.theory.lifetimes import stream_moments
from remanence.theory.moments import learning_curve
from remanence.theory.permanent import common_values, jumpstart_loss, permanent_moments
from remanence.theory.process import RewardProcess
from remanence.theory.shares import Shares, inflation
from remanence.theory.simulation import simulate_rounds
from remanence.theory.step_sizes import best_schedule, stability_limit
from remanence.theory.transient import modified_process, transient_fixed_point, transient_operator

ROUNDING = 1e-9  # relative rounding error of linear solves
MAX_STANDARD_ERRORS = 5.0  # allowed distance of the worst entry of a simulation
RUNS, ROUNDS, SAMPLES = 20_000, 100, 4
HORIZON = 100
MOMENT_COPIES = 4  # of the second moments of all simulated runs, in memory


@dataclass(frozen=True)
class Check:
    """The check of one theorem."""

    theorem: str
    statement: str
    check: str
    residual: float
    """distance from the statement: 0 if it holds exactly; for simulations, in standard errors"""
    holds: bool
    remark: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check_theorems(process: RewardProcess, seed: int = 0) -> list[Check]:
    """Checks Theorems 1 to 10 on a process; raises a `UserError` if it has too many states for this machine."""
    needed = MOMENT_COPIES * RUNS * process.num_states**2 * np.dtype(np.float64).itemsize
    if needed > backend.memory() // 2:
        raise UserError(
            f"the second moments of {process.num_states:,} states in {RUNS:,} simulated runs need about {needed / 2**30:,.0f} GB, "
            f"but there are {backend.memory() / 2**30:,.1f}: give a smaller process"
        )
    tries: tuple[Callable[[RewardProcess, np.random.Generator], Check], ...] = (
        _generalises_td,
        _contracts,
        _fixed_point,
        _modified_process,
        _permanent_fixed_point,
        _jumpstart,
        _forgetting,
        _tighter_bound,
        _moments_of_td,
        _moments_of_pt,
    )
    return [attempt(process, np.random.default_rng([seed, number])) for number, attempt in enumerate(tries)]


def check_shares(process: RewardProcess, seed: int = 0) -> list[Check]:
    """Checks what docs/theory.md states about the shares of a consolidation. Not in the paper."""
    tries = (_split_is_free, _no_inflation, _mean_without_convergence, _continuous_limit)
    return [attempt(process, np.random.default_rng([seed, number])) for number, attempt in enumerate(tries)]


def summary(process: RewardProcess) -> dict[str, Any]:
    """Quantities that the exact theory gives for this process: values, times, step sizes."""
    permanent = common_values(process)
    visited = bool((process.visits > 0).all())
    answers: dict[str, Any] = {
        "states": process.num_states,
        "tasks": process.num_tasks,
        "discount": process.discount,
        "values": process.values.tolist(),
        "stationary": process.visits.tolist(),
        "permanent_fixed_point": permanent.tolist(),
        "jumpstart_loss": float(jumpstart_loss(process, permanent)),
        "forgetting_time": _finite(forgetting_times(process).max()),
        "forgetting_time_exact": _finite(_exact_times(process).max()),
    }
    if visited:
        answers["stability_limit"] = float(stability_limit(process).min())
        for name, start in (("from_zero", 0.0), ("from_permanent", permanent)):
            schedule = best_schedule(process, HORIZON, start=start)
            answers[f"best_step_size_{name}"] = {
                "step_size": schedule.constant.step_size,
                "mse": schedule.constant.mse,
                "mse_best_schedule": schedule.mse,
                "rounds": HORIZON,
                "samples": 1,
            }
    return answers


def _generalises_td(process: RewardProcess, rng: np.random.Generator) -> Check:
    start, seed = rng.normal(size=process.num_states), int(rng.integers(2**31))
    common = {"step_size": 0.1, "rounds": 1000, "samples": 1, "runs": 10, "seed": seed}
    td = simulate_rounds(process, 0, transient=start, **common)[1000]
    pt = simulate_rounds(process, 0, permanent=start, transient=0.0, **common)[1000]
    gap = float(np.abs(td - pt).max())
    return Check(
        "1",
        "PT-TD with a frozen V^P equals TD started at V^P",
        "largest difference after 1000 shared samples, 10 runs",
        gap,
        gap <= ROUNDING * _size(process, start),
    )


def _contracts(process: RewardProcess, rng: np.random.Generator) -> Check:
    permanent, left, right = rng.normal(size=(3, 1000, process.num_states))
    # The worst pair differs by the same amount in all states, so averaging over next states loses nothing.
    right[0] = left[0] + 1.0
    arguments = (process.transitions[0], process.expected_rewards[0], process.discount, permanent)
    apart = np.abs(transient_operator(*arguments, left) - transient_operator(*arguments, right)).max(axis=1)
    ratios = apart / np.abs(left - right).max(axis=1)
    excess = float(max(0.0, ratios.max() - process.discount))
    return Check(
        "2",
        "the transient target is a contraction with factor γ in the maximum norm",
        "excess of ‖Tu − Tv‖ / ‖u − v‖ over γ, 1000 pairs",
        excess,
        excess <= ROUNDING,
        f"tight: the largest ratio is {ratios.max():.6g}, the mean {ratios.mean():.3g}, γ = {process.discount:g}",
    )


def _fixed_point(process: RewardProcess, rng: np.random.Generator) -> Check:
    permanent = rng.normal(size=process.num_states)
    residual = 0.0
    for transitions, rewards, values in zip(process.transitions, process.expected_rewards, process.values, strict=True):
        arguments = (transitions, rewards, process.discount, permanent)
        fixed = transient_fixed_point(*arguments)
        moved = transient_operator(*arguments, fixed)
        residual = max(residual, np.abs(moved - fixed).max(), np.abs(permanent + fixed - values).max())
    return Check(
        "3",
        "its fixed point is v − V^P, so the sum of both parts is v",
        "largest of |T V^T − V^T| and |V^P + V^T − v|, all tasks",
        float(residual),
        bool(residual <= ROUNDING * _size(process, permanent)),
    )


def _modified_process(process: RewardProcess, rng: np.random.Generator) -> Check:
    """Uses two actions that split the given chain at random."""
    permanent = rng.normal(size=process.num_states)
    transitions, rewards = process.transitions[0], process.expected_rewards[0]
    policy = np.full((process.num_states, 2), 0.5)
    tilt = rng.uniform(-0.5, 0.5, size=transitions.shape) * transitions
    tilt -= transitions * tilt.sum(axis=1, keepdims=True)
    split = np.stack([transitions + tilt, transitions - tilt], axis=1).clip(0)
    split /= split.sum(axis=-1, keepdims=True)
    bonus = rng.normal(size=process.num_states)
    paid = np.stack([rewards + bonus, rewards - bonus], axis=1)
    mixed = split.mean(axis=1)
    modified = modified_process(split, paid, policy, process.discount, permanent)
    size = len(modified.rewards)
    values = np.linalg.solve(np.eye(size) - process.discount * modified.transitions, modified.rewards)
    fixed = transient_fixed_point(mixed, rewards, process.discount, permanent)
    residual = float(np.abs(modified.mean_by_state(values, process.num_states) - fixed).max())
    literal = float(np.abs(values - fixed[modified.members[:, 0]]).max())
    return Check(
        "4",
        "it is the value of a process over (s, a, s') that pays r + γ V^P(s') − V^P(s)",
        f"|mean over (a, s') of that value − V^T(s)|, {size} triples, two actions",
        residual,
        residual <= ROUNDING * _size(process, permanent, paid),
        f"as a mean over what follows s; triple by triple, as printed, it is off by up to {literal:.3g}",
    )


def _permanent_fixed_point(process: RewardProcess, rng: np.random.Generator) -> Check:
    start, met = rng.normal(size=process.num_states), 1000
    moments = permanent_moments(process, 1.0 / np.arange(2, met + 2), start)  # the start counts as one task
    centre = common_values(process)
    expected = (start - centre) / (met + 1)
    residual = float(np.abs(moments.mean[-1] - centre - expected).max())
    spread = float(np.sqrt(np.trace(moments.covariance[-1])))
    return Check(
        "5",
        "with step sizes of Robbins and Monro, V^P converges to E_τ[v_τ]",
        "exact mean after 1000 tasks with α_k = 1/(k+1), against the remaining (V_0 − E v)/1001",
        residual,
        residual <= ROUNDING * _size(process, start),
        f"distance left {np.abs(expected).max():.2g}, standard deviation left {spread:.2g}; needs Σα² < ∞ (printed: = 0)",
    )


def _jumpstart(process: RewardProcess, rng: np.random.Generator) -> Check:
    centre = common_values(process)
    others = centre + rng.normal(size=(1000, process.num_states)) * rng.lognormal(size=(1000, 1))
    gain = jumpstart_loss(process, others) - jumpstart_loss(process, centre)
    residual = float(np.abs(gain - 0.5 * ((others - centre) ** 2).sum(axis=-1)).max())
    return Check(
        "6",
        "E_τ[v_τ] minimises the jumpstart loss J(u) = ½ E_τ‖u − v_τ‖²",
        "|J(u) − J(E v) − ½‖u − E v‖²|, 1000 other estimates",
        residual,
        residual <= ROUNDING * _size(process, others) ** 2 and bool((gain > 0).all()),
        f"J(E v) = {jumpstart_loss(process, centre):.4g}, J(0) = {jumpstart_loss(process, np.zeros_like(centre)):.4g}",
    )


def _forgetting(process: RewardProcess, rng: np.random.Generator) -> Check:
    del rng
    statement = "after k_0 steps of a new task, V^P is closer to a past task's values than TD's estimate"
    times, exact, printed = forgetting_times(process), _exact_times(process), forgetting_times(process, printed=True)
    if not np.isfinite(times).all():
        return Check(
            "7", statement, "needs tasks that differ, and every state visited", 0.0, True, "does not apply here"
        )
    late = float(np.maximum(exact - np.ceil(times + 1e-9), 0.0).max())
    too_soon = int((printed < exact - 1).sum())
    return Check(
        "7",
        statement,
        "steps by which the exact mean path forgets later than k_0, all tasks",
        late,
        late == 0.0,
        f"k_0 = {times.max():.4g}, the exact mean path needs {exact.max():.4g}; the printed k_0 is {printed.max():.3g}, "
        + (f"too soon for {too_soon} of {len(times)} tasks" if too_soon else "not refuted here"),
    )


def _tighter_bound(process: RewardProcess, rng: np.random.Generator) -> Check:
    del rng
    steps = np.arange(1001)
    of_td, of_pt = error_bounds(process, steps)
    step_size, permanent = mean_path_step_size(process.discount), common_values(process)
    starts = np.concatenate([process.values, permanent[None]])
    curve = learning_curve(process, step_size, len(steps) - 1, start=starts)
    errors = process.expect((curve.bias**2).sum(axis=-1))  # [starts, steps] of the mean path
    bounds = np.concatenate([of_td, of_pt[None]])
    excess = float(max((errors - bounds).max(), (of_pt - of_td).max(), 0.0))
    tightness = errors[:, -1] / np.maximum(bounds[:, -1], np.finfo(float).tiny)
    return Check(
        "8",
        "on a new task PT-TD's error has a lower upper bound than TD's",
        "excess of the mean path's error over its bound, and of PT's bound over TD's, 1000 steps",
        excess,
        bool(excess <= ROUNDING * max(1.0, float(bounds.max()))),
        f"bounds at the switch: {of_pt[0]:.4g} against {of_td[:, 0].min():.4g} or more; after 1000 steps the error is "
        f"{tightness.max():.1%} of its bound (C = {contraction(process):.6f} per step)",
    )


def _moments_of_td(process: RewardProcess, rng: np.random.Generator) -> Check:
    start = rng.normal(size=process.num_states)
    worst = _worst_entry(process, rng, permanent=0.0, transient=start)
    return Check(
        "9",
        "mean, second moment and MSE of TD after each round follow a recursion",
        _SIMULATION,
        worst,
        worst <= MAX_STANDARD_ERRORS,
        "as derived in docs/theory.md; the printed one has errors",
    )


def _moments_of_pt(process: RewardProcess, rng: np.random.Generator) -> Check:
    permanent, transient = common_values(process), 0.1 * rng.normal(size=process.num_states)
    worst = _worst_entry(process, rng, permanent, transient)
    return Check(
        "10", "the same recursion, from V^P + V^T, holds for PT-TD", _SIMULATION, worst, worst <= MAX_STANDARD_ERRORS
    )


def _split_is_free(process: RewardProcess, rng: np.random.Generator) -> Check:
    step_size, length = _stream_step(process), 20
    plain = stream_moments(process, step_size, length, length, np.inf).mse
    lifetimes = rng.uniform(1.0, 50.0, size=3)
    # With equal lifetimes of both parts, all that is not kept is absorbed.
    split = [
        stream_moments(process, step_size, length, k, tau, tau).mse
        for k, tau in zip((1, 4, 10), lifetimes, strict=True)
    ]
    gap = float(max(np.abs(one / plain - 1).max() for one in split))
    return Check(
        "shares 1",
        "with nothing forgotten (a + λ = 1), PT-TD is TD, whatever k and λ",
        "largest relative difference of the exact error after 30 tasks, three k and λ",
        gap,
        gap <= ROUNDING,
    )


def _no_inflation(process: RewardProcess, rng: np.random.Generator) -> Check:
    """The extreme values of a process whose rewards are all 1, or all −1: no estimate may exceed them."""
    del process
    kept, absorbed, learned = rng.random((3, 200))
    allowed = [inflation(Shares(k * (1 - a), a), c, 200) for k, a, c in zip(kept, absorbed, learned, strict=True)]
    beyond = [inflation(Shares(1 - a + a * k, a), 1.0, 200) for k, a in zip(kept, absorbed, strict=True)]
    excess = float(max(allowed) - 1.0)
    return Check(
        "shares 2",
        "a + λ ≤ 1 rules out inflation: from possible values only possible ones follow",
        "excess of V / v over 1 in a process of one state, 200 shares and speeds of learning",
        excess,
        excess <= ROUNDING and min(beyond) >= 1.0,
        f"sharp: with a + λ = 1 + x, V reaches (1 + x) v; with λ = 0.99 and a = 1 it swings to "
        f"{inflation(Shares(0.99, 1.0), 0.01):.2f} v",
    )


def _mean_without_convergence(process: RewardProcess, rng: np.random.Generator) -> Check:
    shared = np.ptp(process.transitions, axis=0).max() == 0.0
    statement = "V^P converges to E_τ[v_τ] on average though no task is learned, if tasks share transitions"
    if not shared or not (process.visits > 0).all():
        return Check("shares 3", statement, "needs shared transitions", 0.0, True, "does not apply here")
    start = common_values(process) + rng.normal(size=process.num_states)
    arguments = (process, _stream_step(process), 4, 2, 3.0, 10.0)
    early, late = (
        process.expect(stream_moments(*arguments, tasks=tasks, start=start).permanent) - common_values(process)
        for tasks in (1000, 4000)
    )
    met = stream_moments(*arguments, tasks=30).permanent  # started there, it stays
    residual = float(np.abs(process.expect(met) - common_values(process)).max())
    before, after = np.linalg.norm(early), np.linalg.norm(late)
    return Check(
        "shares 3",
        statement,
        "distance of the exact mean of V^P from E_τ[v_τ] after 30 tasks of 4 rounds, started there",
        residual,
        bool(residual <= ROUNDING * _size(process) and (after < before or after <= ROUNDING * _size(process))),
        f"started elsewhere, the distance falls from {before:.2g} after 1000 tasks to {after:.2g} after 4000",
    )


def _continuous_limit(process: RewardProcess, rng: np.random.Generator) -> Check:
    del rng
    length, tau = 64, 64 / 3
    errors = {
        k: float(process.expect(stream_moments(process, _stream_step(process), length, k, tau).mse.mean(axis=1)))
        for k in (1, 2, 4, 8)
    }
    gaps = [abs(errors[k] - errors[1]) / errors[1] for k in (2, 4, 8)]
    return Check(
        "shares 4",
        "with τ fixed, consolidating more often converges to continuous forgetting, T ← e^(−1/τ) T at every step",
        "relative difference of the mean error with k = 2 from that with k = 1, tasks of 64 rounds, τ = 21.3",
        gaps[0],
        gaps[0] <= gaps[1] <= gaps[2],
        f"k = 4: {gaps[1]:.2g}, k = 8: {gaps[2]:.2g}",
    )


def _stream_step(process: RewardProcess) -> float:
    """A step size with which every stream is stable."""
    limits = stability_limit(process) if (process.visits > 0).all() else np.array([0.1])
    return float(0.1 * limits.min())


_SIMULATION = (
    f"worst entry of the exact moments after 1, 10 and {ROUNDS} rounds of {SAMPLES} samples, "
    f"in standard errors of {RUNS:,} simulated runs"
)


def _worst_entry(
    process: RewardProcess, rng: np.random.Generator, permanent: np.ndarray | float, transient: np.ndarray
) -> float:
    step_size, marks = 0.05, (1, 10, ROUNDS)
    start = np.broadcast_to(permanent + transient, (process.num_states,))
    curve = learning_curve(process, step_size, ROUNDS, SAMPLES, start=start, keep=marks)
    found = simulate_rounds(
        process, 0, step_size, ROUNDS, SAMPLES, RUNS, int(rng.integers(2**31)), permanent, transient, keep=marks
    )
    return max(
        float(distances(runs, curve.snapshots[mark][0][0], curve.snapshots[mark][1][0], process.values[0]).max())
        for mark, runs in found.items()
    )


def distances(runs: np.ndarray, mean: np.ndarray, covariance: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Distance of simulated runs [runs, states] from the exact moments, in standard errors: means, second moments, MSE."""
    pairs = np.einsum("ri,rj->rij", runs, runs).reshape(len(runs), -1)
    errors = ((runs - truth) ** 2).sum(axis=1, keepdims=True)
    seen = np.concatenate([runs, pairs, errors], axis=1)
    second = covariance + np.outer(mean, mean)
    mse = np.trace(covariance) + ((mean - truth) ** 2).sum()
    expected = np.concatenate([mean, second.ravel(), [mse]])
    error = seen.std(axis=0, ddof=1) / np.sqrt(len(runs))
    # An entry without samples is exact, up to the rounding of a mean.
    floor = 1e-12 * (1.0 + np.abs(expected))
    return np.abs(seen.mean(axis=0) - expected) / np.maximum(error, floor)


@lru_cache(maxsize=1)  # used by the checks and the summary; it may be thousands of rounds long
def _exact_times(process: RewardProcess) -> np.ndarray:
    bound = forgetting_times(process).max()
    horizon = int(min(np.ceil(bound), 20_000)) if np.isfinite(bound) else 1000
    return exact_forgetting_times(process, horizon=max(horizon, 10), mean_path=True)


def _size(process: RewardProcess, *arrays: np.ndarray) -> float:
    """The scale of the values, for comparing rounding errors."""
    return max(1.0, float(np.abs(process.values).max()), *(float(np.abs(array).max()) for array in arrays))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
