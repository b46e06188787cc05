"""Looks at lives while they run: a callback of the user, and logs, get every window when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import polars as pl

from remanence.core.errors import UserError, calling
from remanence.engine.lanes import Batch, Outcome
from remanence.runs.describe import describe_agent
from remanence.runs.jobs import Lane

if TYPE_CHECKING:
    from remanence.runs.worker import GroupJob

LOGS = "logs"  # subdirectory of a run


class Window(NamedTuple):
    """A closed window of one life: an episode, or a number of steps."""

    agent: str
    seed: int
    window: int
    """from 1"""
    windows: int
    """of a whole life"""
    time: int
    """steps since the beginning of the life; episodes, if the stream counts them"""
    metrics: Mapping[str, float]


Callback: TypeAlias = Callable[[Window], Any]
"""returns True to stop the run"""


class Logger(Protocol):
    """Writes windows somewhere. It is started once for each group of lanes, in the process that runs it.

    After an interruption a log is written again from the first window: `start` begins a new one.
    """

    def start(self, about: Mapping[str, Any]) -> None:
        """`about`: the `agent`, `seeds` and `group` (a number), the hash of the `run` (empty in memory), the `directory` for files
        (None in memory), and the agent's `config`."""
        ...

    def write(self, window: Window) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Watch:
    """Who looks at a run."""

    callback: Callback | None = None
    loggers: tuple[Logger, ...] = ()

    def __post_init__(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise UserError(f"callback is a function that takes each closed window; got {self.callback!r:.60}")

    def __bool__(self) -> bool:
        return self.callback is not None or bool(self.loggers)


NO_WATCH = Watch()


class Watcher:
    """Gives windows of a group to those who look at it, each of them once."""

    def __init__(self, job: GroupJob, batch: Batch, lanes: Sequence[Lane]) -> None:
        """`lanes`: of the batch."""
        self.job, self.watch = job, job.watch
        self.stop = False
        self._lanes = lanes
        # Windows that the callback has seen, by lane: those before an interruption too.
        self._seen = {lane: windows for lane, windows, _ in batch.under_way()}
        self._logged: dict[int, int] = {}
        self._ends = job.plan.stream.ends(job.plan.window)
        for logger in self.watch.loggers:
            calling("the log", logger.start, self._about())
        self._log_finished(job.directory.tables())

    def look(self, batch: Batch, finished: Mapping[int, Outcome]) -> None:
        """Passes on what is new."""
        records = [(lane, self.job.windows_of_lane, outcome.record) for lane, outcome in finished.items()]
        for lane, windows, record in (*records, *batch.under_way()):
            if self.watch.callback is not None:
                for window in self._windows(self._lanes[lane], self._seen.get(lane, 0), windows, record["curves"]):
                    self.stop |= calling("callback", self.watch.callback, window) is True
                self._seen[lane] = windows
            if self.watch.loggers:
                self._log(self._windows(self._lanes[lane], self._logged.get(lane, 0), windows, record["curves"]))
                self._logged[lane] = windows

    def close(self) -> None:
        for logger in self.watch.loggers:
            calling("the log", logger.close)

    def _log(self, windows: Iterator[Window]) -> None:
        for window in windows:
            for logger in self.watch.loggers:
                calling("the log", logger.write, window)

    def _log_finished(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Lanes that were done before an interruption."""
        if not self.watch.loggers or "curves" not in tables:
            return
        lanes = {lane.number: lane for lane in self.job.group.lanes}
        for (lane,), rows in tables["curves"].group_by("lane", maintain_order=True):
            curves = {
                str(metric): one.sort("window")["value"].to_numpy()
                for (metric,), one in rows.group_by("metric", maintain_order=True)
            }
            self._log(self._windows(lanes[int(lane)], 0, self.job.windows_of_lane, curves))

    def _about(self) -> dict[str, Any]:
        job = self.job
        return {
            "agent": job.group.label,
            "seeds": [lane.seed for lane in job.group.lanes],
            "group": job.group.number,
            "run": job.run,
            "directory": job.path.parent.parent / LOGS if job.memory is None else None,
            "config": describe_agent(job.group.config)["config"],
        }

    def _windows(self, lane: Lane, first: int, last: int, curves: Mapping[str, np.ndarray]) -> Iterator[Window]:
        plan = self.job.plan
        values = {**curves, **plan.same_for_all}
        names: Sequence[str] = [name for name in (*plan.curves, *plan.same_for_all) if name in values] or list(values)
        for number in range(first, last):
            metrics = {name: float(values[name][number]) for name in names}
            yield Window(lane.contender, lane.seed, number + 1, self.job.windows_of_lane, self._ends[number], metrics)
