"""Shows the progress of a run: a bar on a terminal, otherwise a line every few seconds. Always on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0

Advance = Callable[[int, float], None]  # (units done so far, steps per second)


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
    """A progress bar over `total` units, with rate and remaining time."""
    if not console.is_terminal:
        yield _plain(console, label, total, unit)
        return
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(label, total=total, rate="compiling")

        def advance(done: int, rate: float) -> None:
            bars.update(bar, completed=done, rate=f"{_thousands(rate)} steps/s")

        yield advance


def _plain(console: Console, label: str, total: int, unit: str) -> Advance:
    started = last = time.monotonic()

    def advance(done: int, rate: float) -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        left = (now - started) * (total - done) / max(done, 1)
        ending = f"about {left:.0f} s left" if done < total else f"done in {now - started:.1f} s"
        console.print(f"{label}: {done} of {total} {unit}, {_thousands(rate)} steps/s, {ending}")

    return advance


def _thousands(rate: float) -> str:
    if rate < 1e4:
        return f"{rate:.0f}"
    return f"{rate / 1e6:.1f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"
