"""The command line: list · run · sweep · show · report · theory · bench."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, subcommand

from remanence.core.errors import Stopped, UserError, of_disk, unknown
from remanence.report.terminal import as_json, continual_figure, print_json, print_rich, share_of, show_results, size
from remanence.runs.execution import Execution
from remanence.runs.progress import messages

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment, Plan
    from remanence.results.store import Results

TUNING_FROM = 1000


@dataclass(frozen=True)
class List:
    """Every experiment, with its figure, size and expected time."""

    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from rich.table import Table

        from remanence.experiments import REGISTRY

        rows = [
            (one.name, one.figure, size(one.plan("paper")), one.expected, ", ".join(one.plans))
            for one in REGISTRY.values()
        ]
        columns = ("experiment", "in the paper", "size", "expected time", "presets")
        if self.json:
            print_json([dict(zip(columns, row, strict=True)) for row in rows])
            return
        table = Table(box=None, header_style="bold")
        for position, column in enumerate(columns):
            table.add_column(column, no_wrap=position == 0)
        for row in rows:
            table.add_row(*row)
        print_rich(table)


@dataclass(frozen=True)
class Run:
    """Run an experiment, or what is missing of it."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; paper if not given, or the first of your own experiment's"""
    seeds: int | None = None
    """how many seeds; the preset's own number if not given"""
    out: Path = Path("runs")
    """where runs are kept"""
    segments: int | None = None
    """shorten the run: so many tasks instead of the preset's number"""
    segment_length: int | None = None
    """shorten the run: so many episodes (or steps) per task"""
    steps: int | None = None
    """shorten the run: so many steps in all, where an experiment counts steps"""
    contenders: tuple[str, ...] = ()
    """run only these"""
    set: tuple[str, ...] = ()
    """change hyper-parameters, each as CONTENDER.HYPER=VALUE"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.run import execute

        started = time.monotonic()
        console = messages()
        self.execution.prepare()
        experiment = get(self.name)
        preset = self.preset or experiment.default_preset
        whole = plan = experiment.plan(preset)
        for change in self.set:
            plan = plan.override(*_parse_change(change))
        if self.contenders:
            plan = plan.select(self.contenders)
        plan = plan.shortened(self.segments, self.segment_length, self.steps)
        seeds = plan.seeds if self.seeds is None else self.seeds
        console.print(
            f"{experiment.name} ({preset}): {size(plan, seeds)}; expected {experiment.expected} at full size"
            f"{share_of(plan, seeds, whole)}"
        )
        if experiment.sweep_of:
            results = _sweep_stage(
                experiment, preset, plan, range(TUNING_FROM, TUNING_FROM + seeds), self.out, self.execution
            )
        elif experiment.run_fn:
            if self.set:
                raise UserError(f"{self.name} chooses its step sizes itself: --set has nothing to change")
            results = experiment.run_fn(plan, preset, seeds, self.out, console, self.execution)
        else:
            name = experiment.run_of or experiment.name
            results = execute(name, preset, plan, seeds, self.out, console, self.execution)
        seconds = time.monotonic() - started
        if self.json:
            print_json(as_json(experiment, results, seconds))
        else:
            show_results(experiment, results)
            print_rich(f"\n{seconds:.1f} s; kept in {results.path}. `remanence report` draws the figures.")


@dataclass(frozen=True)
class Sweep:
    """Run every step size of the paper's lists on tuning seeds, then the best ones on reporting seeds."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; paper if not given, or the first of your own experiment's"""
    tuning_seeds: int | None = None
    """how many seeds choose the settings; as many as report if not given"""
    tuning_from: int = TUNING_FROM
    """the first of them; they must not overlap the reporting seeds, which count from 0"""
    seeds: int | None = None
    """how many seeds report; the preset's own number if not given"""
    out: Path = Path("runs")
    """where runs are kept"""
    contenders: tuple[str, ...] = ()
    """sweep only these"""
    grid: tuple[str, ...] = ()
    """search other values, each as CONTENDER.HYPER=A,B,C"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.run import execute
        from remanence.runs.sweep import best_settings, check_seeds, win_shares, with_settings

        started = time.monotonic()
        console = messages()
        self.execution.prepare()
        experiment = get(self.name)
        if experiment.sweep_of:
            raise UserError(f"{self.name} is a sweep already: `remanence run {self.name}`")
        if experiment.run_fn:
            raise UserError(f"{self.name} chooses its step sizes itself: `remanence run {self.name}`")
        preset = self.preset or experiment.default_preset
        plan = experiment.plan(preset)
        for change in self.grid:
            plan = plan.with_grid(*_parse_grid(change))
        if self.contenders:
            plan = plan.select(self.contenders)
        seeds = plan.seeds if self.seeds is None else self.seeds
        count = seeds if self.tuning_seeds is None else self.tuning_seeds
        tuning = range(self.tuning_from, self.tuning_from + count)
        check_seeds(tuning, range(seeds))
        swept = _sweep_stage(experiment, preset, plan, tuning, self.out, self.execution)
        objective = experiment.primary_metrics[0]
        chosen = best_settings(swept.lanes, objective)
        shares = win_shares(swept.lanes, objective)
        best = with_settings(plan, chosen)
        results = execute(experiment.name, preset, best, seeds, self.out, console, self.execution)
        seconds = time.monotonic() - started
        if self.json:
            summary = as_json(experiment, results, seconds)
            for name, facts in summary["contenders"].items():
                facts["selection"] = shares[name]
            print_json({**summary, "tuning_seeds": list(tuning), "sweep": str(swept.path)})
        else:
            from remanence.report.tables import selection_table

            print_rich(selection_table(shares))
            show_results(experiment, results)
            print_rich(f"\n{seconds:.1f} s; every setting: {swept.path}; the best ones again: {results.path}")


@dataclass(frozen=True)
class Show:
    """What an experiment is, or what a run has brought."""

    what: Positional[str]
    """the name or file of an experiment, or the directory of a run"""
    out: Path = Path("runs")
    """where runs are kept"""
    json: bool = False
    """print JSON instead of tables"""

    def execute(self) -> None:
        from remanence.experiments import REGISTRY, get
        from remanence.report.tables import progress_table
        from remanence.results.directory import groups_under_way
        from remanence.results.store import load

        if self.what not in REGISTRY and Path(self.what).is_dir():
            results = load(Path(self.what))
            experiment = get(results.experiment)
        else:
            experiment = get(self.what)
            runs = _runs_of(experiment, self.out)
            if not runs:
                self._show_plan(experiment)
                return
            results = load(runs[0])
        under_way = groups_under_way(results.path)
        if self.json:
            print_json({**as_json(experiment, results, None), "under_way": [group.progress() for group in under_way]})
        else:
            if len(results.lanes):
                show_results(experiment, results)
            if under_way:
                print_rich(progress_table(under_way, experiment.primary_metrics))
            print_rich(f"\n{results.path}")

    def _show_plan(self, experiment: Experiment) -> None:
        plan = experiment.plan(experiment.default_preset)
        hypers = {name: vars(contender.hypers) for name, contender in plan.contenders.items()}
        forms = {name: dict(contender.form) for name, contender in plan.contenders.items()}
        if self.json:
            about = {name: {"hypers": hypers[name], "form": forms[name]} for name in hypers}
            print_json({"experiment": experiment.name, "size": size(plan), "contenders": about})
            return
        print_rich(
            f"{experiment.title} ({experiment.figure}): {size(plan)}, expected {experiment.expected}. Not run yet."
        )
        for name, values in hypers.items():
            print_rich(f"  {name}: " + ", ".join(f"{key} {value:g}" for key, value in values.items()))
            if "network" in forms[name]:
                print_rich(f"    {forms[name]['weights']:,} weights: {', '.join(forms[name]['network'])}")


@dataclass(frozen=True)
class Report:
    """Write a page with figures, tables and claims of all runs (the newest of each experiment)."""

    names: Positional[tuple[str, ...]] = ()
    """only these experiments"""
    out: Path = Path("runs")
    """where runs are kept"""
    to: Path = Path("report")
    """where the page goes"""

    def execute(self) -> None:
        from remanence.experiments import REGISTRY, get
        from remanence.report.page import Section, write_report
        from remanence.results.store import load

        chosen = [get(name) for name in self.names] or list(REGISTRY.values())
        sections = []
        for experiment in chosen:
            found = [load(path) for path in _runs_of(experiment, self.out)]
            finished = [one for one in found if one.finished]
            if finished:
                # The paper's own size says more than a newer smoke test or variant.
                results = min(finished, key=lambda one: one.preset != experiment.default_preset)
                sections.append(
                    Section(
                        experiment.name,
                        experiment.title,
                        experiment.figure,
                        results,
                        {**experiment.figures(results), **continual_figure(experiment, results)},
                        experiment.claims(results),
                        experiment.primary_metrics,
                        experiment.remarks,
                    )
                )
        if not sections:
            raise UserError(f"no finished run in '{self.out}': start one with `remanence run NAME`")
        page = write_report(sections, self.to)
        print_rich(f"{len(sections)} experiments: open {page}")


@dataclass(frozen=True)
class Theory:
    """Try every theorem of the paper on a process, the paper's own or yours, and print what follows for it."""

    mrp: Path | None = None
    """a JSON or npz file with P, r (per task), gamma, and if you like p (task probabilities) and c (reward variance)"""
    markdown: bool = False
    """print Markdown instead of tables"""
    json: bool = False
    """print one JSON object on standard output"""

    def execute(self) -> None:
        from remanence.report.panels.theory import facts_table, in_markdown, theorem_table
        from remanence.theory import load_process
        from remanence.theory.checks import check_theorems, facts
        from remanence.theory.task_diameter import task_diameter_process

        if self.markdown and self.json:
            raise UserError("--markdown and --json exclude each other")
        process = load_process(self.mrp) if self.mrp else task_diameter_process(1.0)
        checks, found = check_theorems(process), facts(process)
        about = str(self.mrp or "the process of App. C.2, tasks at distance 1")
        if self.json:
            print_json({"process": about, "theorems": [check.to_json() for check in checks], "facts": found})
        elif self.markdown:
            print(in_markdown(about, checks, found))
        else:
            print_rich(f"{about}: {process.num_states} states, {process.num_tasks} tasks, γ = {process.discount:g}")
            print_rich(theorem_table(checks))
            print_rich(facts_table(found))
        failed = [check.theorem for check in checks if not check.holds]
        if failed:
            raise UserError(
                f"theorem {', '.join(failed)} did not hold on this process within rounding: see the remarks"
            )


