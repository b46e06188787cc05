"""Exact learning curves against simulations of the same update, and the printed recursion beside them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import random_process
from remanence.core.errors import UserError
from remanence.theory import (
    RewardProcess,
    best_schedule,
    best_step_size,
    learning_curve,
    response,
    stability_limit,
    steady_state,
)
from remanence.theory.checks import distances
from remanence.theory.simulation import simulate_rounds

RUNS = 100_000
MARKS = (1, 10, 100)
MOST = 4.0  # standard errors


def one_task(seed: int, noise: float) -> RewardProcess:
    """Three or four states: a run of the simulation stays short."""
    rng = np.random.default_rng(seed)
    states = 3 + seed % 2
    chain = 0.95 * rng.dirichlet(np.full(states, 0.5), size=states) + 0.05 / states
    return RewardProcess(
        chain, rng.normal(size=states), float(rng.uniform(0.3, 0.9)), variance=noise * rng.random(states)
    )


@settings(derandomize=True, max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**20), samples=st.sampled_from([1, 4]), noise=st.sampled_from([0.0, 1.0]))
def test_exact_moments_agree_with_simulation(seed: int, samples: int, noise: float) -> None:
    """Means, second moments and MSE after 1, 10 and 100 rounds, entry by entry, from a random start."""
    process, rng = one_task(seed, noise), np.random.default_rng(seed)
    mean = rng.normal(size=process.num_states)
    root = 0.3 * rng.normal(size=(process.num_states, process.num_states))
    starts = mean + rng.normal(size=(RUNS, process.num_states)) @ root.T
    step = 0.3 / samples
    curve = learning_curve(process, step, 100, samples, mean, root @ root.T, keep=MARKS)
    found = simulate_rounds(process, 0, step, 100, samples, RUNS, seed, transient=starts, keep=MARKS)
    for mark in MARKS:
        mean_then, covariance = (part[0] for part in curve.snapshots[mark])
        assert distances(found[mark], mean_then, covariance, process.values[0]).max() < MOST


@pytest.mark.parametrize(("samples", "noise"), [(1, 1.0), (3, 0.0)])
def test_pt_and_schedules_and_rewards_on_transitions(samples: int, noise: float) -> None:
    """PT-TD from V^P + V^T with a schedule, in a process that pays on transitions; whole tables are compared."""
    rng = np.random.default_rng(3)
    chain = rng.dirichlet(np.ones(3), size=3)
    process = RewardProcess(chain, rng.normal(size=(1, 3, 3)), 0.7, variance=noise)
    permanent, transient = rng.normal(size=(2, 3))
    schedule = 0.5 / np.arange(1, 101) ** 0.6
    curve = learning_curve(process, schedule, 100, samples, start=permanent + transient, keep=MARKS)
    found = simulate_rounds(process, 0, schedule, 100, samples, RUNS, 8, permanent, transient, keep=MARKS)
    for mark in MARKS:
        mean, covariance = (part[0] for part in curve.snapshots[mark])
        assert distances(found[mark], mean, covariance, process.values[0]).max() < MOST


@pytest.mark.parametrize("samples", [1, 3])
def test_moments_with_features(samples: int) -> None:
    process, rng = one_task(7, 0.5), np.random.default_rng(7)
    features = rng.normal(size=(process.num_states, 2))
    start = rng.normal(size=2)
    curve = learning_curve(process, 0.05, 100, samples, start, features=features, keep=MARKS)
    found = simulate_rounds(process, 0, 0.05, 100, samples, RUNS, 9, transient=start, features=features, keep=MARKS)
    for mark in MARKS:
        mean, covariance = (part[0] for part in curve.snapshots[mark])
        assert distances(found[mark], mean, covariance, np.zeros(2)).max() < MOST
        values = found[mark] @ features.T
        np.testing.assert_allclose(curve.variance[0, mark], values.var(axis=0), rtol=0.05)
        error = ((values - process.values[0]) ** 2).sum(axis=1)
        assert abs(curve.mse()[0, mark] - error.mean()) < MOST * error.std() / np.sqrt(RUNS)


def test_one_round_by_hand() -> None:
    """Two states that follow each other for sure, γ = ½, r = (1, 0), d = (½, ½): one sample, step 1, from zero.

    The sample is A (δ = 1) or B (δ = 0): the estimate is (1, 0) or (0, 0), half each. Mean (½, 0), variance ¼ of A, none of B.
    v = (4/3, 2/3): MSE before 20/9; after, ½ (1/9 + 4/9) + ½ (16/9 + 4/9) = 25/18.
    """
    process = RewardProcess(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0]), 0.5)
    curve = learning_curve(process, 1.0, 1, keep=(1,))
    np.testing.assert_allclose(process.values, [[4 / 3, 2 / 3]])
    np.testing.assert_allclose(curve.mean[0, 1], [0.5, 0], atol=1e-15)
    np.testing.assert_allclose(curve.snapshots[1][1][0], [[0.25, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(curve.mse()[0], [20 / 9, 25 / 18])
    np.testing.assert_allclose(curve.mse(weighted=True)[0], [10 / 9, 25 / 36])
    np.testing.assert_allclose(curve.bias[0, 1] ** 2 + curve.variance[0, 1], curve.squared_errors()[0, 1])


def printed_round(
    process: RewardProcess, samples: int, step: float, mean: np.ndarray, second: np.ndarray, stray: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The boxed equations of Theorem 9, term by term. `stray`: with the γ that one of its lines has too many."""
    P, r, d, gamma = process.transitions[0], process.rewards[0], process.visits[0], process.discount
    c, N = process.variance[0], samples
    Pm, PS, unit = P @ mean, P @ second, np.eye(len(d))
    omega = N * d[None, :] * (np.outer(mean, r) + gamma * PS.T - second)
    omega = omega + N * d[:, None] * (np.outer(r, mean) + gamma * PS - second)
    both = N * (N - 1) * np.outer(d, d)
    own = unit * N * d
    psi = both * np.outer(r, r) + own * (c + r**2)
    psi += gamma * (both * np.outer(r, Pm) + own * r * Pm) - both * np.outer(r, mean) - own * r * mean
    psi += gamma * (both * np.outer(Pm, r) + own * r * Pm)
    psi += gamma**2 * (both * (P @ second @ P.T) + own * (P @ np.diagonal(second)))
    psi -= gamma * (both * PS + own * np.diagonal(PS)) + both * np.outer(mean, r) + own * r * mean
    psi -= gamma * (both * PS.T + own * np.diagonal(PS))
    psi += both * second + (gamma if stray else 1.0) * own * np.diagonal(second)
    return mean + step * N * d * (r + gamma * Pm - mean), second + step * omega + step**2 * psi


