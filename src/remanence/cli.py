"""The command line: list · run · sweep · show · report · check · clean · theory · bench."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import re
import sys
import time
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, subcommand
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from remanence import __version__
from remanence.core.command_line import check_command
from remanence.core.errors import Stopped, UserError, of_disk, of_memory, printable, unknown
from remanence.report.terminal import (
    as_json,
    continual_figure,
    gains_figure,
    parts_figure,
    print_json,
    print_rich,
    share_of,
    show_results,
    size,
)
from remanence.runs.execution import Execution
from remanence.runs.progress import messages

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment
    from remanence.report.page import Section
    from remanence.results.store import Results
    from remanence.runs.plan import Plan
    from remanence.runs.provenance import Provenance

TUNING_FROM = 1000


@dataclass(frozen=True)
class List:
    """List all experiments, with figure, size and expected time."""

    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from rich.table import Table

        from remanence.experiments import REGISTRY

        rows = [
            (one.name, one.figure, size(one.plan(one.default_preset)), one.expected, ", ".join(one.plans))
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
    """Run an experiment, or resume it."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; default: paper, or the first preset of your own experiment"""
    seeds: int | None = None
    """number of seeds; default: as in the preset"""
    out: Path = Path("runs")
    """directory of all runs"""
    segments: int | None = None
    """shorten the run to this number of tasks"""
    segment_length: int | None = None
    """shorten the run to this number of episodes (or steps) per task"""
    steps: int | None = None
    """shorten the run to this number of steps in total, if the experiment counts steps"""
    contenders: tuple[str, ...] = ()
    """run only these agents"""
    set: tuple[str, ...] = ()
    """change any field of an agent's configuration, each as AGENT.FIELD=VALUE"""
    parts: bool = False
    """record what becomes of permanent and transient values: shares absorbed and kept, sizes, drift"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where to run"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.run import execute

        started = time.monotonic()
        console = messages()
        self.execution.prepare()
        experiment = get(self.name)
        preset = self.preset or experiment.default_preset
        full = plan = experiment.plan(preset)
        changes: dict[str, dict[str, str]] = {}
        for agent, name, value in (_parse_change(change, plan) for change in self.set):
            changes.setdefault(agent, {})[name] = value
        for agent, fields in changes.items():
            plan = plan.override_all(agent, fields)
        if self.contenders:
            plan = plan.select(self.contenders)
        plan = plan.shortened(self.segments, self.segment_length, self.steps)
        if self.parts:
            if experiment.sweep_of or experiment.run_fn:
                raise UserError(f"{self.name} records no curves of its agents: --parts has nothing to add")
            plan = dataclasses.replace(plan, watch_parts=True)
        seeds = _count_of("--seeds", self.seeds, plan.seeds)
        console.print(
            f"{experiment.name} ({preset}): {size(plan, seeds)}; expected {experiment.expected} at full size"
            f"{share_of(plan, seeds, full)}"
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
            print_rich(f"\n{seconds:.1f} s; saved in {results.path}. `remanence report` draws the figures.")


@dataclass(frozen=True)
class Sweep:
    """Run all settings of the paper's grids on tuning seeds, then the best ones on reporting seeds."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; default: paper, or the first preset of your own experiment"""
    tuning_seeds: int | None = None
    """number of tuning seeds; default: as many as reporting seeds"""
    tuning_from: int = TUNING_FROM
    """the first tuning seed; they must not overlap the reporting seeds, which count from 0"""
    seeds: int | None = None
    """number of reporting seeds; default: as in the preset"""
    out: Path = Path("runs")
    """directory of all runs"""
    contenders: tuple[str, ...] = ()
    """sweep only these agents"""
    grid: tuple[str, ...] = ()
    """search other values of any number in an agent's configuration, each as AGENT.FIELD=A,B,C"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where to run"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.run import execute
        from remanence.runs.sweep import best_settings, check_disjoint, win_shares, with_settings

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
        if not plan.contenders:
            raise UserError(f"{self.name} has no agents, so there is nothing to sweep: `remanence run {self.name}`")
        for change in self.grid:
            plan = plan.with_grid(*_parse_grid(change, plan))
        if self.contenders:
            plan = plan.select(self.contenders)
        seeds = _count_of("--seeds", self.seeds, plan.seeds)
        count = _count_of("--tuning-seeds", self.tuning_seeds, seeds)
        tuning = range(self.tuning_from, self.tuning_from + count)
        check_disjoint(tuning, range(seeds))
        swept = _sweep_stage(experiment, preset, plan, tuning, self.out, self.execution)
        objective = experiment.primary_metrics[0]
        chosen = best_settings(swept.lanes, objective)
        shares = win_shares(swept.lanes, objective)
        best = with_settings(plan, chosen)
        results = execute(experiment.name, preset, best, seeds, self.out, console, self.execution)
        seconds = time.monotonic() - started
        if self.json:
            summary = as_json(experiment, results, seconds)
            for name, values in summary["contenders"].items():
                values["selection"] = shares[name]
            print_json({**summary, "tuning_seeds": list(tuning), "sweep": str(swept.path)})
        else:
            from remanence.report.tables import selection_table

            print_rich(selection_table(shares))
            show_results(experiment, results)
            print_rich(f"\n{seconds:.1f} s; every setting: {swept.path}; the best ones again: {results.path}")


@dataclass(frozen=True)
class Show:
    """Show an experiment, or the results of a run."""

    what: Positional[str]
    """the name or file of an experiment, or the directory of a run"""
    out: Path = Path("runs")
    """directory of all runs"""
    archive: bool = False
    """show the run of the experiment that comes with the package"""
    json: bool = False
    """print JSON instead of tables"""

    def execute(self) -> None:
        from rich.markup import escape

        from remanence.experiments import REGISTRY, experiment_of, get
        from remanence.report.tables import progress_table
        from remanence.results.directory import groups_under_way
        from remanence.results.store import load

        if self.what not in REGISTRY and Path(self.what).is_dir():
            results = load(Path(self.what))
            experiment = experiment_of(results)
        else:
            experiment = get(self.what)
            runs = experiment.archived() if self.archive else [load(run) for run in experiment.runs(self.out)[:1]]
            if not runs:
                self._show_plan(experiment)
                return
            results = runs[0]
        under_way = groups_under_way(results.path)
        if self.json:
            about = {"under_way": [group.progress() for group in under_way], "learners": results.learners}
            print_json({**as_json(experiment, results, None), **about})
        else:
            if len(results.lanes):
                show_results(experiment, results)
            for name, chosen in results.learners.items():
                print_rich(escape(f"{name} learns by {chosen['learner']}: {chosen['why']}"))
            if under_way:
                print_rich(progress_table(under_way, experiment.primary_metrics))
            print_rich(escape(f"\n{results.path}"))

    def _show_plan(self, experiment: Experiment) -> None:
        from remanence.report.tables import configuration_table
        from remanence.runs.describe import describe_agent, num_weights

        plan = experiment.plan(experiment.default_preset)
        about = {name: describe_agent(contender.config) for name, contender in plan.contenders.items()}
        if self.json:
            print_json({"experiment": experiment.name, "size": size(plan), "contenders": about})
            return
        print_rich(
            f"{experiment.title} ({experiment.figure}): {size(plan)}, expected {experiment.expected}. Not run yet."
        )
        print_rich(configuration_table({name: one["config"] for name, one in about.items()}))
        weights = {name: num_weights(contender.config, plan.spec) for name, contender in plan.contenders.items()}
        if any(weights.values()):
            print_rich("weights: " + ", ".join(f"{name} {count:,}" for name, count in weights.items()))
        for name, contender in plan.contenders.items():
            native = contender.config.build(plan.spec).native
            print_rich(f"{name} learns by " + (f"xla: {native}" if isinstance(native, str) else "native kernels"))


@dataclass(frozen=True)
class Report:
    """Write an HTML page with figures, tables and claims of all runs: of each experiment a full run, else the newest."""

    names: Positional[tuple[str, ...]] = ()
    """only these experiments: names, your own files, or directories of runs"""
    out: Path = Path("runs")
    """directory of all runs"""
    to: Path = Path("report")
    """directory of the page"""
    archive: bool = False
    """show the runs that come with the package, one of each preset, and beside them your own"""

    def execute(self) -> None:
        from remanence.experiments import REGISTRY
        from remanence.report.page import write_report

        sections = []
        for name in self.names or REGISTRY:
            experiment, found = self._named(name)
            of_user = experiment.by_worth([one for one in found if one.finished])
            if self.archive:
                sections += [
                    _section(experiment, name, [(one, experiment.provenance(one))], "archived")
                    for one in experiment.archived()
                ]
            if of_user:
                sections.append(_section(experiment, name, of_user, "your run" if self.archive else ""))
        if not sections:
            raise UserError(f"no finished run in '{self.out}': start one with `remanence run NAME`")
        report_path = write_report(sections, self.to)
        shown = len({section.name for section in sections})
        print_rich(f"{shown} experiments: open {report_path}")

    def _named(self, name: str) -> tuple[Experiment, list[Results]]:
        """An experiment and its runs. Of a run's directory: the one that its data name, if it is registered."""
        from remanence.experiments import REGISTRY, experiment_of, get
        from remanence.results.store import load

        if name not in REGISTRY and (Path(name) / "description.json").exists():
            results = load(name)
            if not results.finished:
                raise UserError(f"the run in '{name}' is not finished: `remanence show {name}` shows its progress")
            return experiment_of(results), [results]
        experiment = get(name)
        return experiment, [load(path) for path in experiment.runs(self.out)]


