"""Statistics on hand-worked numbers and against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from remanence.core.errors import UserError
from remanence.results.statistics import (
    _middle,
    band,
    bootstrap_interval,
    holm,
    interquartile_mean,
    mean_where,
    normal_interval,
    paired_difference,
    probability_of_improvement,
    relative_difference,
    share_below,
    standard_error,
    stratified_interval,
    student_interval,
    student_margin,
    student_p,
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


@pytest.mark.parametrize(("seeds", "t"), [(2, 6.314), (3, 2.920), (5, 2.132), (6, 2.015), (10, 1.833), (30, 1.699)])
def test_student_interval_against_the_printed_table(seeds: int, t: float) -> None:
    """Values 0, 1, 0, 1, …: the half width over the standard error is the quantile that tables print for n − 1 degrees."""
    sample = np.arange(seeds) % 2.0
    low, high = student_interval(sample)[1:]
    assert (high - low) / 2 / standard_error(sample) == pytest.approx(t, abs=5e-4)
    assert student_margin(sample[:, None])[0] == pytest.approx((high - low) / 2)


def test_student_interval_and_p_agree_with_scipy() -> None:
    sample = np.random.default_rng(6).normal(0.5, size=7)
    low, high = stats.t.interval(0.9, len(sample) - 1, loc=sample.mean(), scale=stats.sem(sample))
    assert student_interval(sample) == pytest.approx((sample.mean(), low, high))
    assert student_p(sample, 0.2) == pytest.approx(stats.ttest_1samp(sample, 0.2)[1])
    assert student_p(sample, low) == pytest.approx(0.1)
    assert (student_p(np.ones(5)), student_p(np.zeros(5))) == (0.0, 1.0)
    one = student_interval(np.array([2.0]))
    assert one.mean == 2.0
    assert np.isnan(one.low)
    assert np.isnan(student_p(np.array([2.0])))


def test_intervals_and_bands_stay_within_what_is_possible() -> None:
    """Two seeds, 0 and 1: mean ½, margin 6.314 · ½."""
    assert student_interval(np.array([0.0, 1.0]), bounds=(0.0, np.inf)) == pytest.approx((0.5, 0.0, 3.657), abs=1e-3)
    mean, low, high = band(np.array([[0.0, 5.0], [1.0, 5.0]]), bounds=(0.0, 2.0))
    assert (mean.tolist(), low.tolist(), high.tolist()) == ([0.5, 5.0], [0.0, 5.0], [2.0, 2.0])
    mean, low, high = band(np.array([[1.0, 2.0]]))
    assert mean.tolist() == low.tolist() == high.tolist() == [1.0, 2.0]


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never below the one before."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_effect_sizes_by_hand() -> None:
    left, right = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 2.0, 6.0])
    assert relative_difference(left, right) == pytest.approx((2.5 - 3) / 3)
    assert relative_difference(left, -right) == pytest.approx((2.5 + 3) / 3)
    assert relative_difference(left, np.zeros(4)) is None
    assert share_below(left, right) == (1 + 0.5 + 0 + 1) / 4


def test_mean_where_leaves_a_seed_without_events_open() -> None:
    values, mask = (
        np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]]),
        np.array([[True, True], [False, True], [False, False]]),
    )
    np.testing.assert_array_equal(mean_where(values, mask), [1.5, 5.0, np.nan])
    assert mean_where(values[:0], mask[:0]).shape == (0,)  # every seed diverged


HOLED = np.array([[1.0], [np.nan], [2.0]])


@pytest.mark.parametrize(
    "statistic",
    [
        lambda: standard_error(HOLED),
        lambda: normal_interval(HOLED),
        lambda: student_interval(HOLED[:, 0]),
        lambda: student_margin(HOLED),
        lambda: student_p(HOLED[:, 0]),
        lambda: band(HOLED),
        lambda: bootstrap_interval(HOLED[:, 0]),
        lambda: paired_difference(HOLED[:, 0], np.ones(3)),
        lambda: relative_difference(np.ones(3), HOLED[:, 0]),
        lambda: share_below(np.ones(3), HOLED[:, 0]),
        lambda: mean_where(HOLED, np.ones((3, 1), bool)),
        lambda: interquartile_mean(HOLED),
        lambda: stratified_interval(HOLED),
        lambda: probability_of_improvement(HOLED, np.ones((3, 1))),
        lambda: probability_of_improvement(np.ones((3, 1)), HOLED),
        lambda: holm([0.1, float("nan"), 0.2]),
    ],
)
def test_a_missing_value_is_refused_with_a_sentence(statistic) -> None:
    with pytest.raises(UserError, match="has 1 of 3 values that are NaN or infinite"):
        statistic()


def test_nothing_is_refused_too() -> None:
    with pytest.raises(UserError, match="has no values"):
        student_interval(np.empty(0))


def test_bootstrap_agrees_with_scipy_and_repeats_itself() -> None:
    sample = np.random.default_rng(1).exponential(size=40)
    ours = bootstrap_interval(sample, level=0.9)
    options: dict[str, Any] = {
        "method": "percentile",
        "random_state": 2,
        "n_resamples": 10_000,
    }  # `rng` since scipy 1.15
    theirs = stats.bootstrap((sample,), np.mean, confidence_level=0.9, **options)
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


def test_as_much_is_left_out_below_as_above() -> None:
    """Of the numbers from 0 to 100, 90 % are from 5 to 95."""
    assert _middle(range(101), 0.9) == pytest.approx((5.0, 95.0))
    assert _middle([3.0, 1.0, 2.0], 0.0) == (2.0, 2.0)


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
