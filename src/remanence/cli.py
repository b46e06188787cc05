"""The command line: list · run · show · report · bench."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, subcommand

from remanence.errors import UserError, unknown
from remanence.progress import messages

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment, Plan
    from remanence.results.store import Results

BENCHMARKS = ("prediction",)


@dataclass(frozen=True)
class List:
    """Every experiment, with its figure, size and expected time."""

    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from rich.table import Table

        from remanence.experiments import REGISTRY

        rows = [
            (one.name, one.figure, _size(one.plan("paper")), one.expected, ", ".join(one.plans))
            for one in REGISTRY.values()
        ]
        columns = ("experiment", "in the paper", "size", "expected time", "presets")
        if self.json:
            _print_json([dict(zip(columns, row, strict=True)) for row in rows])
            return
        table = Table(box=None, header_style="bold")
        for position, column in enumerate(columns):
            table.add_column(column, no_wrap=position == 0)
        for row in rows:
            table.add_row(*row)
        _print(table)


@dataclass(frozen=True)
class Run:
    """Run an experiment, or what is missing of it."""

    name: Positional[str]
    """the experiment, as `remanence list` names it"""
    preset: str = "paper"
    """paper, released or smoke"""
    seeds: int | None = None
    """how many seeds; the preset's own number if not given"""
    out: Path = Path("runs")
    """where runs are kept"""
    contenders: tuple[str, ...] = ()
    """run only these"""
    set: tuple[str, ...] = ()
    """change hyper-parameters, each as CONTENDER.HYPER=VALUE"""
    json: bool = False
    """print the result as one JSON object on standard output"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.experiments.run import execute

        started = time.monotonic()
        console = messages()
        experiment = get(self.name)
        plan = experiment.plan(self.preset)
        for change in self.set:
            plan = plan.override(*_parse_change(change))
        if self.contenders:
            plan = plan.select(self.contenders)
        seeds = plan.seeds if self.seeds is None else self.seeds
        console.print(
            f"{experiment.name} ({self.preset}): {_size(plan, seeds)}; expected {experiment.expected} at full size"
        )
        results = execute(experiment, self.preset, plan, seeds, self.out, console)
        seconds = time.monotonic() - started
        if self.json:
            _print_json(_as_json(experiment, results, seconds))
        else:
            _show_results(experiment, results)
            _print(f"\n{seconds:.1f} s; kept in {results.path}. `remanence report` draws the figures.")


@dataclass(frozen=True)
class Show:
    """What an experiment is, or what a run has brought."""

    what: Positional[str]
    """the name of an experiment, or the directory of a run"""
    out: Path = Path("runs")
    """where runs are kept"""
    json: bool = False
    """print JSON instead of tables"""

    def execute(self) -> None:
        from remanence.experiments import REGISTRY, get
        from remanence.results.store import find_runs, load

        if self.what not in REGISTRY and Path(self.what).is_dir():
            results = load(Path(self.what))
            experiment = get(results.experiment)
        else:
            experiment = get(self.what)
            runs = find_runs(self.out, experiment.name)
            if not runs:
                self._show_plan(experiment)
                return
            results = load(runs[0])
        if self.json:
            _print_json(_as_json(experiment, results, None))
        else:
            _show_results(experiment, results)
            _print(f"\n{results.path}")

    def _show_plan(self, experiment: Experiment) -> None:
        plan = experiment.plan("paper")
        hypers = {name: vars(contender.hypers) for name, contender in plan.contenders.items()}
        if self.json:
            _print_json({"experiment": experiment.name, "size": _size(plan), "contenders": hypers})
            return
        _print(f"{experiment.title} ({experiment.figure}): {_size(plan)}, expected {experiment.expected}. Not run yet.")
        for name, values in hypers.items():
            _print(f"  {name}: " + ", ".join(f"{key} {value:g}" for key, value in values.items()))


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
        from remanence.results.store import find_runs, load

        chosen = [get(name) for name in self.names] or list(REGISTRY.values())
        sections = []
        for experiment in chosen:
            found = [load(path) for path in find_runs(self.out, experiment.name)]
            finished = [one for one in found if len(one.contenders) == len(one.description["contenders"])]
            if finished:
                # The paper's own size says more than a newer smoke test or variant.
                results = min(finished, key=lambda one: one.preset != "paper")
                sections.append(
                    Section(
                        experiment.title,
                        experiment.figure,
                        results,
                        experiment.figures(results),
                        experiment.claims(results),
                        experiment.headline,
                        experiment.remarks,
                    )
                )
        if not sections:
            raise UserError(f"no finished run in '{self.out}': start one with `remanence run NAME`")
        page = write_report(sections, self.to)
        _print(f"{len(sections)} experiments: open {page}")


@dataclass(frozen=True)
class Bench:
    """Measure how fast the engine is, against other ways of doing the same."""

    what: Positional[str] = "prediction"
    """which benchmark: prediction"""
    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from importlib import import_module

        from remanence.bench.measure import render

        if self.what not in BENCHMARKS:
            raise unknown("benchmark", self.what, BENCHMARKS)
        report = import_module(f"remanence.bench.{self.what}").run(messages().print)
        if self.json:
            _print_json(report.to_json())
        else:
            _print(render(report))


Command = (
    Annotated[List, subcommand("list")]
    | Annotated[Run, subcommand("run")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Bench, subcommand("bench")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; a user's mistake is one line on standard error and exit code 2."""
    command = tyro.cli(
        Command,  # type: ignore[arg-type]
        prog="remanence",
        description="Continual reinforcement learning with permanent and transient value functions.",
        args=arguments,
        config=(FlagCreatePairsOff,),
    )
    try:
        command.execute()
    except UserError as error:
        print(f"remanence: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a vanished directory
        print(f"remanence: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("remanence: stopped; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return 130
    return 0


def _size(plan: Plan, seeds: int | None = None) -> str:
    if not plan.contenders:
        return "no simulation"
    episodes = plan.stream.segments * plan.stream.span.count
    return f"{len(plan.contenders)} agents × {plan.seeds if seeds is None else seeds} seeds × {episodes} episodes"


def _parse_change(change: str) -> tuple[str, str, float]:
    target, _, value = change.partition("=")
    contender, _, hyper = target.rpartition(".")
    try:
        return contender, hyper, float(value)
    except ValueError as error:
        raise UserError(
            f"'{change}' is not a change: write CONTENDER.HYPER=VALUE, as in PT-TD.transient_lr=0.1"
        ) from error


def _as_json(experiment: Experiment, results: Results, seconds: float | None) -> dict[str, Any]:
    from remanence.results.summary import summarise

    return {
        "experiment": results.experiment,
        "preset": results.preset,
        "seeds": len(results.seeds),
        "contenders": summarise(results),
        "claims": [claim.to_json() for claim in experiment.claims(results)],
        "seconds": seconds,
    }


def _show_results(experiment: Experiment, results: Results) -> None:
    from remanence.report.tables import claims_table, summary_table

    _print(f"{experiment.title}, preset {results.preset}, {len(results.seeds)} seeds")
    if results.metrics:
        _print(summary_table(results, experiment.headline))
    claims = experiment.claims(results)
    if claims:
        _print(claims_table(claims))


def _print(what: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(what)


def _print_json(what: Any) -> None:
    json.dump(what, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
