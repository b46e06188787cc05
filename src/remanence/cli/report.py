"""`remanence report`"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from remanence.core.errors import UserError
from remanence.report.terminal import continual_figure, gains_figure, parts_figure, print_rich

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment
    from remanence.report.page import Section
    from remanence.results.store import Results
    from remanence.runs.provenance import Provenance


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
        from remanence.experiments import REGISTRY, experiment_of
        from remanence.report.page import write_report
        from remanence.results.store import OWN
        from remanence.runs.provenance import Provenance

        shown = []  # arguments of `_section`
        for name in self.names or REGISTRY:
            experiment, found = self._named(name)
            of_user = experiment.by_worth([one for one in found if one.finished])
            if self.archive:
                shown += [
                    (experiment, name, [(one, experiment.provenance(one))], "archived") for one in experiment.archived()
                ]
            if of_user:
                shown.append((experiment, name, of_user, "your run" if self.archive else ""))
        if not self.names:
            shown += [
                (experiment_of(runs[0]), OWN, [(one, Provenance()) for one in runs], "") for runs in _own(self.out)
            ]
        if not shown:
            raise UserError(f"no finished run in '{self.out}': start one with `remanence run NAME`")
        report_path = write_report((_section(*one) for one in shown), self.to)
        count = len({experiment.name for experiment, *_ in shown})
        print_rich(f"{count} {'experiment' if count == 1 else 'experiments'}: open {report_path}")

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


def _own(out: Path) -> list[list[Results]]:
    """Finished runs of `live`: those in the same environment and stream together, the one with most lives first."""
    from remanence.results.store import OWN, find_runs, load
    from remanence.runs.reuse import shared_by_lanes

    found: dict[str, list[Results]] = {}
    for run in find_runs(out, OWN):
        if (results := load(run)).finished:
            found.setdefault(shared_by_lanes(results.description), []).append(results)
    return [sorted(runs, key=lambda one: -len(one.lanes)) for runs in found.values()]


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
