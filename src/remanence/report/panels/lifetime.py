"""Performance against the transient lifetime, one point per cell of k and λ, with the curve that is fitted to all of them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.results.collapse import Cell, collapse
from remanence.results.statistics import band as student_band


def lifetime_panel(
    cells: Sequence[Cell], samples: np.ndarray, metric: str, title: str, task: int, learner: tuple[str, float]
) -> alt.TopLevelMixin:
    """Args: samples: [cells, seeds].  task: how long one lasts.  learner: the learner without a permanent part, and its mean."""
    found = collapse(cells, samples, lower_is_better(metric))
    mean, low, high = student_band(samples.T, metric_of(metric).bounds)
    rows = [
        {"k": int(cell.k), "decay": cell.decay, "lifetime": cell.lifetime, "mean": m, "low": l, "high": h}
        for cell, m, l, h in zip(cells, mean.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    lifetimes = np.geomspace(min(row["lifetime"] for row in rows), max(row["lifetime"] for row in rows), 100)
    curve = [{"lifetime": x, "mean": y} for x, y in zip(lifetimes.tolist(), found.at(lifetimes).tolist(), strict=True)]
    x = alt.X("lifetime:Q", title="mean lifetime of V^T, in episodes", scale=alt.Scale(type="log"))
    label = f"mean {metric_of(metric).label}"
    y = alt.Y("mean:Q", title=label, scale=alt.Scale(zero=False))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x, color=alt.Color("k:O", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(title="k, in episodes"))
    )
    tooltip = ["k:O", alt.Tooltip("decay:Q", title="λ", format=".3g"), alt.Tooltip("lifetime:Q", format=".3g"), "mean:Q"]
    line = alt.Chart(alt.Data(values=curve)).mark_line(color="black", strokeWidth=1.2).encode(x=x, y=y)
    bars = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(y=y, tooltip=tooltip)
    marks = [_mark("x", task, "a task"), _mark("x", task / 3, "a third"), _mark("y", learner[1], learner[0])]
    subtitle = [
        f"{samples.shape[1]} seeds, 90 % intervals (Student's t); curve: cubic in the logarithm of the lifetime",
        f"it explains {found.by_lifetime.mean:.0%} of the variance between cells, and {found.held_out.mean:.0%} where a k is left out",
    ]
    layers = alt.layer(line, bars, points, *(layer for pair in marks for layer in pair))
    return layers.properties(width=420, height=300, title=alt.TitleParams(title, subtitle=subtitle))


def _mark(axis: str, value: float, text: str) -> tuple[alt.Chart, alt.Chart]:
    """A dashed rule across the panel, and its name."""
    data = alt.Chart(alt.Data(values=[{"value": value, "text": text}]))
    channel = (alt.X if axis == "x" else alt.Y)("value:Q")
    rule = data.mark_rule(strokeDash=[3, 3], opacity=0.7).encode(**{axis: channel})
    other = {"y": alt.value(8)} if axis == "x" else {"x": alt.value(4)}
    name = data.mark_text(align="left", dx=4, dy=0 if axis == "x" else -6).encode(**{axis: channel}, text="text:N", **other)
    return rule, name
