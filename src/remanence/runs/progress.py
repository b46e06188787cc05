"""Shows the progress of a run: a bar on a terminal, otherwise a line every few seconds. Always on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


class Advance(Protocol):
    """(units done so far, steps per second, the recent value of a metric, what is waited for before any speed is known)"""

    def __call__(self, done: int, rate: float, recent: str = "", waiting: str = "") -> None: ...


class UnderWay:
    """Groups in other processes. Their speed is known once each has advanced after it was compiled, and restored if it goes on:
    what an earlier process did says nothing about the time left."""

    def __init__(self, at_once: int) -> None:
        self.at_once, self.started = at_once, time.time()
        self._first: dict[Path, int] = {}
        self._advanced: set[Path] = set()
        self._restores = False
        self._known = False

    def rate(self, group: Path, status: Mapping[str, Any]) -> float:
        """Steps per second of a group with this status; 0 before it advances."""
        if not status:
            return 0.0
        if status["time"] < self.started:
            self._restores = True  # an earlier process wrote it
            return 0.0
        if status["done"] > self._first.setdefault(group, status["done"]):
            self._advanced.add(group)
        return status["steps_per_second"]

    def waiting(self, running: int) -> str:
        """What the first groups do before their speed is known; empty afterwards."""
        self._known = self._known or len(self._advanced) >= min(self.at_once, running)
        return "" if self._known else "restoring and compiling" if self._restores else "compiling"


def messages() -> Console:
    """The console for messages: standard error, so that standard output holds results only."""
    return Console(file=cast("TextIO", _Lasting()), highlight=False)


class _Lasting:
    """Standard error, which may vanish with its terminal: a run goes on, or stops with a checkpoint, without it."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


@contextlib.contextmanager
def track(console: Console, label: str, total: int, unit: str = "episodes") -> Iterator[Advance]:
    """A progress bar over `total` units, with rate and remaining time. Neither counts the time of compilation."""
    if not console.is_terminal:
        yield _plain(console, label, total, unit)
        return
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(label, total=total, rate="compiling")

        waited = False

        def advance(done: int, rate: float, recent: str = "", waiting: str = "") -> None:
            nonlocal waited
            if waiting:
                waited = True
                bars.update(bar, completed=done, rate=waiting)
                return
            if waited:
                waited = False
                bars.reset(bar, completed=done)
            bars.update(bar, completed=done, rate=_together(f"{_thousands(rate)} steps/s", recent))

        yield advance


def _plain(console: Console, label: str, total: int, unit: str) -> Advance:
    started = last = time.monotonic()
    first: tuple[float, int] | None = None  # when the first units were done, after compilation

    def advance(done: int, rate: float, recent: str = "", waiting: str = "") -> None:
        nonlocal last, first
        now = time.monotonic()
        if waiting and done < total:
            first = None
            if now - last >= SECONDS_BETWEEN_LINES:
                last = now
                console.print(f"{label}: {done} of {total} {unit}, {waiting}")
            return
        if first is None or done <= first[1]:
            first, last = (now, done), now
        if done < total and now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        speed = _together(f"{_thousands(rate)} steps/s", recent)
        if done < total:
            left = (now - first[0]) * (total - done) / (done - first[1])
            console.print(f"{label}: {done} of {total} {unit}, {speed}, about {duration(left)} left")
        else:
            console.print(f"{label}: {done} of {total} {unit}, {speed}, done in {duration(now - started)}")

    return advance


def duration(seconds: float) -> str:
    """A time in the unit that fits."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _together(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _thousands(rate: float) -> str:
    if rate < 1e4:
        return f"{rate:.0f}"
    return f"{rate / 1e6:.1f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"