@dataclass(frozen=True)
class Check:
    """Verify that all files of runs are as they were written; exit code 2 if one is not."""

    runs: Positional[tuple[Path, ...]] = ()
    """directories of runs; default: all below --out"""
    out: Path = Path("runs")
    """directory of all runs"""
    json: bool = False
    """print JSON instead of lines"""

    def execute(self) -> None:
        from rich.markup import escape

        from remanence.runs.checking import check_run, find_all

        checked = [check_run(run) for run in self.runs or find_all(self.out)]
        if not checked:
            raise UserError(f"no run in '{self.out}'")
        if self.json:
            print_json([one.to_json() for one in checked])
        for one in () if self.json else checked:
            found = (
                "damaged" if one.problems else f"{one.files} files as they were written" if one.files else "readable"
            )
            print_rich(escape(f"{one.run}: {found}"))
            for line in (*one.problems, *one.notices):
                print_rich(escape(f"  {line}"))
        if damaged := sum(bool(one.problems) for one in checked):
            raise UserError(f"{damaged} of {len(checked)} runs are damaged")


@dataclass(frozen=True)
class Clean:
    """Remove the results that --restart moved aside, and half-written files of killed processes."""

    runs: Positional[tuple[Path, ...]] = ()
    """directories of runs; default: all below --out"""
    out: Path = Path("runs")
    """directory of all runs"""

    def execute(self) -> None:
        from rich.markup import escape

        from remanence.results.aside import OLD, remove_aside
        from remanence.results.directory import Directory
        from remanence.runs.checking import find_all, find_aside

        files = size_of_all = 0
        for run in self.runs or sorted({*find_all(self.out), *find_aside(self.out)}):
            if not (run / "description.json").is_file() and not (run / OLD).is_dir():
                raise UserError(f"'{run}' is not a run: it has no description.json")
            with Directory(run).writing():
                removed = remove_aside(run)
            files, size_of_all = files + removed.files, size_of_all + removed.bytes
            for path in removed.kept:
                print_rich(escape(f"left alone, not a file of a run: {path}"))
        print_rich(f"{files} files removed, {size_of_all / 2**20:,.1f} MiB")


