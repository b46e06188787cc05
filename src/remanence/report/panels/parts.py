"""What becomes of the two parts: sizes, shares and jump of each consolidation, drifts, and the bound of values."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from remanence.core.lazy import alt
from remanence.report.data import inline
from remanence.report.figures import Line, learning_curves, spoken_ticks
from remanence.results.store import Results

SIZES = (Line("permanent_size"), Line("transient_size", dotted=True))
SHARES = (Line("absorbed", "absorbed by V^P"), Line("kept", "kept in V^T", dotted=True))
DRIFTS = (Line("permanent_drift"), Line("transient_drift", dotted=True))
TO_MEAN = Line("rmsve_permanent")
HEIGHT = 150


def parts_panel(results: Results, smooth: int = 1) -> alt.TopLevelMixin | None:
    """Charts over time, of agents that have a permanent part; None if the run did not record them."""
    if "absorbed" not in results.metrics:
        return None
    both = _with_permanent(results)
    if not both.contenders:
        return None
    clock, unit = spoken_ticks(results)

    def panel(lines: tuple[Line, ...], title: str, y: str) -> alt.LayerChart:
        chart = learning_curves(both, lines, title, unit, y, height=HEIGHT, smooth=smooth, clock=clock)
        assert isinstance(chart, alt.LayerChart)
        return chart

    bound = alt.Chart(inline([{"most": 1.0}])).mark_rule(color="#333333", strokeWidth=0.8).encode(y="most:Q")
    panels = [
        panel(SIZES, "Size of both parts", "mean |value|, visited states"),
        panel(SHARES, "What a consolidation does with V^T", "share of V^T"),
        panel((Line("jump"),), "How far a consolidation moves the sum of both", "root mean square"),
        panel(DRIFTS, "Distance of the weights from their start", "Euclidean distance"),
        panel((Line("value_ratio"),), "Largest value, relative to what rewards allow", "|V| (1 − γ) / max |R|") + bound,
    ]
    if TO_MEAN.metric in both.metrics:
        panels.append(panel((TO_MEAN,), "Distance of V^P from the mean value of the tasks", "RMSVE"))
    return alt.vconcat(*panels).resolve_scale(strokeDash="independent")


def _with_permanent(results: Results) -> Results:
    """The same run without agents that have no permanent part."""
    sizes = results.curves.filter((pl.col("metric") == "permanent_size") & (pl.col("value") != 0))["lane"].unique()
    names = results.lanes.filter(pl.col("lane").is_in(sizes.to_list()))["contender"].unique().to_list()
    lanes = results.lanes.filter(pl.col("contender").is_in(names))
    curves = results.curves.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    return replace(results, lanes=lanes, curves=curves)
