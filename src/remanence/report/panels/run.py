"""A chart of any run."""

from __future__ import annotations

import altair as alt
import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.report.figures import Line, learning_curves, spoken_ticks
from remanence.report.page import styled
from remanence.results.store import Results

PARAMETER = "parameter"
# Labels of metrics on an axis; other metrics use their name.
LABELS = {"return": "return per episode", "reward_rate": "reward per step", "episode_length": "steps per episode"}
WIDTH = 560


def chart(results: Results, metric: str | None = None, smooth: int = 1) -> alt.TopLevelMixin:
    """A metric of all contenders and, below it, the changing parameter of the environment, if any."""
    if not results.metrics:
        raise UserError("there is nothing to plot: this run has no curves")
    metric = metric or next((one for one in results.metrics if _has_values(results, one)), results.metrics[0])
    if metric not in results.metrics:
        raise unknown("metric", metric, results.metrics)
    per_window, unit = spoken_ticks(results)
    title = ", ".join(results.description["world"].get("environments", [results.experiment]))
    label = LABELS.get(metric, metric.replace("_", " "))
    curves = learning_curves(
        results, [Line(metric, label)], title, unit, label, width=WIDTH, smooth=smooth, per_window=per_window
    )
    if PARAMETER in results.metrics and metric != PARAMETER:
        return styled(alt.vconcat(curves, _parameter(results, per_window, unit), spacing=8).resolve_scale(x="shared"))
    return styled(curves)


def _has_values(results: Results, metric: str) -> bool:
    """A run in which no episode ended has no return."""
    return any(np.isfinite(results.matrix(name, metric)).any() for name in results.contenders)


def _parameter(results: Results, per_window: int, unit: str) -> alt.Chart:
    """The parameter's value over time: the same for all contenders."""
    values = next(results.matrix(name, PARAMETER)[0] for name in results.contenders if results.sound_seeds(name))
    shown = np.unique(np.linspace(0, len(values) - 1, 500).astype(int))
    rows = [{"window": (int(i) + 1) * per_window, "value": float(values[i])} for i in shown]
    name = results.description["stream"].get(PARAMETER) or PARAMETER
    return (
        alt.Chart(alt.Data(values=rows), width=WIDTH, height=60)
        .mark_line(color="#333333", strokeWidth=1.2, interpolate="step-before" if results.switches else "linear")
        .encode(
            x=alt.X("window:Q", title=unit, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
            y=alt.Y("value:Q", title=name, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        )
    )