@dataclass(frozen=True)
class Theory:
    """Check every theorem of the paper on a Markov reward process, the paper's or yours, and print derived quantities.

    Below them are further statements about what a consolidation keeps, absorbs and forgets, which are not in the paper.
    """

    mrp: Path | None = None
    """a JSON or npz file with P, r (per task), gamma, and optionally p (task probabilities) and c (reward variance)"""
    markdown: bool = False
    """print Markdown instead of tables"""
    json: bool = False
    """print one JSON object on standard output"""

    def execute(self) -> None:
        from remanence.report.panels.theory import in_markdown, summary_table, theorem_table
        from remanence.theory import load_process
        from remanence.theory.checks import check_shares, check_theorems, summary
        from remanence.theory.task_diameter import task_diameter_process

        if self.markdown and self.json:
            raise UserError("--markdown and --json exclude each other")
        process = load_process(self.mrp) if self.mrp else task_diameter_process(1.0)
        checks, further, found = check_theorems(process), check_shares(process), summary(process)
        about = str(self.mrp or "the process of App. C.2, tasks at distance 1")
        if self.json:
            statements = {"theorems": checks, "further": further}
            answers = {kind: [check.to_json() for check in some] for kind, some in statements.items()}
            print_json({"process": about, **answers, "summary": found})
        elif self.markdown:
            print(in_markdown(about, [*checks, *further], found))
        else:
            print_rich(f"{about}: {process.num_states} states, {process.num_tasks} tasks, γ = {process.discount:g}")
            print_rich(theorem_table([*checks, *further]))
            print_rich(summary_table(found))
        failed = [check.theorem for check in (*checks, *further) if not check.holds]
        if failed:
            raise UserError(
                f"theorem {', '.join(failed)} does not hold on this process within rounding: see the remarks"
            )