@pytest.mark.parametrize(("samples", "noise"), [(1, 0.0), (4, 1.0)])
def test_the_printed_recursion(samples: int, noise: float) -> None:
    """Its final box, with the mean as the theorem states it, equals ours. Its proof's lines do not pass the simulation:
    the boxed mean without N d(s); the second moment with a γ too many; the MSE with d(s) doubled and N d(s) missing in Δ."""
    process, step = one_task(11, noise), 0.3 / samples
    P, r, d, v = process.transitions[0], process.rewards[0], process.visits[0], process.values[0]
    start = np.random.default_rng(11).normal(size=process.num_states)
    curve = learning_curve(process, step, 10, samples, start, keep=(1, 10))
    mean, second = start, np.outer(start, start)
    stray_second, wrong_mean, wrong_mse = second, start, ((start - v) ** 2).sum()
    for _ in range(10):
        delta = r + process.discount * P @ mean - mean
        following = printed_round(process, samples, step, mean, second)
        change = np.diagonal(following[1] - second)
        wrong_mse += (d * (change - 2 * step * v * delta)).sum()
        stray_second = printed_round(process, samples, step, mean, stray_second, stray=True)[1]
        wrong_mean = wrong_mean + step * (r + process.discount * P @ wrong_mean - wrong_mean)
        mean, second = following
    exact_mean, exact_covariance = (part[0] for part in curve.snapshots[10])
    np.testing.assert_allclose(mean, exact_mean, atol=1e-12)
    np.testing.assert_allclose(second - np.outer(mean, mean), exact_covariance, atol=1e-12)

    runs = simulate_rounds(process, 0, step, 10, samples, RUNS, 12, transient=start)[10]
    assert distances(runs, exact_mean, exact_covariance, v).max() < MOST
    assert distances(runs, wrong_mean, exact_covariance, v).max() > 10 * MOST
    assert distances(runs, exact_mean, stray_second - np.outer(mean, mean), v).max() > 10 * MOST
    errors = ((runs - v) ** 2).sum(axis=1)
    assert abs(errors.mean() - wrong_mse) > 10 * MOST * errors.std() / np.sqrt(RUNS)


def test_batches_are_the_single_curves() -> None:
    """Starts × step sizes, all tasks, chains of their own: as one by one."""
    process = random_process(4, own_chains=True)
    rng = np.random.default_rng(4)
    starts = rng.normal(size=(2, 1, process.num_states))
    steps = np.array([0.05, 0.2, 0.4])[:, None]
    both = learning_curve(process, steps, 30, 2, starts)
    assert both.mean.shape == (3, 2, 3, 31, process.num_states)
    for i, j in itertools.product(range(2), range(3)):
        alone = learning_curve(process, float(steps[j, 0]), 30, 2, starts[i, 0])
        np.testing.assert_allclose(both.mean[:, i, j], alone.mean, atol=1e-12)
        np.testing.assert_allclose(both.variance[:, i, j], alone.variance, atol=1e-12)
    np.testing.assert_allclose(
        both.mse(weighted=True), np.einsum("tijrs,ts->tijr", both.squared_errors(), process.visits)
    )