@dataclass(frozen=True)
class Bench:
    """Measure how fast the engine is, against other ways of doing the same."""

    what: Positional[str] = "prediction"
    """which benchmark: prediction, control, theory, deep, jellybean or minatar"""
    smoke: bool = False
    """only try that it works: tiny sizes, a few seconds, numbers that mean nothing"""
    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from remanence.bench import BENCHMARKS, run
        from remanence.bench.measure import render

        if self.what not in BENCHMARKS:
            raise unknown("benchmark", self.what, BENCHMARKS)
        report = run(self.what, messages().print, self.smoke)
        if self.json:
            print_json(report.to_json())
        else:
            print_rich(render(report))


Command = (
    Annotated[List, subcommand("list")]
    | Annotated[Run, subcommand("run")]
    | Annotated[Sweep, subcommand("sweep")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Theory, subcommand("theory")]
    | Annotated[Bench, subcommand("bench")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; a user's mistake is one line on standard error and exit code 2."""
    try:
        command = tyro.cli(
            Command,  # type: ignore[arg-type]
            prog="remanence",
            description="Continual reinforcement learning with permanent and transient value functions.",
            args=arguments,
            config=(FlagCreatePairsOff,),
        )
        command.execute()
    except UserError as error:
        print(f"remanence: {error}", file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(f"remanence: {stopped}", file=sys.stderr)
        return 128 + stopped.signal
    except OSError as error:  # a full disk, a vanished directory
        known = of_disk(error, Path(error.filename or "."))
        print(f"remanence: {known or error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("remanence: stopped; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return 130
    return 0


def _parse_change(change: str) -> tuple[str, str, float]:
    target, _, value = change.rpartition("=")  # a contender's name may hold "=" and "."
    contender, _, hyper = target.rpartition(".")
    try:
        return contender, hyper, float(value)
    except ValueError as error:
        raise UserError(
            f"'{change}' is not a change: write CONTENDER.HYPER=VALUE, as in PT-TD.transient_lr=0.1"
        ) from error


def _parse_grid(change: str) -> tuple[str, str, tuple[float, ...]]:
    target, _, listed = change.rpartition("=")
    contender, _, hyper = target.rpartition(".")
    try:
        return contender, hyper, tuple(float(value) for value in listed.split(",") if value.strip())
    except ValueError as error:
        raise UserError(
            f"'{change}' is not a grid: write CONTENDER.HYPER=A,B,C, as in PT-Q.transient_lr=0.1,0.5"
        ) from error


def _runs_of(experiment: Experiment, out: Path) -> list[Path]:
    """Runs of an experiment, the newest first."""
    from remanence.results.store import find_runs

    if experiment.sweep_of:
        return find_runs(out / "sweep", experiment.sweep_of)
    return find_runs(out, experiment.run_of or experiment.name)


def _sweep_stage(
    experiment: Experiment, preset: str, plan: Plan, seeds: Sequence[int], out: Path, execution: Execution
) -> Results:
    """The sweep of an experiment, or of the one a sensitivity figure is about: both keep it in the same place."""
    from remanence.runs.jobs import settings
    from remanence.runs.sweep import sweep

    if not seeds:
        raise UserError(f"an experiment needs at least one seed; got {len(seeds)}")
    console = messages()
    total = sum(len(settings(contender)) for contender in plan.contenders.values())
    console.print(f"sweep: {total} settings × {len(seeds)} tuning seeds")
    name = experiment.sweep_of or experiment.name
    return sweep(name, preset, plan, experiment.primary_metrics, seeds, out, console, execution)


if __name__ == "__main__":
    sys.exit(main())
