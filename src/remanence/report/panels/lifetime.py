"""Performance against the transient lifetime, one point per cell of k and λ, with the curve that is fitted to all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remanence.core.lazy import alt
from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.results.collapse import Cell, collapse
from remanence.results.statistics import band as student_band


def lifetime_panel(
    cells: Sequence[Cell],
    samples: np.ndarray,
    metric: str,
    title: str,
    task: int,
    learner: tuple[str, float],
    fitted_to: float = math.inf,
) -> alt.TopLevelMixin:
    """Args: samples: [cells, seeds].  task: how long one lasts.  learner: the learner without a permanent part, and its mean.
    fitted_to: the largest k that the curve is fitted to; all cells are drawn."""
    near = [index for index, cell in enumerate(cells) if cell.k <= fitted_to]
    found = collapse([cells[index] for index in near], samples[near], lower_is_better(metric))
    rows = [
        {"k": int(cell.k), "decay": cell.decay, "lifetime": cell.lifetime, "mean": y, "low": low, "high": high}
        for cell, y, low, high in zip(
            cells, *(ends.tolist() for ends in student_band(samples.T, metric_of(metric).bounds)), strict=True
        )
    ]
    fitted = [cells[index].lifetime for index in near]
    lifetimes = np.geomspace(min(fitted), max(fitted), 100)
    curve = [{"lifetime": x, "mean": y} for x, y in zip(lifetimes.tolist(), found.at(lifetimes).tolist(), strict=True)]
    x = alt.X("lifetime:Q", title="transient lifetime τ = −k / ln λ, in episodes", scale=alt.Scale(type="log"))
    label = f"mean {metric_of(metric).label}"
    y = alt.Y("mean:Q", title=label, scale=alt.Scale(zero=False))
    base = alt.Chart(inline(rows)).encode(
        x=x,
        color=alt.Color(
            "k:O", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(title="k, in episodes", symbolOpacity=1)
        ),
    )
    tooltip = [
        "k:O",
        alt.Tooltip("decay:Q", title="λ", format=".3g"),
        alt.Tooltip("lifetime:Q", format=".3g"),
        "mean:Q",
    ]
    line = alt.Chart(inline(curve)).mark_line(color="black", strokeWidth=1.2).encode(x=x, y=y)
    bars = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(y=y, tooltip=tooltip)
    marks = (_lifetime_mark(task, "a task"), _lifetime_mark(task / 3, "a third"), _level_mark(learner[1], learner[0]))
    explains = f"it explains {found.by_lifetime.mean:.0%} of the variance between cells"
    if len(near) < len(cells):
        explains = f"fitted to k ≤ {fitted_to:g} only, {explains} of these k"
    subtitle = [
        f"{samples.shape[1]} seeds, 90 % intervals (Student's t); curve: cubic in the logarithm of the lifetime",
        f"{explains}, {found.held_out.mean:.0%} where a k is left out",
    ]
    layers = alt.layer(line, bars, points, *(layer for pair in marks for layer in pair))
    return layers.properties(width=420, height=300, title=alt.TitleParams(title, subtitle=subtitle))


def _lifetime_mark(value: float, text: str) -> tuple[alt.Chart, alt.Chart]:
    """A dashed upright rule, and its name."""
    data = alt.Chart(inline([{"value": value, "text": text}])).encode(x="value:Q")
    name = data.mark_text(align="left", dx=4).encode(y=alt.value(8), text="text:N")
    return data.mark_rule(strokeDash=[3, 3], opacity=0.7), name


def _level_mark(value: float, text: str) -> tuple[alt.Chart, alt.Chart]:
    """A dashed level rule, and its name."""
    data = alt.Chart(inline([{"value": value, "text": text}])).encode(y="value:Q")
    name = data.mark_text(align="left", dx=4, dy=-6).encode(x=alt.value(0), text="text:N")
    return data.mark_rule(strokeDash=[3, 3], opacity=0.7), name


def best_lifetimes(rows: Sequence[tuple[str, int, float]]) -> alt.TopLevelMixin:
    """The best lifetime against the length of tasks, both logarithmic; rows: process, length, best lifetime."""
    table = [{"process": name, "length": length, "lifetime": best} for name, length, best in rows]
    lengths = [min(row["length"] for row in table), max(row["length"] for row in table)]
    guides = [
        {"length": length, "lifetime": share * length, "share": name}
        for name, share in (("the length of a task", 1.0), ("a third of it", 1 / 3))
        for length in lengths
    ]
    scale = alt.Scale(type="log", nice=False, padding=12)
    x = alt.X("length:Q", title="rounds per task", scale=scale)
    y = alt.Y("lifetime:Q", title="best transient lifetime τ, in rounds", scale=scale)
    guide = alt.Chart(inline(guides)).mark_line(strokeDash=[3, 3], color="#666666", strokeWidth=1)
    names = alt.Chart(inline(guides)).transform_filter(f"datum.length == {lengths[1]}")
    label = names.mark_text(
        align="right", dx=-6, dy=alt.expr("datum.lifetime < datum.length ? 20 : -12"), color="#666666"
    ).encode(x=x, y=y, text="share:N")
    points = (
        alt.Chart(inline(table))
        .mark_line(point=True)
        .encode(x=x, y=y, color=alt.Color("process:N", title=None), tooltip=["process:N", "length:Q", "lifetime:Q"])
    )
    title = alt.TitleParams(
        "The best transient lifetime grows with the length of tasks",
        subtitle=["exact; step sizes chosen together with lifetimes, by gradients through the error"],
    )
    return (guide.encode(x=x, y=y, detail="share:N") + label + points).properties(width=420, height=300, title=title)