def test_the_response_gives_the_curve_of_any_start() -> None:
    process = random_process(6)
    starts = np.random.default_rng(6).normal(size=(5, process.num_states))
    errors = starts[None] - process.values[:, None]
    for weighted in (False, True):
        answer = response(process, 0.1, 50, 3, weighted)
        expected = learning_curve(process, 0.1, 50, 3, starts).mse(weighted)
        np.testing.assert_allclose(answer.mse(errors), expected, rtol=1e-9)


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("linear", [False, True])
def test_the_stability_limit_separates(samples: int, linear: bool) -> None:
    """Just below it the error settles at the steady state; just above it grows without end."""
    process = one_task(21, 0.5)
    features = np.random.default_rng(2).normal(size=(process.num_states, 2)) if linear else None
    limit = float(stability_limit(process, samples, features)[0])
    below = learning_curve(process, 0.97 * limit, 8000, samples, features=features, keep=(8000,))
    above = learning_curve(process, 1.03 * limit, 8000, samples, features=features)
    steady = steady_state(process, 0.97 * limit, samples, features)[0]
    np.testing.assert_allclose(below.snapshots[8000][1][0], steady, rtol=1e-6, atol=1e-9 * np.abs(steady).max())
    assert above.mse()[0, -1] > 1e3 * above.mse()[0, 0]
    with pytest.raises(UserError, match="no stationary covariance"):
        steady_state(process, 1.1 * limit, samples, features)


def test_the_limit_of_many_states_by_iteration() -> None:
    """Twelve states take the sparse path: the same limit as a search over the growth of long curves brackets."""
    rng = np.random.default_rng(0)
    process = RewardProcess(rng.dirichlet(np.ones(12), size=12), rng.normal(size=12), 0.8)
    limit = float(stability_limit(process, 2)[0])
    start = rng.normal(size=12)
    ends = [learning_curve(process, share * limit, 6000, 2, start).mse()[0, -1] for share in (0.97, 1.03)]
    assert ends[0] < 1e3 < 1e6 < ends[1]


@pytest.mark.parametrize("objective", ["average", "final"])
def test_best_step_sizes(objective: str) -> None:
    """No step size of a fine grid is better than the best constant; the best schedule is better still, and a gradient's zero."""
    process = random_process(8, noise=1.0)

    def score(steps: np.ndarray | float) -> np.ndarray:
        errors = process.expect(learning_curve(process, steps, 40, 2).mse())[..., 1:]
        return errors.mean(axis=-1) if objective == "average" else errors[..., -1]

    best = best_step_size(process, 40, 2, objective=objective)  # type: ignore[arg-type]
    grid = np.geomspace(best.step_size / 20, best.step_size * 20, 2001)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        assert best.mse <= np.nanmin(score(grid)) + 1e-12
    assert best.mse == pytest.approx(float(score(best.step_size)), rel=1e-9)
    assert abs(best.slope) < 1e-8
    schedule = best_schedule(process, 40, 2, objective=objective)  # type: ignore[arg-type]
    assert schedule.mse == pytest.approx(float(score(schedule.step_sizes)), rel=1e-9)
    assert schedule.mse < 0.999 * best.mse
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert score(schedule.step_sizes * rng.uniform(0.97, 1.03, size=40)) >= schedule.mse * (1 - 1e-6)


def test_long_curves_of_many_states_stay_sound() -> None:
    """100 states, 10⁴ rounds: variances stay positive, the covariance stays symmetric, and both settle."""
    rng = np.random.default_rng(1)
    process = RewardProcess(rng.dirichlet(np.ones(100), size=100), rng.normal(size=100), 0.9, variance=0.1)
    curve = learning_curve(process, 0.05, 10_000, 20, keep=(10_000,))
    covariance = curve.snapshots[10_000][1][0]
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert (curve.variance[0, 1:] > 0).all()
    assert np.isfinite(curve.mse()).all()
    assert np.abs(curve.bias[0, -1]).max() < 1e-2 * np.abs(curve.bias[0, 0]).max()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"step_sizes": -0.1}, "not negative"),
        ({"step_sizes": np.ones(3)}, r"\[..., 1\] \(constant\) or \[..., 5\]"),
        ({"rounds": 0}, "at least one round"),
        ({"samples": 0}, "at least one sample"),
        ({"start": np.zeros(9)}, "start must be"),
        ({"covariance": np.eye(9)}, "covariance must be"),
        ({"features": np.zeros((9, 2))}, "a row per state"),
        ({"features": np.ones((4, 2))}, "2 columns have rank 1"),
        ({"keep": (6,)}, "between 1 and 5"),
    ],
)
def test_bad_questions_are_refused(arguments: dict, complaint: str) -> None:
    process = one_task(1, 0.0)
    assert process.num_states == 4
    with pytest.raises(UserError, match=complaint):
        learning_curve(**{"process": process, "step_sizes": 0.1, "rounds": 5, **arguments})
