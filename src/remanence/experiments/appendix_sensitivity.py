"""Sensitivity to step sizes: every setting of the paper's grids (App. C.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

from remanence.core.lazy import alt
from remanence.experiments import figure2, figure2_deep, figure3, figure3_rooms, figure5_jellybean, figure5_minatar
from remanence.experiments.base import Experiment
from remanence.experiments.deep import CONTROL
from remanence.experiments.statements import sweep_claims
from remanence.report.panels.sensitivity import against_paper, sensitivity
from remanence.results.store import Results
from remanence.runs.plan import Plan

REMARK = "These are the sweeps that chose the step sizes, on tuning seeds; all other results use other seeds."


def _figures(
    results: Results, title: str, metrics: tuple[str, ...], paper_values: Mapping[tuple[str, tuple[float, ...]], float]
) -> dict[str, alt.TopLevelMixin]:
    figures = {metric: sensitivity(results, metric, title) for metric in metrics}
    if paper_values:
        figures["printed"] = against_paper(results, metrics[0], paper_values, f"{title}, against the paper")
    return figures


def _as_tuned(experiment: Experiment, segments: int) -> dict[str, Callable[[], Plan]]:
    """The plans at the size of the sweeps in App. C.4: 1.5M steps, 3 seeds; without the control, which has nothing to search."""

    def tuned(make: Callable[[], Plan]) -> Plan:
        plan = make()
        plan = plan.select(name for name in plan.contenders if name != CONTROL)
        return dataclasses.replace(
            plan.shortened(segments=min(segments, plan.stream.segments)), seeds=min(3, plan.seeds)
        )

    return {preset: partial(tuned, make) for preset, make in experiment.plans.items()}


def _sensitivity(
    name: str,
    of: Experiment,
    expected: str,
    plans: Mapping[str, Callable[[], Plan]] | None = None,
    paper_values: Mapping[tuple[str, tuple[float, ...]], float] | None = None,
) -> Experiment:
    title = f"Sensitivity to step sizes: {of.title}"
    plans = plans or of.plans
    return Experiment(
        name=f"appendix/sensitivity-{name}",
        figure=f"App. C.4, {of.title}",
        title=title,
        plans={of.reference_preset: plans[of.reference_preset], **plans},  # the default comes first
        figures=partial(_figures, title=title, metrics=of.primary_metrics[:1], paper_values=paper_values or {}),
        claims=partial(sweep_claims, metric=of.primary_metrics[0]),
        expected=expected,
        primary_metrics=of.primary_metrics,
        reference=of.reference_preset,
        remarks=(REMARK,),
        sweep_of=of.name,
        paper_values=paper_values or {},
    )


_tabular, _linear, _continuous = figure2.EXPERIMENTS
_jellybean, _minatar = figure5_jellybean.EXPERIMENTS[0], figure5_minatar.EXPERIMENTS[0]
_capacity = figure5_jellybean.EXPERIMENTS[-1]

EXPERIMENTS = (
    _sensitivity("tabular", _tabular, "10 s"),
    _sensitivity("linear", _linear, "10 s"),
    _sensitivity("continuous", _continuous, "3 min"),
    _sensitivity("control", figure3.EXPERIMENTS[0], "30 s"),
    _sensitivity("image", figure2_deep.EXPERIMENTS[0], "5 h"),
    _sensitivity("rooms", figure2_deep.EXPERIMENTS[1], "1 to 3 days"),
    _sensitivity("two-rooms", figure3_rooms.EXPERIMENTS[0], "2 to 3 days"),
    _sensitivity("jellybean", _jellybean, "3 days", _as_tuned(_jellybean, segments=10), figure5_jellybean.PAPER_VALUES),
    _sensitivity("capacity", _capacity, "5 days", _as_tuned(_capacity, segments=10)),
    _sensitivity("minatar", _minatar, "3 days", _as_tuned(_minatar, segments=3), figure5_minatar.PAPER_VALUES),
)
