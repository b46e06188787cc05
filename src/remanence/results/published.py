"""The authors' curves beside ours, and how many of their points lie inside our interval.

The files in `published_curves` were measured from the figure files of the paper's authors (docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
import scipy

from remanence.results.statistics import band, standard_error
from remanence.results.store import Results

DIGITS = 5e-5  # values in the files are rounded to five digits


@dataclass(frozen=True)
class Published:
    """The published curves of one panel, and how to read them."""

    panel: str
    """name of the file"""
    presets: tuple[str, ...]
    """presets that measure the same number in the same unit; the panel belongs to the first"""
    segment_length: int
    """episodes or steps between two switches"""
    window: int = 1
    """episodes or steps per point"""
    smooth: int = 1
    """a point is the mean of this many points up to it; the first ones, which have fewer before them, are left out"""
    skip: int = 0
    """points after each switch that are drawn but not judged: the published mean weights their steps otherwise than ours"""
    tolerance: float = 0.0
    """error of the numbers, where they were traced from a picture"""
    remark: str = ""
    """why the curves cannot be the same as ours"""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """the same for the curve of a single agent"""


@dataclass(frozen=True)
class Overlap:
    """Where a published curve and ours describe the same episodes or steps."""

    windows: np.ndarray
    """[points] the window of our curve in which each point ends"""
    published: np.ndarray
    """[points]"""
    published_error: np.ndarray
    """[points] its standard error; NaN where it is unknown"""
    ours: np.ndarray
    """[seeds, points]"""
    judged: np.ndarray
    """[points] whether both are the same mean"""
    of: int
    """number of points of the whole published curve"""

    @property
    def complete(self) -> bool:
        return len(self.windows) == self.of


@dataclass(frozen=True)
class Agreement:
    """How well one published curve agrees with ours."""

    contender: str
    metric: str
    preset: str
    points: int
    inside: float
    """share of the published points inside our 90 % interval"""
    expected: float
    """the share to expect of two runs of the same program with different seeds"""
    published: float
    """mean over the points"""
    ours: float
    remark: str

    @property
    def verdict(self) -> str:
        return f"published curve inside our interval: {self.inside:.0%} of points"

    @property
    def evidence(self) -> str:
        remark = f"; {self.remark}" if self.remark else ""
        return (
            f"{self.points} points, {self.expected:.0%} expected of two runs of the same program; "
            f"mean {self.published:.4g} published, {self.ours:.4g} here ({self.ours - self.published:+.2g}){remark}"
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict, "evidence": self.evidence}


def overlap(results: Results, published: Published, contender: str, metric: str) -> Overlap | None:
    """The part that both curves have in common; None if there is none.

    Tasks agree up to the end of the shorter curve if segments are as long as the published ones, else only in the first segment.
    """
    curve = _curve(published.panel, contender, metric)
    window = results.description.get("window", 1)
    if results.preset not in published.presets or not len(curve) or published.window % window:
        return None
    matrix = results.matrix(contender, metric) if contender in results.contenders else np.empty((0, 0))
    if not matrix.size:
        return None
    per_point = published.window // window
    segment_length = results.segment_length * window
    same_switches = segment_length == published.segment_length
    last = matrix.shape[1] * window if same_switches else min(segment_length, published.segment_length)
    count = min(last // published.window, len(curve))
    first = min(published.smooth - 1, count)
    points = matrix[:, : count * per_point].reshape(len(matrix), count, per_point).mean(axis=2, dtype=np.float64)
    ours = trailing_mean(points, published.smooth)
    if first == count:
        return None
    since_switch = np.arange(first, count) % (published.segment_length // published.window)
    return Overlap(
        windows=np.arange(first + 1, count + 1) * per_point,
        published=curve["mean"].to_numpy()[first:count],
        published_error=curve["standard_error"].to_numpy()[first:count],
        ours=ours[:, first:],
        judged=since_switch >= published.skip,
        of=len(curve) - published.smooth + 1,
    )


def overlaps(results: Results, published: Published, metrics: Sequence[str]) -> dict[tuple[str, str], Overlap]:
    """(contender, metric) -> what the published curve and ours have in common, for those that have a published curve."""
    pairs = [(name, metric) for name in results.contenders for metric in metrics]
    found = {pair: overlap(results, published, *pair) for pair in pairs}
    return {pair: shared for pair, shared in found.items() if shared is not None}


def agreements(results: Results, published: Published) -> Iterator[Agreement]:
    """One entry per published curve of the contenders that ran."""
    for (contender, metric), shared in overlaps(results, published, results.metrics).items():
        if len(shared.ours) > 1 and shared.judged.any():
            inside, expected = _inside(shared, published.tolerance)
            yield Agreement(
                contender,
                metric,
                results.preset,
                int(shared.judged.sum()),
                inside,
                expected,
                float(shared.published[shared.judged].mean()),
                float(shared.ours[:, shared.judged].mean()),
                published.remarks.get(contender, published.remark),
            )


def trailing_mean(curves: np.ndarray, width: int) -> np.ndarray:
    """[seeds, windows]: the mean of the last `width` windows, of fewer at the beginning."""
    if width == 1 or not curves.size:
        return curves
    sums = np.cumsum(curves, axis=1, dtype=np.float64)
    sums[:, width:] -= sums[:, :-width].copy()
    return sums / np.minimum(np.arange(1, curves.shape[1] + 1), width)


def _inside(shared: Overlap, tolerance: float) -> tuple[float, float]:
    """The share of points inside our interval, and the share to expect if both runs differ by their seeds only.

    The published mean has a standard error too (ours, where it is unknown), so fewer than 90 % are expected.
    """
    sample, mean, error = (
        shared.ours[:, shared.judged],
        shared.published[shared.judged],
        shared.published_error[shared.judged],
    )
    _, low, high = band(sample)
    slack = tolerance + DIGITS * np.abs(mean)
    inside = (mean >= low - slack) & (mean <= high + slack)
    ours = np.array([standard_error(seeds) for seeds in sample.T])
    theirs = np.where(np.isnan(error), ours, error)
    spread = np.hypot(ours, theirs)
    width = np.divide((high - low) / 2 + slack, spread, out=np.full_like(spread, np.inf), where=spread > 0)
    return float(inside.mean()), float(scipy.special.erf(width / np.sqrt(2)).mean())


def _curve(panel: str, contender: str, metric: str) -> pl.DataFrame:
    """The rows of one curve, in order; none if it was not published."""
    return _file(panel).filter((pl.col("agent") == contender) & (pl.col("metric") == metric))


@cache
def _file(panel: str) -> pl.DataFrame:
    """A file's columns: agent, metric, mean, standard_error. Its points follow each other without gaps."""
    with (files("remanence.results") / "published_curves" / f"{panel}.csv.gz").open("rb") as file:
        table = pl.read_csv(file.read())
    name = pl.col("metric").str.replace(r"_trailing\d+$", "")
    return table.with_columns(name, pl.col("standard_error").cast(pl.Float64).fill_null(float("nan")))
