"""The experiment of a run that is read from disk. Reading a run executes no code.

A description names its experiment. Only the names of the registry mean anything; a run of a user's own file, or of
`remanence.live`, is shown from its data: curves and tables, without claims.
"""

from __future__ import annotations

from remanence.core.lazy import alt
from remanence.experiments.base import Experiment
from remanence.experiments.registry import REGISTRY
from remanence.report.panels.run import chart
from remanence.results.store import Results
from remanence.runs.rows import AUC


def experiment_of(results: Results) -> Experiment:
    """The registered experiment of a run; else, and for sweeps and other metrics, one that knows only what the data say."""
    registered = REGISTRY.get(results.experiment)
    if registered is None or "sweep" in results.description:
        return _from_data(results)
    fits = not len(results.lanes) or set(registered.primary_metrics) <= set(results.metrics)
    return registered if fits else _from_data(results)


def _from_data(results: Results) -> Experiment:
    swept = results.experiment if "sweep" in results.description else ""
    aucs = [column.removeprefix(AUC) for column in results.lanes.columns if column.startswith(AUC)]
    return Experiment(
        name=results.experiment,
        figure="not an experiment of the paper",
        title=", ".join(map(str, results.description.get("world", {}).get("environments", [results.experiment]))),
        plans={},
        figures=_curves,
        claims=lambda _: [],
        expected="",
        primary_metrics=tuple(
            sorted(aucs, key=lambda one: one != results.objective) if swept else results.first_metrics(())
        ),
        sweep_of=swept,
    )


def _curves(results: Results) -> dict[str, alt.TopLevelMixin]:
    """Each metric in a chart of its own."""
    return {f"curve-{number}": chart(results, metric) for number, metric in enumerate(results.first_metrics(()))}
