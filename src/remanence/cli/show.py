"""`remanence show`"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from remanence.core.errors import UserError, printable
from remanence.report.terminal import as_json, print_json, print_rich, show_results, size

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment


MAX_OTHERS = 12  # runs of a directory that are named beside the one that is shown


@dataclass(frozen=True)
class Show:
    """Show an experiment, or the results of a run."""

    what: Positional[str]
    """the name or file of an experiment, the directory of a run, or a directory of runs, of which the newest is shown"""
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
        from remanence.runs.checking import newest_run, other_runs

        others: list[Path] = []
        if self.what not in REGISTRY and Path(self.what).is_dir():
            results = load(newest_run(Path(self.what)))
            others = other_runs(Path(self.what), results.path)
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
            print_json({**as_json(experiment, results, None), **about, "other_runs": [str(run) for run in others]})
        else:
            if len(results.lanes):
                show_results(experiment, results)
            for name, chosen in results.learners.items():
                print_rich(escape(f"{name} learns by {chosen['learner']}: {chosen['why']}"))
            if under_way:
                print_rich(progress_table(under_way, experiment.primary_metrics))
            print_rich(escape(f"\n{results.path}"))
            for line in _about_others(others):
                print_rich(escape(line))

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


def _about_others(runs: Sequence[Path]) -> Iterator[str]:
    """A line for each other run of a directory, the newest first."""
    from remanence.results.description import read_description
    from remanence.results.store import environments_of

    if runs:
        yield "\nother runs here:"
    for run in runs[:MAX_OTHERS]:
        try:
            about = read_description(run)
        except UserError as error:
            yield f"{run}: {error}"
            continue
        kind, seeds = "sweep of " if "sweep" in about else "", len(about["seeds"])
        agents = printable(", ".join(about["contenders"]))
        yield f"{environments_of(about)}: {kind}{agents}; {seeds} seed{'s' if seeds > 1 else ''}: {run}"
    if len(runs) > MAX_OTHERS:
        yield f"… {len(runs) - MAX_OTHERS} more"
