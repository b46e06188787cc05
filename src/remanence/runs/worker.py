"""Runs one group of lanes to its end, from its last checkpoint: the same in this process, in another, or on a cluster."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from remanence import __version__
from remanence.core import backend
from remanence.core.errors import BY_CALLBACK, NotRestored, Stopped, UserError, disk_errors
from remanence.core.learners import XLA
from remanence.core.types import Steps
from remanence.engine.lanes import Batch, Driver, Outcome, Progress
from remanence.results.directory import GroupDirectory
from remanence.results.log import RESUMED, STARTED
from remanence.results.memory import MemoryGroup
from remanence.results.schema import curve_rows
from remanence.runs.checkpoints import Checkpoints, Saved
from remanence.runs.jobs import Group, Lane
from remanence.runs.plan import Plan
from remanence.runs.policies import keeps_policy, policy_of
from remanence.runs.progress import Advance
from remanence.runs.rows import failure_of, tables
from remanence.runs.scalars import Scalars
from remanence.runs.so_far import keep_so_far
from remanence.runs.watching import NO_WATCH, Watch, Watcher
from remanence.worlds.base import HostedWorld

# Seconds between checkpoints, and the largest share of the time they may take: if they take more, they come less often.
CHECKPOINT_EVERY, SHARE_OF_TIME = 60.0, 0.02
SECONDS_BETWEEN_STATUS, SECONDS_BETWEEN_LINES = 1.0, 10.0
# The last two checkpoints, and the one being written.
COPIES_ON_DISK = 3
WATCHED = ("return", "reward_rate")


@dataclass(frozen=True)
class GroupJob:
    """A group to run, and all that a process needs for it."""

    plan: Plan
    group: Group
    run: str
    """hash of the run's description: checkpoints of other runs are refused"""
    path: Path
    auc_metrics: tuple[str, ...] | None = None
    """record the areas under these curves instead of the curves"""
    checkpoint_every: float | None = None
    """seconds between checkpoints; chosen by `GroupRunner` if not given"""
    tensorboard: bool = False
    learner: str = XLA
    watch: Watch = NO_WATCH
    memory: MemoryGroup | None = None
    """where the results go, if the run has no directory"""

    @property
    def directory(self) -> GroupDirectory:
        return self.memory or GroupDirectory(self.path)

    @property
    def windows_of_lane(self) -> int:
        return self.plan.stream.windows(self.plan.window)

    @property
    def windows(self) -> int:
        """Windows of all lanes together."""
        return len(self.group.lanes) * self.windows_of_lane

    @property
    def unit(self) -> str:
        """What progress counts."""
        return "steps" if isinstance(self.plan.stream.segment_length, Steps) else "episodes"

    @property
    def total(self) -> int:
        """What there is to do, in these units."""
        return len(self.group.lanes) * self.duration

    @property
    def duration(self) -> int:
        """The length of a life."""
        return self.plan.stream.segments * self.plan.stream.segment_length.count

    def done(self, progress: Progress) -> int:
        """What is done of it."""
        return progress.steps if self.unit == "steps" else progress.windows

    @property
    def belongs_to(self) -> dict[str, Any]:
        lanes = json.dumps([lane.number for lane in self.group.lanes])
        return {"run": self.run, "lanes": hashlib.sha256(lanes.encode()).hexdigest()[:12]}


def live(
    job: GroupJob,
    driver: Driver,
    asked_to_stop: Callable[[], int],
    on_progress: Advance,
    warn: Callable[[str], None],
    patience: float = 0.0,
) -> bool:
    """Runs what is left of a group; its tables are complete afterwards. Returns whether its callback stops the run at its end.

    Args:
        on_progress: called with steps or episodes done, steps per second, and the recent value of a metric.
        asked_to_stop: returns the number of a signal once the run must stop; we then save a checkpoint and raise `Stopped`.
        patience: seconds to wait for another process that holds the group.
    """
    directory = job.directory
    directory.make()
    with disk_errors(directory.path), directory.writing(patience):
        if len(directory.lanes()) >= len(job.group.lanes):
            return False
        runner = GroupRunner(job, driver, warn)
        while not runner.batch.done:
            finished = runner.batch.advance()
            on_progress(job.done(runner.progress), runner.rate(), runner.recent())
            runner.keep(finished, asked_to_stop)
        runner.close()
        return runner.watcher is not None and runner.watcher.stop


