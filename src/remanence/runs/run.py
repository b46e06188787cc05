"""Runs a plan, straight into the run's directory, and only what is missing of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from rich.console import Console

from remanence.core.errors import UserError, disk_errors
from remanence.results.directory import RunDirectory
from remanence.results.store import Results, load
from remanence.runs.describe import describe
from remanence.runs.execution import Execution
from remanence.runs.executors import run_all, workers
from remanence.runs.jobs import Lane, cut, lanes_of_run, lanes_that_fit
from remanence.runs.plan import Plan
from remanence.runs.worker import GroupJob


def execute(
    experiment: str,
    preset: str,
    plan: Plan,
    seeds: int,
    out: Path,
    console: Console,
    execution: Execution = Execution(),
) -> Results:
    """Runs what is missing of a plan and returns the whole of its results."""
    if seeds < 1:
        raise UserError(f"an experiment needs at least one seed; got {seeds}")
    numbers = list(range(seeds))
    directory = RunDirectory(out, describe(experiment, preset, plan, numbers))
    return run_missing(directory, plan, lanes_of_run(plan, numbers), None, console, execution)


def run_missing(
    directory: RunDirectory,
    plan: Plan,
    programs: Sequence[list[Lane]],
    auc_metrics: Sequence[str] | None,
    console: Console,
    execution: Execution,
) -> Results:
    """Lives the lanes that are missing from a run, group by group; keeps curves, or only the areas under some of them."""
    with disk_errors(directory.path), directory.opened(execution.restart) as crashed:
        if crashed:
            console.print(f"{crashed} ended without finishing: going on from what it kept")
        done = set(directory.lanes())
        for name in _finished(programs, done):
            console.print(f"{name}: already done")
        if any(lane.number not in done for lanes in programs for lane in lanes):
            layout = _layout(directory, plan, programs, execution)
            directory.settle(layout)
            works = [
                GroupJob(
                    plan,
                    group,
                    directory.hash,
                    directory.group(group.number).path,
                    None if auc_metrics is None else tuple(auc_metrics),
                    execution.checkpoint_every,
                    execution.tensorboard,
                )
                for group in cut(programs, layout["lanes_per_group"], plan.lanes_at_once)
                if any(lane.number not in done for lane in group.lanes)
            ]

            def merge_group(work: GroupJob) -> None:
                tables = work.directory.tables()
                directory.merge_group(work.directory)
                for name in dict.fromkeys(lane.contender for lane in work.group.lanes):
                    _warn(console, name, tables["lanes"].filter(pl.col("contender") == name), auc_metrics is None)

            started = time.monotonic()
            run_all(works, execution, merge_group, console)
            directory.log("finished", seconds=round(time.monotonic() - started, 3))
            missing = {lane.number for lanes in programs for lane in lanes} - set(directory.lanes())
            if missing:
                raise UserError(f"{len(missing)} lanes of '{directory.path}' are missing: give the same command again")
        directory.tidy()
    return load(directory.path)


def _layout(
    directory: RunDirectory, plan: Plan, programs: Sequence[list[Lane]], execution: Execution
) -> dict[str, int]:
    """How lanes are cut: as asked, else as the run was begun, else so that all workers have some and memory suffices."""
    chosen = execution.lanes_per_group or directory.layout().get("lanes_per_group")
    if chosen:
        return {"lanes_per_group": chosen}
    spread = workers(execution)
    largest = max(len(lanes) for lanes in programs)
    fair = -(-sum(len(lanes) for lanes in programs) // spread)
    at_once = min(plan.lanes_at_once, lanes_that_fit(plan, programs, execution.jobs))
    fitting = at_once if at_once < min(largest, plan.lanes_at_once) else largest
    return {"lanes_per_group": min(largest, fair, fitting)}


def _finished(programs: Sequence[list[Lane]], done: set[int]) -> list[str]:
    """Contenders of which nothing is missing."""
    lanes = [lane for own in programs for lane in own]
    missing = {lane.contender for lane in lanes if lane.number not in done}
    return [name for name in dict.fromkeys(lane.contender for lane in lanes) if name not in missing]


def _warn(console: Console, name: str, lanes: pl.DataFrame, of_run: bool) -> None:
    """Says what a reader of the averages must know; in a sweep, settings that diverge are to be expected."""
    diverged = lanes.filter(pl.col("diverged"))["seed"].to_list()
    if diverged and of_run:
        console.print(
            f"warning: {name} diverged in {len(diverged)} of {len(lanes)} lanes (seeds {_list(diverged)}): "
            "kept out of averages; smaller step sizes would help",
            style="yellow",
        )
    lost = int(lanes["samples_dropped"].sum())
    if lost and of_run:
        console.print(f"warning: {name} lost {lost} samples because its buffer was full", style="yellow")


def _list(numbers: list[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, …" if len(numbers) > most else shown
