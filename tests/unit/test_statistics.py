"""Statistics on hand-worked numbers and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from remanence.results.statistics import (
    bootstrap_interval,
    interquartile_mean,
    normal_interval,
    paired_difference,
    probability_of_improvement,
    standard_error,
    stratified_interval,
)


def test_standard_error_and_normal_interval_agree_with_scipy() -> None:
    sample = np.random.default_rng(0).normal(size=17)
    assert standard_error(sample) == pytest.approx(stats.sem(sample))
    low, high = stats.norm.interval(0.9, loc=sample.mean(), scale=stats.sem(sample))
    estimate = normal_interval(sample)
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_normal_interval_by_hand() -> None:
    """1, 3: mean 2, σ = √2, σ/√n = 1."""
    assert normal_interval(np.array([1.0, 3.0])) == pytest.approx((2.0, 2 - 1.645, 2 + 1.645))
    assert np.isnan(normal_interval(np.array([1.0])).low)


def test_bootstrap_agrees_with_scipy_and_repeats_itself() -> None:
    sample = np.random.default_rng(1).exponential(size=40)
    ours = bootstrap_interval(sample, level=0.9)
    theirs = stats.bootstrap((sample,), np.mean, confidence_level=0.9, method="percentile", rng=2, n_resamples=10_000)
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.02)
    assert bootstrap_interval(sample) == ours


def test_interquartile_mean_by_hand_and_against_scipy() -> None:
    assert (
        interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -90.0])) == 3.5
    )  # −90, 1 and 6, 100 are cut
    assert interquartile_mean(np.array([1.0, 2.0, 30.0])) == 11.0  # nothing to cut
    scores = np.random.default_rng(2).standard_t(2, size=(10, 3))
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores.ravel(), 0.25))


def test_stratified_bootstrap_draws_within_tasks() -> None:
    """Tasks of very different levels: drawing across them would make the mean vary, drawing within them cannot."""
    scores = np.array([[0.0, 100.0], [0.0, 100.0], [0.0, 100.0]])
    assert stratified_interval(scores, statistic=lambda s: float(s.mean())) == (50.0, 50.0, 50.0)
    noisy = np.random.default_rng(3).normal(size=(30, 1))
    ours = stratified_interval(noisy, statistic=lambda s: float(s.mean()), resamples=5_000)
    plain = bootstrap_interval(noisy[:, 0])
    assert ours.low == pytest.approx(plain.low, abs=0.03)
    assert ours.high == pytest.approx(plain.high, abs=0.03)


def test_probability_of_improvement_by_hand_and_against_scipy() -> None:
    left, right = np.array([[1.0], [2.0]]), np.array([[1.0], [0.0]])
    assert probability_of_improvement(left, right).mean == (0.5 + 1 + 1 + 1) / 4
    rng = np.random.default_rng(4)
    left, right = rng.normal(0.3, size=(20, 1)), rng.normal(size=(25, 1))
    u = stats.mannwhitneyu(left[:, 0], right[:, 0]).statistic / (20 * 25)
    estimate = probability_of_improvement(left, right)
    assert estimate.mean == pytest.approx(u)
    assert estimate.low < u < estimate.high
    assert probability_of_improvement(left, left - 100).low == 1.0


def test_paired_difference_is_sharper_than_two_intervals() -> None:
    rng = np.random.default_rng(5)
    luck = rng.normal(size=30)
    left, right = luck + 0.1 + 0.01 * rng.normal(size=30), luck
    paired = paired_difference(left, right)
    assert paired.low > 0.09
    assert normal_interval(left).low < normal_interval(right).high  # unpaired intervals overlap
    t, p = stats.ttest_rel(left, right)
    assert paired.mean / standard_error(left - right) == pytest.approx(t)
    assert p < 1e-6
