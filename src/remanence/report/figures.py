"""Learning curves in the paper's style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import polars as pl

from remanence.metrics import metric as metric_of
from remanence.results.continual import of_run
from remanence.results.statistics import band as student_band
from remanence.results.store import Results

# Okabe and Ito's colors, safe for color-blind readers. A contender has the same color everywhere.
COLOURS = {
    "PT": "#D55E00",
    "plain": "#0072B2",
    "reset": "#009E73",
    "multihead": "#CC79A7",
    "large-buffer": "#56B4E9",
    "Random": "#767676",
}
MAX_POINTS = 500  # curves with more points are averaged in bins


@dataclass(frozen=True)
class Line:
    """One metric, drawn for each contender."""

    metric: str
    label: str = ""
    """the metric's own if not given"""
    dotted: bool = False

    @property
    def name(self) -> str:
        return self.label or metric_of(self.metric).label


def colour(contender: str) -> str:
    """The color of a contender, by its family."""
    if contender.startswith("PT"):
        return COLOURS["PT"]
    return next((shade for kind, shade in COLOURS.items() if contender.endswith(kind)), COLOURS["plain"])


def learning_curves(
    results: Results,
    lines: Sequence[Line],
    title: str,
    x: str,
    y: str = "",
    width: int = 560,
    height: int = 300,
    smooth: int = 1,
    per_window: int = 1,
) -> alt.LayerChart | alt.FacetChart:
    """Mean over seeds with Student's 90 % band: one color per contender, one dash per metric, a rule at each switch.

    Args:
        y: label of the vertical axis; that of the first line's metric if not given.
        smooth: a point is the mean of this many windows up to it.
        per_window: what a window counts for on the axis.
    """
    y = y or metric_of(lines[0].metric).label
    names = results.contenders
    rows = pl.concat(_band(results, name, line, smooth) for name in names for line in lines)
    rows = rows.with_columns(pl.col("window") * per_window)
    colours = alt.Color(
        "contender:N", scale=alt.Scale(domain=names, range=[colour(name) for name in names]), legend=_legend("agent")
    )
    labels, dashes = [line.name for line in lines], [[2, 3] if line.dotted else [1, 0] for line in lines]
    dash = alt.StrokeDash(
        "measure:N",
        scale=alt.Scale(domain=labels, range=dashes),
        legend=_legend("measured on") if len(lines) > 1 else None,
    )
    along = alt.X("window:Q", title=x, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    up = alt.Y("mean:Q", title=y, scale=alt.Scale(zero=True))
    base = alt.Chart(alt.Data(values=rows.to_dicts()))
    band = base.mark_area(opacity=0.2).encode(
        x=along, y=alt.Y("low:Q", title=y), y2="high:Q", color=colours, detail="measure:N"
    )
    curve = base.mark_line(strokeWidth=1.6).encode(
        x=along,
        y=up,
        color=colours,
        strokeDash=dash,
        tooltip=[
            alt.Tooltip("contender:N", title="agent"),
            alt.Tooltip("measure:N", title="measured on"),
            alt.Tooltip("window:Q", title=x),
            alt.Tooltip("mean:Q", format=".4f"),
            alt.Tooltip("low:Q", format=".4f"),
            alt.Tooltip("high:Q", format=".4f"),
        ],
    )
    rules = (
        alt.Chart(alt.Data(values=[{"window": window * per_window} for window in results.switches]))
        .mark_rule(strokeDash=[3, 3], color="#333333", opacity=0.6, strokeWidth=0.8)
        .encode(x="window:Q")
    )
    smoothed = f", each point is the mean of {smooth}" if smooth > 1 else ""
    change = "a new task is drawn" if None in results.description["stream"]["order"] else "the task changes"
    switches = f"; dashed rules: {change}" if results.switches else ""
    subtitle = f"{seeds_and_bands(results, 'bands')}{smoothed}{switches}"
    return alt.layer(rules, band, curve).properties(
        width=width, height=height, title=alt.TitleParams(title, subtitle=[subtitle, *left_out(results)])
    )


def continual_chart(results: Results, metric: str) -> alt.TopLevelMixin:
    """Jumpstart, recovery, forgetting and transfer of every contender, with Student's 90 % intervals (docs/metrics.md)."""
    meaning = {
        "jumpstart": f"first {results.unit} after a switch",
        "recovery": f"{results.unit}s to recover",
        "forgetting": "loss when a task returns",
        "transfer": "gain over the reset variant",
    }
    rows = [
        {"agent": name, "measure": what, "mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        for name, measured in of_run(results, metric).items()
        for what, estimate in measured.estimates().items()
        if what in meaning and estimate is not None and np.isfinite(estimate.low)
    ]
    names = results.contenders
    panels = []
    for what, label in meaning.items():
        points = [row for row in rows if row["measure"] == what]
        if not points:
            continue
        base = alt.Chart(alt.Data(values=points)).encode(
            y=alt.Y(
                "agent:N", title=None, scale=alt.Scale(domain=names), axis=alt.Axis(labels=not panels, ticks=False)
            ),
            color=alt.Color(
                "agent:N", scale=alt.Scale(domain=names, range=[colour(one) for one in names]), legend=None
            ),
        )
        interval = base.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", title=label, scale=alt.Scale(zero=True)), x2="high:Q"
        )
        point = base.mark_point(filled=True, size=60).encode(
            x="mean:Q", tooltip=["agent:N", alt.Tooltip("mean:Q", format=".4f")]
        )
        panels.append(
            (interval + point).properties(width=165, height=26 * len(names), title=alt.TitleParams(what, fontSize=12))
        )
    title = alt.TitleParams(
        f"Continual learning, measured by {metric_of(metric).label}", subtitle=[seeds_and_bands(results)]
    )
    return alt.hconcat(*panels, spacing=18).properties(title=title)


def seeds_and_bands(results: Results, drawn: str = "intervals") -> str:
    """What points and bands of a figure are."""
    seeds = len(results.seeds)
    return f"mean of {seeds} seeds, 90 % {drawn} (Student's t)" if seeds > 1 else f"one seed, no {drawn}"


def left_out(results: Results) -> list[str]:
    """A line for each contender with diverged seeds, which are not in the averages."""
    counts = {name: len(results.diverged(name)) for name in results.contenders}
    return [
        f"{name}: {count} of {len(results.seeds)} seeds diverged, not shown" for name, count in counts.items() if count
    ]


def _band(results: Results, contender: str, line: Line, smooth: int) -> pl.DataFrame:
    curves = trailing_mean(results.matrix(contender, line.metric), smooth)
    columns = {"window": [], "mean": [], "low": [], "high": []}
    if curves.size:
        binned, windows = _binned(curves)
        mean, low, high = student_band(binned, metric_of(line.metric).bounds)
        columns = {"window": windows, "mean": mean, "low": low, "high": high}
    rounded = {name: np.round(np.asarray(column, np.float64), 6) for name, column in columns.items()}
    return pl.DataFrame(rounded).with_columns(contender=pl.lit(contender), measure=pl.lit(line.name))


def trailing_mean(curves: np.ndarray, width: int) -> np.ndarray:
    """[seeds, windows]: the mean of the last `width` windows, of fewer at the beginning."""
    if width == 1 or not curves.size:
        return curves
    sums = np.cumsum(curves, axis=1, dtype=np.float64)
    sums[:, width:] -= sums[:, :-width].copy()
    return sums / np.minimum(np.arange(1, curves.shape[1] + 1), width)


def _binned(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averages neighbouring windows until at most `MAX_POINTS` remain: [seeds, bins] and the last window of each bin."""
    width = -(-curves.shape[1] // MAX_POINTS)
    bins = curves.shape[1] // width
    covered = curves[:, : bins * width].astype(np.float64)
    return covered.reshape(len(curves), bins, width).mean(axis=2), np.arange(1, bins + 1) * width


def spoken_ticks(results: Results) -> tuple[int, str]:
    """Length of a window on the axis, and its unit."""
    return results.description.get("window", 1), next(
        iter(results.description["stream"]["segment_length"])
    ).removesuffix("s")


def _legend(title: str) -> alt.Legend:
    return alt.Legend(title=title, orient="right", symbolType="stroke", symbolStrokeWidth=2.5, symbolOpacity=1)