@dataclass(frozen=True)
class BenchCommand:
    """Measure how fast the engine is, against other ways of doing the same."""

    what: Positional[str] = "prediction"
    """which benchmark: prediction, control, theory, deep, jellybean or minatar"""
    smoke: bool = False
    """only try that it works: tiny sizes, a few seconds, numbers that mean nothing"""
    against: str | None = None
    """also time the same agents in another library: torch or sb3 (for deep, jellybean, minatar; sb3 plays MinAtar only)"""
    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from remanence.bench import BENCHMARKS, run
        from remanence.bench.measure import render

        if self.what not in BENCHMARKS:
            raise unknown("benchmark", self.what, BENCHMARKS)
        report = run(self.what, messages().print, self.smoke, self.against)
        if self.json:
            print_json(report.to_json())
        else:
            print_rich(render(report))


COMMANDS: dict[str, type] = {
    "list": List,
    "run": Run,
    "sweep": Sweep,
    "show": Show,
    "report": Report,
    "check": Check,
    "clean": Clean,
    "theory": Theory,
    "bench": BenchCommand,
}
POSITIONAL = typing.get_args(Positional[str])[1]  # what marks a field as positional


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. A `UserError` is printed as one line on standard error, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or file that lacks a character shows "?" instead
            stream.reconfigure(errors="replace")
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        _check_arguments(words)
        if words == ["--version"]:
            print(f"remanence {__version__}")
            return 0
        check_command(words, COMMANDS, POSITIONAL)
        _parsed(words).execute()
    except UserError as error:
        return _tell(error)
    except Stopped as stopped:
        return _tell(stopped, 128 + stopped.signal)
    except OSError as error:  # a full disk, a vanished directory
        message = of_disk(error, Path(error.filename or "."))
        return _tell(message or of_memory(error) or error.strerror or error)
    except KeyboardInterrupt:
        return _tell("stopped; finished work is saved, the same command resumes", 130)
    except Exception as error:
        message = of_memory(error)
        if message is None:
            raise
        return _tell(message)
    return 0


