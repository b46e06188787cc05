"""What every benchmark needs: fair timing, and a small report that reads well and loads as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
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
class Report:
    """What one benchmark found in one run on one machine."""

    name: str
    rows: list[Row]
    remark: str = ""
    """what a reader must know to judge the numbers"""

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
        table.add_row(row.label, humane(row.value), row.unit, row.note)
    return table


def humane(value: float) -> str:
    """Three digits, and a letter for thousands and millions."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Lap(NamedTuple):
    """What a contestant did in one go."""

    steps: int
    scores: np.ndarray  # [lanes] how well each lane of the setting that all contestants share has learned


class Timed(NamedTuple):
    """A lap and what it took."""

    lap: Lap
    seconds: float  # on the wall
    core_seconds: float  # of all cores together; other programs hardly count here


class Result(NamedTuple):
    """How fast a contestant is, and what it learned."""

    rate: float  # steps per second, in its fastest lap
    rate_per_core: float  # steps per second of processor time, in its thriftiest lap
    seconds: float  # of the fastest lap
    scores: np.ndarray  # [lanes] of all laps with their own seeds


def timed(function: Callable[[], Lap]) -> Timed:
    """Runs one lap."""
    start, core_start = time.perf_counter(), time.process_time()
    lap = function()
    return Timed(lap, time.perf_counter() - start, time.process_time() - core_start)


def race(contestants: Mapping[str, Callable[[], Lap]], rounds: int) -> dict[str, Result]:
    """Lets the contestants run in turn, `rounds` times, and keeps the fastest lap of each.

    Other programs slow a machine down for seconds at a time. Taking turns spreads that over all contestants, and the
    fastest lap is the one least disturbed, so ratios are steadier than when each is measured for itself.
    """
    laps: dict[str, list[Timed]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, function in contestants.items():
            laps[name].append(timed(function))
    return {name: _best(laps_of_one) for name, laps_of_one in laps.items()}


def _best(laps: list[Timed]) -> Result:
    fastest = max(laps, key=lambda one: one.lap.steps / one.seconds)
    distinct = {one.lap.scores.tobytes(): one.lap.scores for one in laps}  # a repeated lap is no new evidence
    return Result(
        rate=fastest.lap.steps / fastest.seconds,
        rate_per_core=max(one.lap.steps / one.core_seconds for one in laps),
        seconds=fastest.seconds,
        scores=np.concatenate(list(distinct.values())),
    )


def spread(scores: np.ndarray) -> str:
    """How sure the mean of these scores is, in words."""
    if len(scores) < 2:
        return f"{len(scores)} lane"
    return f"standard error {np.std(scores, ddof=1) / np.sqrt(len(scores)):.4f}, {len(scores)} lanes"


def memory_row(note: str = "") -> list[Row]:
    """The peak of this process as one row; none where the system does not say."""
    peak = peak_memory()
    return [] if peak is None else [Row("memory, peak of the process", peak / 2**20, "MiB", note)]


def peak_memory() -> float | None:
    """The most memory this process ever held, in bytes; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
