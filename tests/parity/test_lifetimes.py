"""Exact moments of PT-TD over a stream of tasks, against simulations of the same update; the best transient lifetime."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from processes import random_process
from remanence.core.errors import UserError
from remanence.theory import RewardProcess, common_values
from remanence.theory.lifetimes import Order, best_lifetime, stream_moments
from remanence.theory.shares import Shares, consolidated

RUNS = 20_000
MOST = 4.5  # standard errors of the worst entry


def equal_tasks(seed: int, tasks: int) -> RewardProcess:
    return dataclasses.replace(random_process(seed, tasks), probabilities=None)


def simulated(
    process: RewardProcess, step_size: float, length: int, interval: int, shares: Shares, order: Order, tasks: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per run: its last task, V^P at its end, and squared errors at the start of each round of it; two samples per round."""
    rng = np.random.default_rng(1)
    runs = np.arange(RUNS)
    permanent = np.tile(common_values(process), (RUNS, 1))
    transient = np.zeros_like(permanent)
    visits = np.cumsum(process.visits[0])
    chain = np.cumsum(process.transitions[0], axis=1)
    task, errors = np.zeros(RUNS, int), np.zeros((RUNS, length))
    for met in range(tasks):
        task = (
            rng.integers(process.num_tasks, size=RUNS) if order == "random" else np.full(RUNS, met % process.num_tasks)
        )
        for step in range(length):
            values = permanent + transient
            errors[:, step] = ((values - process.values[task]) ** 2).sum(axis=1)
            for _ in range(2):
                state = np.searchsorted(visits, rng.random(RUNS)).clip(max=process.num_states - 1)
                following = (chain[state] < rng.random(RUNS)[:, None]).sum(axis=1).clip(max=process.num_states - 1)
                reward = process.rewards[task, state] + np.sqrt(process.variance[task, state]) * rng.normal(size=RUNS)
                transient[runs, state] += step_size * (
                    reward + process.discount * values[runs, following] - values[runs, state]
                )
            if (step + 1) % interval == 0:
                permanent, transient = consolidated(permanent, transient, shares)
    return task, permanent, errors


@pytest.mark.parametrize(("order", "tasks"), [("random", 3), ("cyclic", 4)])
def test_the_moments_are_those_of_simulated_lives(order: Order, tasks: int) -> None:
    process = equal_tasks(3, 2)
    length, interval, step_size, lifetimes = 6, 3, 0.2, (5.0, 12.0)
    exact = stream_moments(process, step_size, length, interval, *lifetimes, samples=2, order=order, tasks=tasks)
    shares = Shares.of_lifetimes(interval, *lifetimes)
    task, permanent, errors = simulated(process, step_size, length, interval, shares, order, tasks)
    for number in set(task.tolist()):
        lives = task == number
        for found, wanted in (
            (errors[lives], exact.mse[number]),
            (permanent[lives], exact.permanent[number]),
            ((permanent[lives] - exact.permanent[number]) ** 2, np.diagonal(exact.spread[number])),
        ):
            error = found.std(axis=0) / np.sqrt(lives.sum())
            assert (np.abs(found.mean(axis=0) - wanted) <= MOST * error + 1e-12).all()


def test_the_permanent_part_converges_to_the_mean_task_though_no_task_is_learned() -> None:
    """Theorem 5 without its assumption that each task is learned to convergence, if tasks share transitions."""
    process = equal_tasks(4, 3)
    far = common_values(process) + 5.0
    met = stream_moments(process, 0.4, 4, 2, 3.0, 10.0, tasks=2000, start=far)
    np.testing.assert_allclose(process.expect(met.permanent), common_values(process), atol=1e-6)
    cycle = stream_moments(process, 0.4, 4, 2, 3.0, 10.0, order="cyclic", tasks=2000, start=far)
    np.testing.assert_allclose(cycle.permanent.mean(axis=0), common_values(process), atol=1e-6)
    assert np.abs(cycle.permanent - common_values(process)).max() > 1e-3  # each task's end still leans towards it


def test_the_spread_of_the_permanent_part_where_tasks_are_learned() -> None:
    """a' / (2 − a') Cov(v) with a' = 1 − (1 − a)^n after n consolidations per task, for the mean path."""
    process = equal_tasks(5, 4)
    many = 10**9  # samples per round: no noise
    length, interval, permanent_lifetime = 4000, 2000, 9000.0
    met = stream_moments(process, 0.2 / many, length, interval, 500.0, permanent_lifetime, samples=many, tasks=60)
    share = 1 - np.exp(-length / permanent_lifetime)
    away = process.values - common_values(process)
    task_spread = process.expect(away[:, :, None] * away[:, None, :])
    mean = process.expect(met.permanent)
    apart = met.permanent - mean
    spread = process.expect(met.spread + apart[:, :, None] * apart[:, None, :])
    np.testing.assert_allclose(spread, share / (2 - share) * task_spread, rtol=2e-3, atol=1e-6)


def test_with_nothing_forgotten_neither_interval_nor_split_matter() -> None:
    process = equal_tasks(6, 2)
    plain = stream_moments(process, 0.2, 12, 12, np.inf)
    for interval, tau in ((1, 3.0), (4, 30.0)):
        kept = np.exp(-interval / tau)
        split = stream_moments(process, 0.2, 12, interval, tau, -interval / np.log(kept))
        np.testing.assert_allclose(split.mse, plain.mse, rtol=1e-10)
    other = stream_moments(process, 0.2, 12, 4, 30.0)
    assert np.abs(other.mse - plain.mse).max() > 1e-3


def test_rare_consolidations_approach_continuous_forgetting() -> None:
    """Against k = 1, halving k halves the difference in the error at the start of rounds, at least."""
    process = equal_tasks(7, 2)
    length, tau = 64, 40.0
    errors = {k: stream_moments(process, 0.2, length, k, tau, 200.0).mse.mean() for k in (1, 2, 4, 8, 16)}
    gaps = np.array([abs(errors[k] - errors[1]) for k in (16, 8, 4, 2)])
    assert (gaps[1:] < 0.6 * gaps[:-1]).all()
    assert gaps[0] < 0.1 * errors[1]


def test_the_best_lifetime_is_a_minimum() -> None:
    process = equal_tasks(8, 3)
    best = best_lifetime(process, 60, tasks=10)
    assert best.slope < 1e-5

    def mse(tau: float, step_size: float) -> float:
        return float(process.expect(stream_moments(process, step_size, 60, 1, tau, tasks=10).mse.mean(axis=1)))

    assert mse(best.lifetime, best.step_size) == pytest.approx(best.mse, rel=1e-9)
    for factor in (0.8, 1.25):
        assert mse(factor * best.lifetime, best.step_size) > best.mse
        assert mse(best.lifetime, factor * best.step_size) > best.mse


def test_streams_that_cannot_be() -> None:
    process = equal_tasks(9, 2)
    for arguments, says in (
        ({"length": 5, "interval": 2}, "a number of intervals"),
        ({"length": 4, "interval": 2, "order": "sorted"}, "'random' or 'cyclic'"),
        ({"length": 4, "interval": 2, "tasks": 0}, "at least one task"),
    ):
        with pytest.raises(UserError, match=says):
            stream_moments(process, 0.1, transient_lifetime=3.0, **arguments)  # type: ignore[arg-type]
