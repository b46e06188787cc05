"""Sensitivity to step sizes: every setting of the paper's lists (App. C.4)."""

from __future__ import annotations

from functools import partial

import altair as alt

from remanence.experiments import figure2, figure2_deep, figure3, figure3_rooms
from remanence.experiments.base import Experiment
from remanence.report.sensitivity import sensitivity
from remanence.results.store import Results

REMARK = "These are the sweeps behind the choice of step sizes: they use the tuning seeds, which report nothing else."


def _figures(results: Results, title: str, metrics: tuple[str, ...]) -> dict[str, alt.TopLevelMixin]:
    return {metric: sensitivity(results, metric, title) for metric in metrics}


def _sensitivity(name: str, of: Experiment, expected: str) -> Experiment:
    title = f"Sensitivity to step sizes: {of.title[0].lower()}{of.title[1:]}"
    return Experiment(
        name=f"appendix/sensitivity-{name}",
        figure=f"App. C.4, {of.title[0].lower()}{of.title[1:]}",
        title=title,
        plans=of.plans,
        figures=partial(_figures, title=title, metrics=of.headline[:1]),
        claims=lambda _: [],
        expected=expected,
        headline=of.headline,
        remarks=(REMARK,),
        sweep_of=of.name,
    )


_tabular, _linear, _continuous = figure2.EXPERIMENTS

EXPERIMENTS = (
    _sensitivity("tabular", _tabular, "10 s"),
    _sensitivity("linear", _linear, "10 s"),
    _sensitivity("continuous", _continuous, "3 min"),
    _sensitivity("control", figure3.EXPERIMENTS[0], "30 s"),
    _sensitivity("image", figure2_deep.EXPERIMENTS[0], "5 h"),
    _sensitivity("rooms", figure2_deep.EXPERIMENTS[1], "12 h"),
    _sensitivity("two-rooms", figure3_rooms.EXPERIMENTS[0], "15 h"),
)
