"""Common parts of all benchmarks: timing, and a report for the terminal or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One measured number."""

    label: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True)
class LifeRate:
    """The speed of whole lives of an agent with one learner, or in another library."""

    world: str
    preset: str
    agent: str
    learner: str
    lanes: int
    lane_steps_per_second: float
    """of all lanes together"""
    cpu_us_per_lane_step: float
    """processor time of all cores together"""


@dataclass(frozen=True)
class Report:
    """The measurements of one benchmark, of one run on one machine."""

    name: str
    rows: list[Row]
    remark: str = ""
    """what a reader must know to judge the numbers"""
    lives: list[LifeRate] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def render(report: Report) -> Table:
    """The report as a table for the terminal."""
    table = Table(title=f"benchmark: {report.name}", caption=report.remark or None)
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("note", style="dim")
    for row in report.rows:
        table.add_row(row.label, readable(row.value), row.unit, row.note)
    return table


def readable(value: float) -> str:
    """Three digits, with a suffix for thousands and millions."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Lap(NamedTuple):
    """One timed piece of work of a contestant."""

    steps: int
    scores: np.ndarray  # [lanes] how well each lane learned; of the setting that all contestants share


class Timed(NamedTuple):
    """A lap and its time."""

    lap: Lap
    seconds: float  # wall clock
    core_seconds: float  # processor time of all cores together; hardly affected by other programs


class Result(NamedTuple):
    """The speed of a contestant, and its scores."""

    rate: float  # steps per second, in its fastest lap
    rate_per_core: float  # steps per second of processor time, in the lap with the highest rate
    seconds: float  # of the fastest lap
    scores: np.ndarray  # [lanes] of all laps with their own seeds


def timed(function: Callable[[], Lap]) -> Timed:
    """Runs one lap."""
    start, core_start = time.perf_counter(), time.process_time()
    lap = function()
    return Timed(lap, time.perf_counter() - start, time.process_time() - core_start)


def race(contestants: Mapping[str, Callable[[], Lap]], rounds: int) -> dict[str, Result]:
    """Runs the contestants in turn, `rounds` times, and keeps the fastest lap of each.

    Other programs slow a machine down for seconds at a time. Taking turns spreads that over all contestants, and the
    fastest lap is the least disturbed one, so ratios vary less than if each is measured separately.
    """
    laps: dict[str, list[Timed]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, function in contestants.items():
            laps[name].append(timed(function))
    return {name: _best(laps_of_one) for name, laps_of_one in laps.items()}


def _best(laps: list[Timed]) -> Result:
    fastest = max(laps, key=lambda one: one.lap.steps / one.seconds)
    distinct = {
        one.lap.scores.tobytes(): one.lap.scores for one in laps
    }  # laps with the same random numbers count once
    return Result(
        rate=fastest.lap.steps / fastest.seconds,
        rate_per_core=max(one.lap.steps / one.core_seconds for one in laps),
        seconds=fastest.seconds,
        scores=np.concatenate(list(distinct.values())),
    )


def spread(scores: np.ndarray) -> str:
    """The standard error of the mean of these scores, as text."""
    if len(scores) < 2:
        return f"{len(scores)} lane"
    return f"standard error {np.std(scores, ddof=1) / np.sqrt(len(scores)):.4f}, {len(scores)} lanes"


def memory_row(note: str = "") -> list[Row]:
    """The peak memory of this process as one row; no row if the system does not report it."""
    peak = peak_memory()
    return [] if peak is None else [Row("memory, peak of the process", peak / 2**20, "MiB", note)]


def peak_memory() -> float | None:
    """The peak memory of this process in bytes; None if the system does not report it (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