class GroupRunner:
    """A running group: its batch of lanes, checkpoints, status and log."""

    def __init__(self, job: GroupJob, driver: Driver, warn: Callable[[str], None]) -> None:
        self.began = time.monotonic(), time.process_time()
        self.job, self.directory = job, job.directory
        self.lanes = job.group.lanes
        self.checkpoints = Checkpoints(self.directory.checkpoints, job.belongs_to)
        self.finished: list[tuple[Lane, Outcome]] = []  # since the last checkpoint
        self.saving = 0.0  # seconds spent on checkpoints
        world = job.plan.world
        self.can_save = self.directory.lasting and (not isinstance(world, HostedWorld) or world.can_be_saved)
        self.batch = self._batch(driver)
        state = self.checkpoints.newest(warn) if self.can_save else None
        if state is not None:
            try:
                self.batch.restore(state)
            except NotRestored as reason:
                warn(f"{reason}: unfinished lives of {job.group.label} begin again")
                state, self.can_save = None, False
        if not self.can_save:  # lives that are done need not be repeated
            done = self.directory.lanes()
            self.lanes = tuple(lane for lane in self.lanes if lane.number not in done)
            self.batch = self._batch(driver)
        if self.can_save:
            _check_room(self.directory.path, self.batch.size(), self.checkpoints.count())
        self.directory.forget_stopped()
        self.started, self.steps_before = time.monotonic(), self.batch.progress.steps
        self.compiled: tuple[float, int] | None = None  # time and steps after the first call of the program
        self.saved_at = self.shown_at = self.logged_at = self.started
        self.wait = job.checkpoint_every or CHECKPOINT_EVERY
        self.directory.log(
            STARTED if state is None else RESUMED,
            lanes=[lane.number for lane in self.lanes],
            cores=backend.cores(),
            version=__version__,
            **self._status(),
        )
        self.scalars = Scalars(job) if job.tensorboard else None
        self.watcher = Watcher(job, self.batch, self.lanes) if job.watch else None

    def _batch(self, driver: Driver) -> Batch:
        of_run = self.job.auc_metrics is None  # sweeps keep no policies
        return Batch(
            driver,
            [lane.hypers for lane in self.lanes],
            [lane.seed for lane in self.lanes],
            self.job.group.at_once,
            keep_agents=False,
            keep_policies=[row for row, lane in enumerate(self.lanes) if of_run and keeps_policy(lane, self.job.plan)],
        )

    def keep(self, finished: Mapping[int, Outcome], asked_to_stop: Callable[[], int]) -> None:
        """Keeps lanes that are done, shows progress, and saves a checkpoint when it is time or the run must stop."""
        self.finished += [(self.lanes[number], outcome) for number, outcome in finished.items()]
        if self.watcher:
            self.watcher.look(self.batch, finished)
        self._show(at_once=self.batch.done)
        if self.batch.done:
            return
        number = asked_to_stop() or (BY_CALLBACK if self.watcher and self.watcher.stop else 0)
        if number or time.monotonic() - self.saved_at > self.wait:
            self._checkpoint()
        if number:
            if self.job.watch.callback is not None:  # here or in another process, it may be what stops the run
                keep_so_far(self.directory, self.lanes, self.batch, self.job.plan)
            self.directory.log("stopped", signal=number, **self._status())
            raise Stopped(number)

    def close(self) -> None:
        """Writes what is left; checkpoints are not needed any more."""
        if failure := self._failure():
            raise failure
        self._write_finished()
        if self.watcher:
            self.watcher.close()
        if self.scalars:
            self.scalars.write(self.directory.tables().get("curves", pl.DataFrame()))
            self.scalars.writer.close()
        self.directory.log("done", **self._status())
        shutil.rmtree(self.directory.checkpoints, ignore_errors=True)

    def _failure(self) -> UserError | None:
        """An error if the environments of all lives failed: then nothing is kept."""
        reasons = [failure_of(lane, outcome) for lane, outcome in self.finished]
        if not all(reasons) or len(reasons) < len(self.job.group.lanes):
            return None
        error = UserError(f"{self.job.group.label}: {reasons[0]}")
        error.__cause__ = self.finished[0][1].notes.failure.error
        return error

    def _checkpoint(self) -> None:
        """Writes finished lanes first: the checkpoint no longer contains them."""
        self._write_finished()
        if not self.can_save:
            self.saved_at = time.monotonic()
            return
        saved: Saved = self.checkpoints.save(self.batch.state())
        self.saving += saved.seconds
        self.saved_at = time.monotonic()
        self.wait = self.job.checkpoint_every or max(CHECKPOINT_EVERY, saved.seconds / SHARE_OF_TIME)
        share = self.saving / (self.saved_at - self.started)
        self.directory.log(
            "checkpoint",
            seconds=round(saved.seconds, 3),
            bytes=saved.bytes,
            share_of_time=round(share, 4),
            **self._status(),
        )
        if self.job.auc_metrics is None:
            self.directory.replace("so-far.parquet", self._so_far())
        self._show(at_once=True)

    def _write_finished(self) -> None:
        if self.finished:
            for lane, outcome in self.finished:
                if outcome.policy is not None and (policy := policy_of(lane, self.job.plan, outcome.policy)):
                    self.directory.add_policy(lane.number, policy)
            self.directory.add(tables(self.finished, self.job.plan, self.job.auc_metrics))
            self.finished = []

    def _so_far(self) -> pl.DataFrame:
        """Curves of the running lanes, up to now."""
        kept = self.job.plan.curves or self.batch.metrics
        rows = [
            curve_rows(np.array([self.lanes[lane].number], np.int32), record["curves"][metric][None, :windows], metric)
            for lane, windows, record in self.batch.under_way()
            for metric in kept
            if windows and metric in record["curves"]
        ]
        return pl.concat(rows) if rows else pl.DataFrame()

    def _show(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self.shown_at > SECONDS_BETWEEN_STATUS:
            self.shown_at = now
            self.directory.replace("progress.json", {"time": round(time.time(), 3), **self._status()})
        if now - self.logged_at > SECONDS_BETWEEN_LINES:
            self.logged_at = now
            self.directory.log("progress", **self._status())
            if self.directory.lasting and self.job.auc_metrics is None:
                self.directory.replace("so-far.parquet", self._so_far())
            # Only if all lanes run at once; otherwise at the end.
            if self.scalars and self.job.group.at_once == len(self.lanes):
                self.scalars.write(self._so_far())

    def _status(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "group": self.job.group.number,
            "label": self.job.group.label,
            "windows": progress.windows,
            "of": self.job.windows,
            "step": progress.steps,
            "done": self.job.done(progress),
            "steps_per_second": round(self.rate(), 1),
            "wall_seconds": round(time.monotonic() - self.began[0], 3),  # of this process
            "cpu_seconds": round(time.process_time() - self.began[1], 3),
        }

    @property
    def progress(self) -> Progress:
        """Of all lanes of the group, also of those that are done and not in the batch."""
        apart = len(self.job.group.lanes) - len(self.lanes)
        windows, steps = self.batch.progress
        return Progress(windows + apart * self.job.windows_of_lane, steps + apart * self.job.duration)

    def rate(self) -> float:
        """Steps per second of this process, without compilation and the steps before a restart."""
        now, steps = time.monotonic(), self.batch.progress.steps
        if self.compiled is None and steps > self.steps_before:
            self.compiled = now, steps
            return (steps - self.steps_before) / max(now - self.started, 1e-9)
        since, before = self.compiled or (self.started, self.steps_before)
        return (steps - before) / max(now - since, 1e-9)

    def recent(self) -> str:
        """The mean over lanes and their last windows of the metric that people look at first."""
        name = next((one for one in WATCHED if one in self.batch.metrics), "")
        value = self.batch.recent(name) if name else None
        return "" if value is None else f"{name.replace('_', ' ')} {value:.4g}"


def _check_room(path: Path, size: int, there: int) -> None:
    """Raises if the disk has no room for the checkpoints."""
    free, wanted = shutil.disk_usage(path).free, max(1, COPIES_ON_DISK - there) * size
    if free < wanted:
        raise UserError(
            f"the disk of '{path}' is too full: checkpoints need up to {wanted / 2**20:,.0f} MiB, "
            f"{free / 2**20:,.0f} MiB are free. Make room, choose another --out or fewer --lanes-per-group"
        )
