"""Intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

PAPER_Z = 1.645  # the paper's 90 % interval


class Estimate(NamedTuple):
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float


def standard_error(sample: np.ndarray) -> float:
    """σ/√n with the unbiased σ; not a number for fewer than two values."""
    return float(np.std(sample, ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def normal_interval(sample: np.ndarray, z: float = PAPER_Z) -> Estimate:
    """The paper's interval, μ ± z σ/√n (§5, footnote)."""
    mean, margin = float(np.mean(sample)), z * standard_error(sample)
    return Estimate(mean, mean - margin, mean + margin)


def bootstrap_interval(sample: np.ndarray, level: float = 0.9, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Percentile bootstrap of the mean over seeds. The same sample always gives the same interval."""
    if len(sample) < 2:
        return Estimate(float(np.mean(sample)), float("nan"), float("nan"))
    draws = np.random.default_rng(seed).integers(len(sample), size=(resamples, len(sample)))
    means = np.asarray(sample, np.float64)[draws].mean(axis=1)
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail])
    return Estimate(float(np.mean(sample)), float(low), float(high))


def paired_difference(left: np.ndarray, right: np.ndarray, z: float = PAPER_Z) -> Estimate:
    """Mean of left − right, seed by seed. Where contenders share random numbers, this is narrower than comparing two intervals."""
    return normal_interval(np.asarray(left, np.float64) - np.asarray(right, np.float64), z)


def interquartile_mean(scores: np.ndarray) -> float:
    """Mean of the middle half: a quarter of the values (rounded down) is dropped at each end."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def stratified_interval(
    scores: np.ndarray,
    statistic: Callable[[np.ndarray], float] = interquartile_mean,
    level: float = 0.9,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Percentile bootstrap of a statistic over several tasks or games: runs are resampled within each.

    Args: scores: [runs, tasks].
    """
    runs, tasks = scores.shape
    rng = np.random.default_rng(seed)
    columns = np.arange(tasks)
    drawn = [statistic(scores[rng.integers(runs, size=(runs, tasks)), columns]) for _ in range(resamples)]
    tail = 50 * (1 - level)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(statistic(scores), float(low), float(high))


def probability_of_improvement(
    left: np.ndarray, right: np.ndarray, level: float = 0.9, resamples: int = 2_000, seed: int = 0
) -> Estimate:
    """How likely a run of `left` is to score higher than a run of `right`, averaged over tasks; ties count half.

    Args: left: [runs, tasks].  right: [other runs, tasks].
    """
    rng = np.random.default_rng(seed)
    columns = np.arange(left.shape[1])

    def resampled(scores: np.ndarray) -> np.ndarray:
        return scores[rng.integers(len(scores), size=scores.shape), columns]

    drawn = [_share_above(resampled(left), resampled(right)) for _ in range(resamples)]
    tail = 50 * (1 - level)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(_share_above(left, right), float(low), float(high))


def _share_above(left: np.ndarray, right: np.ndarray) -> float:
    difference = left[:, None, :] - right[None, :, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())
