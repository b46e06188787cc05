"""Whether performance over the plane of k and λ follows one curve in the transient lifetime τ. Not in the paper.

A cubic polynomial in ln τ is fitted to the cells' means. `explained` is the share of the variance between cells that it explains;
the same for ln k and for λ. `held_out` fits without one k at a time and predicts its cells. Intervals: percentile bootstrap over
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from remanence.results.statistics import LEVEL, Estimate, finite

DEGREE = 3
RESAMPLES = 1000


class Cell(NamedTuple):
    """A place in the plane."""

    k: float
    """time between two consolidations"""
    decay: float
    """λ"""
    lifetime: float
    """what stands for the cell on the horizontal axis: τ, or the mean lifetime"""


@dataclass(frozen=True)
class Collapse:
    """How well one curve describes all cells."""

    by_lifetime: Estimate
    by_decay: Estimate
    by_interval: Estimate
    ceiling: float
    """what a perfect description would explain: the rest is noise of the cells' means over seeds"""
    held_out: Estimate
    """the share of variance explained in cells of a k that was left out of the fit"""
    best: Estimate
    """the lifetime at the top of the curve, or at its bottom where lower is better"""
    curve: np.ndarray
    """[degree + 1] coefficients of the polynomial in ln τ, the highest power first"""

    def at(self, lifetimes: np.ndarray) -> np.ndarray:
        return np.polyval(self.curve, np.log(lifetimes))


def collapse(cells: Sequence[Cell], samples: np.ndarray, lower: bool, seed: int = 0) -> Collapse:
    """Args: samples: [cells, seeds] the mean performance of each seed.  lower: whether lower is better."""
    samples = finite(samples)
    place = np.array(cells, np.float64)
    log_k, decay, log_tau = np.log(place[:, 0]), place[:, 1], np.log(place[:, 2])
    seeds, mean = samples.shape[1], samples.mean(axis=1)
    apart = samples - samples.mean(axis=0)  # seeds are shared: what they do to all cells is no difference between cells
    noise = apart.var(axis=1, ddof=1).mean() / seeds if seeds > 1 else np.nan
    drawn = np.random.default_rng(seed).integers(seeds, size=(RESAMPLES, seeds))
    resampled = np.column_stack([mean, samples[:, drawn].mean(axis=2)])  # [cells, 1 + resamples]

    def estimate(of_all: np.ndarray) -> Estimate:
        """A statistic of the cells' means, with its interval over resampled seeds."""
        tail = 50 * (1 - LEVEL)
        low, high = np.percentile(of_all[1:], [tail, 100 - tail])
        return Estimate(float(of_all[0]), float(low), float(high))

    return Collapse(
        by_lifetime=estimate(explained(log_tau, resampled)),
        by_decay=estimate(explained(decay, resampled)),
        by_interval=estimate(explained(log_k, resampled)),
        ceiling=float(1 - noise / mean.var()),
        held_out=estimate(predicted(log_tau, resampled, place[:, 0])),
        best=estimate(np.exp(_tops(log_tau, resampled, lower))),
        curve=_fit(log_tau, mean),
    )


def between(groups: np.ndarray, y: np.ndarray) -> float:
    """The share of the variance of y that lies between groups: 1 if all members of a group are alike."""
    levels, place = np.unique(groups, return_inverse=True)
    means = np.array([y[place == level].mean() for level in range(len(levels))])
    return max(0.0, float(_r_squared(y, means[place])))  # never negative but by rounding


def explained(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[...] R² of the least-squares polynomial in x [cells] of y [cells, ...]; of a lower degree where x has few values."""
    return _r_squared(y, _values(_fit(x, y), x))


def predicted(x: np.ndarray, y: np.ndarray, group: np.ndarray) -> np.ndarray:
    """[...] R² of predictions for each group by the curve of the others, where it need not be extrapolated."""
    guesses = np.full_like(y, np.nan)
    for one in np.unique(group):
        left_out, fitted = group == one, group != one
        inside = left_out & (x >= x[fitted].min()) & (x <= x[fitted].max())
        guesses[inside] = _values(_fit(x[fitted], y[fitted]), x[inside])
    there = np.isfinite(guesses).all(axis=tuple(range(1, y.ndim)))
    return _r_squared(y[there], guesses[there])


def _fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[degree + 1, ...] coefficients, the highest power first."""
    return np.polyfit(x, y, min(DEGREE, len(np.unique(x)) - 1))


def _values(curve: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[x, ...] of polynomials [degree + 1, ...]."""
    return np.tensordot(np.vander(x, len(curve)), curve, axes=1)


def _r_squared(y: np.ndarray, guess: np.ndarray) -> np.ndarray:
    return 1 - ((y - guess) ** 2).sum(axis=0) / ((y - y.mean(axis=0)) ** 2).sum(axis=0)


def _tops(x: np.ndarray, y: np.ndarray, lower: bool) -> np.ndarray:
    """[...] where the curve of y [cells, ...] is best, within what x covers."""
    grid = np.linspace(x.min(), x.max(), 401)
    curves = _values(_fit(x, y), grid)
    return grid[curves.argmin(axis=0) if lower else curves.argmax(axis=0)]
