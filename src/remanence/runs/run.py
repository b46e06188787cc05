"""Runs the missing lanes of a plan and writes results into the run's directory."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from rich.console import Console

from remanence.agents.base import NO_NETWORK
from remanence.agents.learners import NoNativeLearner, choose_learner
from remanence.core.errors import BY_CALLBACK, Stopped, UserError, disk_errors
from remanence.core.learners import AUTO
from remanence.metrics import impossible_values
from remanence.results.directory import RunDirectory
from remanence.results.memory import MemoryGroup
from remanence.results.store import Results, load
from remanence.runs.describe import describe
from remanence.runs.execution import Execution
from remanence.runs.executors import devices, run_all, workers
from remanence.runs.jobs import Lane, check_seeds, cut, lanes_of_run, lanes_that_fit
from remanence.runs.plan import Plan
from remanence.runs.reuse import Taken, find_lanes, sources, take
from remanence.runs.rows import divergence, value_ratios
from remanence.runs.scalars import summary_writer
from remanence.runs.watching import NO_WATCH, Watch
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
    """Runs the missing lanes of a plan and returns all its results."""
    check_seeds(range(seeds))
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
    watch: Watch = NO_WATCH,
) -> Results:
    """Runs the missing lanes, group by group. Records curves, or only the areas under `auc_metrics`.

    All that can be refused is refused before anything is written: a refused command changes nothing.
    """
    with disk_errors(directory.path):
        start = _start(directory, plan, programs, auc_metrics, console, execution)
    with disk_errors(directory.path), directory.opened(execution.restart) as crashed:
        if directory.moved_to:
            console.print(f"earlier results are now in {directory.moved_to}; `remanence clean` removes them")
        if crashed:
            console.print(f"{crashed} did not finish: resuming from its last checkpoint")
        for taken in start.taken if start else ():
            take(directory, taken)
            console.print(f"{len(taken.numbers)} lanes are taken over from {taken.source.path}")
        done = set(directory.lanes())
        for name in _finished(programs, done):
            console.print(f"{name}: already done")
        if start is not None:
            directory.set_learners(start.learners)
            directory.set_layout(start.layout, start.set_apart)
            learners = {name: one["learner"] for name, one in start.learners.items()}
            jobs = [
                GroupJob(
                    plan,
                    group,
                    directory.hash,
                    directory.group(group.number).path,
                    None if auc_metrics is None else tuple(auc_metrics),
                    execution.checkpoint_every,
                    execution.tensorboard,
                    learners[group.lanes[0].contender],
                    watch,
                )
                for group in cut(start.programs, start.layout["lanes_per_group"], _at_once(plan), learners)
                if any(lane.number not in done for lane in group.lanes)
            ]

            def merge_group(job: GroupJob) -> None:
                tables = job.directory.tables()
                directory.merge_group(job.directory)
                for name in () if plan.spaces else dict.fromkeys(lane.contender for lane in job.group.lanes):
                    _warn(console, name, tables["lanes"].filter(pl.col("contender") == name), auc_metrics is None)
                    _warn_of_values(console, name, tables, dir(plan.contenders[name].config))

            started = time.monotonic()
            if jobs:
                run_all(jobs, execution, merge_group, console)
            directory.log("finished", seconds=round(time.monotonic() - started, 3))
            missing = {lane.number for lanes in programs for lane in lanes} - set(directory.lanes())
            if missing:
                raise UserError(f"{len(missing)} lanes of '{directory.path}' are missing: run the same command again")
        directory.tidy()
        directory.seal()
    return load(directory.path)


def run_in_memory(
    plan: Plan,
    programs: Sequence[list[Lane]],
    auc_metrics: Sequence[str] | None,
    console: Console,
    watch: Watch = NO_WATCH,
) -> MemoryGroup:
    """The same, in this process, without a directory; returns tables and policies. If a callback stops it, lives under way are in
    the `stopped` of what is returned."""
    learners = {name: one["learner"] for name, one in _learners({}, plan, programs, AUTO).items()}
    metrics = None if auc_metrics is None else tuple(auc_metrics)
    found = MemoryGroup()

    def keep(job: GroupJob) -> None:
        assert job.memory is not None
        found.take(job.memory)
        found.stopped.take(job.memory.stopped)

    jobs = [
        GroupJob(plan, group, "", Path(), metrics, learner=learner, watch=watch, memory=MemoryGroup())
        for group in cut(programs, max(map(len, programs)), _at_once(plan), learners)
        for learner in (learners[group.lanes[0].contender],)
    ]
    try:
        run_all(jobs, Execution(), keep, console)
    except Stopped as stopped:
        if stopped.signal != BY_CALLBACK:
            raise KeyboardInterrupt from None
        for job in jobs:
            keep(job)
    return found


def _at_once(plan: Plan) -> int | None:
    return None if plan.world.row_by_row else plan.lanes_at_once


class _Start(NamedTuple):
    """What is decided before a run starts or resumes."""

    learners: dict[str, dict[str, str]]
    layout: dict[str, int]
    taken: list[Taken]
    """finished lanes of other runs"""
    set_apart: set[int]
    """lanes that are complete before the first group starts: those that are taken over"""
    programs: list[list[Lane]]
    """all other lanes, which groups are made of"""


def _start(
    directory: RunDirectory,
    plan: Plan,
    programs: Sequence[list[Lane]],
    auc_metrics: Sequence[str] | None,
    console: Console,
    execution: Execution,
) -> _Start | None:
    """Decides on learners, layout and lanes to take over, and checks them, without a change of the directory; None if nothing
    is missing."""
    done = set() if execution.restart else set(directory.lanes())
    missing = [lane for lanes in programs for lane in lanes if lane.number not in done]
    if not missing:
        return None
    if execution.tensorboard:
        summary_writer()  # raises if it is not installed
    before = {} if execution.restart else directory.layout()
    learners = _learners({} if execution.restart else directory.learners(), plan, programs, execution.learner)
    taken: list[Taken] = []
    if not before and not execution.restart:
        others = sources(directory, execution.reuse)
        taken = find_lanes(missing, directory.description, learners, auc_metrics, others, console.print)
    apart = set(directory.set_apart()) if before else done.union(*(one.numbers.values() for one in taken))
    left = [[lane for lane in lanes if lane.number not in apart] for lanes in programs]
    left = [lanes for lanes in left if lanes]
    layout = {
        "lanes_per_group": _lanes_per_group(before, plan, left, execution) if left else 1,
        "cores_per_group": devices(execution),
    }
    if not execution.restart:
        directory.check_layout(layout)
    return _Start(learners, layout, taken, apart, left)


def _lanes_per_group(layout: dict[str, int], plan: Plan, programs: Sequence[list[Lane]], execution: Execution) -> int:
    """As asked, else as when the run started, else so that all workers get some and memory suffices."""
    spread = workers(execution)
    chosen = execution.lanes_per_group or layout.get("lanes_per_group")
    if chosen:
        return chosen
    largest = max(len(lanes) for lanes in programs)
    fair = -(-sum(len(lanes) for lanes in programs) // spread)
    at_once = min(plan.lanes_at_once, lanes_that_fit(plan, programs, execution.jobs))
    fitting = at_once if at_once < min(largest, plan.lanes_at_once) else largest
    return min(largest, fair, fitting)


def _learners(
    before: dict[str, dict[str, str]], plan: Plan, programs: Sequence[list[Lane]], asked: str
) -> dict[str, dict[str, str]]:
    """The learner of each contender, and why: as asked; with "auto", the one that the run was started with."""
    chosen = {}
    names = dict.fromkeys(lane.contender for lanes in programs for lane in lanes)
    agents = {name: plan.contenders[name].config.build(plan.spec) for name in names}
    some_deep = any(agent.native != NO_NETWORK for agent in agents.values())
    for name, agent in agents.items():
        if asked != AUTO or name not in before:
            wanted = AUTO if some_deep and agent.native == NO_NETWORK else asked  # `Random` beside deep agents
            found = choose_learner(agent, wanted, name)
            chosen[name] = {"learner": found.learner, "why": found.why}
            continue
        try:
            choose_learner(agent, before[name]["learner"], name)
        except NoNativeLearner as error:
            raise UserError(
                f"{name} was started with the native learner, and {error.why_not}: "
                "--learner xla goes on without it, and its results then differ in the last digits"
            ) from None
        chosen[name] = before[name]
    return {**before, **chosen}


def _finished(programs: Sequence[list[Lane]], done: set[int]) -> list[str]:
    """Contenders of which nothing is missing."""
    lanes = [lane for program in programs for lane in program]
    missing = {lane.contender for lane in lanes if lane.number not in done}
    return [name for name in dict.fromkeys(lane.contender for lane in lanes) if name not in missing]


def _warn(console: Console, name: str, lanes: pl.DataFrame, of_run: bool) -> None:
    """Warns of diverged lanes and dropped samples. Not in sweeps, where settings that diverge are expected."""
    diverged = lanes.filter(pl.col("diverged"))["seed"].to_list()
    if diverged and of_run:
        console.print(f"warning: {divergence(name, diverged, len(lanes))}", style="yellow")
    dropped = int(lanes["samples_dropped"].sum())
    if dropped and of_run:
        console.print(f"warning: {name} dropped {dropped} samples because its buffer was full", style="yellow")


def _warn_of_values(console: Console, name: str, tables: Mapping[str, pl.DataFrame], fields: Collection[str]) -> None:
    """Warns of values that exceed what rewards allow, where they were recorded."""
    if "curves" not in tables:
        return
    lanes = tables["lanes"].filter((pl.col("contender") == name) & ~pl.col("diverged"))["lane"].to_list()
    if warning := impossible_values(name, value_ratios(tables["curves"], lanes), fields):
        console.print(f"warning: {warning}", style="yellow")