def _parsed(words: list[str]) -> Any:
    """The command. What the parser prints in a box becomes one sentence."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                typing.Union[tuple(Annotated[kind, subcommand(name)] for name, kind in COMMANDS.items())],  # noqa: UP007
                prog="remanence",
                description="Continual reinforcement learning with permanent and transient value functions.",
                args=words,
                config=(FlagCreatePairsOff,),
                registry=_optional_values(),
            )
    except SystemExit as ended:
        if not ended.code:
            raise
        lines = [re.sub(r"[\u2500-\u257f]|^\||\|$|[-+]{3,}", "", line).strip() for line in said.getvalue().splitlines()]
        raise UserError(" ".join(line for line in lines[1:4] if line) or "this command line cannot be read") from None


def _optional_values() -> ConstructorRegistry:
    """An optional number is a number for people: INT, not {None}|INT."""
    registry = ConstructorRegistry()
    kinds: dict[Any, type] = {int | None: int, float | None: float, str | None: str, Path | None: Path}

    @registry.primitive_rule
    def _(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        if info.type not in kinds:
            return None
        kind = kinds[info.type]
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=kind.__name__.upper(),
            instance_from_str=lambda words: None if words[0] == "None" else kind(words[0]),
            is_instance=lambda value: value is None or isinstance(value, kind),
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def _count_of(option: str, asked: int | None, usual: int) -> int:
    """How many seeds are asked for."""
    if asked is not None and asked < 1:
        raise UserError(f"{option} must be at least 1; got {asked:,}")
    return usual if asked is None else asked


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuses control characters: the parser prints what it does not understand, and a file's name could steer the terminal."""
    for argument in arguments:
        if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in argument):
            raise UserError(f"an argument has a control character, which no name or option needs: '{argument}'")


def _tell(message: object, code: int = 2) -> int:
    """Prints a line on standard error, if it still exists; gives the exit code."""
    with contextlib.suppress(OSError):
        print(f"remanence: {printable(str(message))}", file=sys.stderr)
    return code


def _parse_change(change: str, plan: Plan) -> tuple[str, str, str]:
    target, equals, value = change.rpartition("=")  # an agent's name may contain "=" and "."
    agent, dot, name = target.rpartition(".")
    having = [one for one, contender in plan.contenders.items() if hasattr(contender.config, target)]
    if equals and not dot and having:
        raise UserError(
            f"'{change}' does not say of which agent: write {having[-1]}.{change} (it is a field of {', '.join(having)})"
        )
    if not dot:
        raise UserError(f"'{change}' is not a change: write AGENT.FIELD=VALUE, as in PT-TD.transient_lr=0.1")
    return agent, name, value


def _parse_grid(change: str, plan: Plan) -> tuple[str, str, tuple[float, ...]]:
    try:
        agent, name, texts = _parse_change(change, plan)
        values = tuple(ast.literal_eval(value.strip()) for value in texts.split(",") if value.strip())
        if not all(isinstance(value, int | float) for value in values):
            raise ValueError
    except (ValueError, SyntaxError, UserError) as error:
        raise UserError(
            f"'{change}' is not a grid: write AGENT.FIELD=A,B,C, as in PT-Q.transient_lr=0.1,0.5"
        ) from error
    return agent, name, values


def _section(experiment: Experiment, name: str, runs: Sequence[tuple[Results, Provenance]], origin: str) -> Section:
    """The first of these runs as a section of the report. `name`: of the experiment, as it was given."""
    from remanence.report.page import Section

    (results, how), *others = runs
    return Section(
        experiment.name,
        experiment.title,
        experiment.figure,
        results,
        {
            **experiment.figures(results),
            **continual_figure(experiment, results),
            **gains_figure(experiment, results),
            **parts_figure(results),
        },
        experiment.judge(results),
        experiment.primary_metrics,
        experiment.remarks,
        how.command(name, results.preset, experiment.sweep_of) if experiment.plans else "",
        how.text,
        [
            f"{one.path}: preset {one.preset}, {len(one.seeds)} seeds, {about.text or 'full run'}"
            for one, about in others
        ],
        experiment.agreements(results),
        experiment.gains(results),
        experiment.observations(results),
        origin,
    )


def _sweep_stage(
    experiment: Experiment, preset: str, plan: Plan, seeds: Sequence[int], out: Path, execution: Execution
) -> Results:
    """The sweep of an experiment; a sensitivity figure shares the sweep of its experiment."""
    from remanence.runs.jobs import check_seeds, settings
    from remanence.runs.sweep import sweep

    check_seeds(seeds)
    console = messages()
    total = sum(len(settings(contender)) for contender in plan.contenders.values())
    console.print(f"sweep: {total} settings × {len(seeds)} tuning seeds")
    name = experiment.sweep_of or experiment.name
    return sweep(name, preset, plan, experiment.primary_metrics, seeds, out, console, execution)
