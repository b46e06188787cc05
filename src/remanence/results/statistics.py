"""Intervals, tests and effect sizes over seeds.

Every function refuses samples that are empty or hold NaN or infinite values: a missing value is left out by whoever knows why it is
missing, never here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from remanence.core.errors import UserError

LEVEL = 0.9  # of every interval, band and verdict
PAPER_Z = 1.645  # the paper's 90 % interval
Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-math.inf, math.inf)


class Estimate(NamedTuple):
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float


def finite(values: np.ndarray, what: str = "the sample") -> np.ndarray:
    """The values as float64; a `UserError` if there are none, or if some are NaN or infinite."""
    numbers = np.asarray(values, np.float64)
    missing = int(numbers.size - np.isfinite(numbers).sum())
    if not numbers.size:
        raise UserError(f"{what} has no values")
    if missing:
        raise UserError(f"{what} has {missing} of {numbers.size} values that are NaN or infinite: leave them out first")
    return numbers


def standard_error(sample: np.ndarray) -> float:
    """σ/√n with the unbiased σ; not a number for fewer than two values."""
    sample = finite(sample)
    return float(np.std(sample, ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def normal_interval(sample: np.ndarray, z: float = PAPER_Z) -> Estimate:
    """The paper's interval, μ ± z σ/√n (§5, footnote). It is too narrow for few seeds: nothing here is judged by it."""
    mean, margin = float(np.mean(finite(sample))), z * standard_error(sample)
    return Estimate(mean, mean - margin, mean + margin)


def student_margin(samples: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """[seeds, ...] -> [...]: half the width of Student's interval of the mean, t σ/√n; not a number for one seed."""
    samples = finite(samples)
    seeds = len(samples)
    if seeds < 2:
        return np.full(samples.shape[1:], np.nan)
    return scipy.special.stdtrit(seeds - 1, (1 + level) / 2) * samples.std(axis=0, ddof=1) / math.sqrt(seeds)


def student_interval(sample: np.ndarray, level: float = LEVEL, bounds: Bounds = UNBOUNDED) -> Estimate:
    """μ ± t σ/√n, where t is the quantile of Student's distribution with n − 1 degrees of freedom: it holds for any n.

    `bounds`: what the mean can be; the interval does not leave them.
    """
    mean, margin = float(np.mean(finite(sample))), float(student_margin(sample, level))
    if math.isnan(margin):
        return Estimate(mean, margin, margin)
    return Estimate(mean, max(mean - margin, bounds[0]), min(mean + margin, bounds[1]))


def band(samples: np.ndarray, bounds: Bounds = UNBOUNDED) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[seeds, ...] -> each [...]: mean, low and high of Student's 90 % interval, for figures. With one seed it has no width."""
    mean, margin = finite(samples).mean(axis=0), np.nan_to_num(student_margin(samples))
    return mean, np.maximum(mean - margin, bounds[0]), np.minimum(mean + margin, bounds[1])


def student_p(sample: np.ndarray, value: float = 0.0) -> float:
    """Two-sided p-value of Student's test that the mean is `value`; not a number for one seed.

    It is at most 1 − level exactly if `value` is outside of the (unclipped) interval.
    """
    distance, error = abs(float(np.mean(finite(sample))) - value), standard_error(sample)
    if math.isnan(error):
        return error
    if error == 0.0:
        return 1.0 if distance == 0.0 else 0.0
    return float(2 * scipy.special.stdtr(len(sample) - 1, -distance / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: if all those up to α are decided, the chance of any false decision is at most α."""
    order = np.argsort(finite(np.array(p_values)), kind="stable") if len(p_values) else []
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def bootstrap_interval(sample: np.ndarray, level: float = LEVEL, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Percentile bootstrap of the mean over seeds. The same sample always gives the same interval."""
    sample = finite(sample)
    if len(sample) < 2:
        return Estimate(float(np.mean(sample)), float("nan"), float("nan"))
    draws = np.random.default_rng(seed).integers(len(sample), size=(resamples, len(sample)))
    means = sample[draws].mean(axis=1)
    return Estimate(float(np.mean(sample)), *_middle(means, level))


def paired_difference(left: np.ndarray, right: np.ndarray, level: float = LEVEL) -> Estimate:
    """Mean of left − right, seed by seed, with Student's interval.

    Where contenders share random numbers, this is narrower than comparing two intervals.
    """
    return student_interval(finite(left) - finite(right), level)


def relative_difference(left: np.ndarray, right: np.ndarray) -> float | None:
    """(mean of left − mean of right) / |mean of right|; None if that is a division by zero."""
    reference = float(np.mean(finite(right)))
    return (float(np.mean(finite(left))) - reference) / abs(reference) if reference else None


def share_below(left: np.ndarray, right: np.ndarray) -> float:
    """The share of seeds in which left is below right, paired; ties count half."""
    difference = finite(left) - finite(right)
    return float(np.mean((difference < 0) + 0.5 * (difference == 0)))


def mean_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[seeds, events] -> [seeds]: the mean over the events of the mask; NaN for a seed that has none."""
    if not len(values):
        return np.empty(0)
    count, total = mask.sum(axis=1), np.where(mask, finite(values), 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def interquartile_mean(scores: np.ndarray) -> float:
    """Mean of the middle half: a quarter of the values (rounded down) is dropped at each end."""
    ordered = np.sort(finite(scores, "the scores"), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def stratified_interval(
    scores: np.ndarray,
    statistic: Callable[[np.ndarray], float] = interquartile_mean,
    level: float = LEVEL,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Percentile bootstrap of a statistic over several tasks or games: runs are resampled within each.

    Args: scores: [runs, tasks].
    """
    runs, tasks = finite(scores, "the scores").shape
    rng = np.random.default_rng(seed)
    columns = np.arange(tasks)
    drawn = [statistic(scores[rng.integers(runs, size=(runs, tasks)), columns]) for _ in range(resamples)]
    return Estimate(statistic(scores), *_middle(drawn, level))


def probability_of_improvement(
    left: np.ndarray, right: np.ndarray, level: float = LEVEL, resamples: int = 2_000, seed: int = 0
) -> Estimate:
    """How likely a run of `left` is to score higher than a run of `right`, averaged over tasks; ties count half.

    Args: left: [runs, tasks].  right: [other runs, tasks].
    """
    left, right = finite(left, "the left scores"), finite(right, "the right scores")
    rng = np.random.default_rng(seed)
    columns = np.arange(left.shape[1])

    def resampled(scores: np.ndarray) -> np.ndarray:
        return scores[rng.integers(len(scores), size=scores.shape), columns]

    drawn = [_share_above(resampled(left), resampled(right)) for _ in range(resamples)]
    return Estimate(_share_above(left, right), *_middle(drawn, level))


def _middle(drawn: Sequence[float] | np.ndarray, level: float) -> tuple[float, float]:
    """The interval with this share of the values, as many left out below as above."""
    tail = 50 * (1 - level)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return float(low), float(high)


def _share_above(left: np.ndarray, right: np.ndarray) -> float:
    difference = left[:, None, :] - right[None, :, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())
