"""A chart of any run."""

from __future__ import annotations

import altair as alt
import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import Line, learning_curves, spoken_ticks
from remanence.report.page import styled
from remanence.results.store import Results

PARAMETER = "parameter"
WIDTH = 560


def chart(results: Results, metric: str | None = None, smooth: int = 1) -> alt.TopLevelMixin:
    """A metric of all contenders and, below it, the changing parameter of the environment, if any."""
    if not results.metrics:
        raise UserError("there is nothing to plot: this run has no curves")
    metric = metric or _first_metric(results)
    if metric not in results.metrics:
        raise unknown("metric", metric, results.metrics)
    if isinstance(smooth, bool) or not isinstance(smooth, int) or not 1 <= smooth <= results.windows:
        raise UserError(f"smooth must be an integer from 1 to {results.windows}, the number of windows; got {smooth!r}")
    per_window, unit = spoken_ticks(results)
    title = ", ".join(results.description["world"].get("environments", [results.experiment]))
    curves = learning_curves(results, [Line(metric)], title, unit, width=WIDTH, smooth=smooth, per_window=per_window)
    if PARAMETER in results.metrics and metric != PARAMETER:
        return styled(alt.vconcat(curves, _parameter(results, per_window, unit), spacing=8).resolve_scale(x="shared"))
    return styled(curves)


def _first_metric(results: Results) -> str:
    """The first that was measured; reward per step where episodes were counted and none ended."""
    episode_counts = (
        [results.matrix(name, "episodes") for name in results.contenders] if "episodes" in results.metrics else []
    )
    without_end = bool(episode_counts) and not any(episodes.any() for episodes in episode_counts)
    return "reward_rate" if without_end and "reward_rate" in results.metrics else results.metrics[0]


def _parameter(results: Results, per_window: int, unit: str) -> alt.Chart:
    """The parameter's value over time: the same for all contenders."""
    values = next(results.matrix(name, PARAMETER)[0] for name in results.contenders if results.sound_seeds(name))
    shown = np.unique(np.linspace(0, len(values) - 1, 500).astype(int))
    rows = [{"window": (int(i) + 1) * per_window, "value": float(values[i])} for i in shown]
    name = results.description["stream"].get(PARAMETER) or metric_of(PARAMETER).label
    return (
        alt.Chart(inline(rows), width=WIDTH, height=60)
        .mark_line(color="#333333", strokeWidth=1.2, interpolate="step-before" if results.switches else "linear")
        .encode(
            x=alt.X("window:Q", title=unit, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
            y=alt.Y("value:Q", title=name, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        )
    )
