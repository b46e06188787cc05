"""Intervals over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PAPER_Z = 1.645  # the paper's 90 % interval


class Estimate(NamedTuple):
    """A mean and where it may be; both ends equal the mean's own neighbours only by luck of the sample."""

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
