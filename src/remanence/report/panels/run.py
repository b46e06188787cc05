"""A chart of any run, by Altair or by Matplotlib."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import (
    Line,
    band_rows,
    colours,
    learning_curves,
    left_out,
    seeds_and_bands,
    spoken_ticks,
)
from remanence.report.page import styled
from remanence.results.stopped import stopped_remark
from remanence.results.store import Results
from remanence.results.summary import check_curves

PARAMETER = "parameter"
WIDTH = 560
POINTS_OF_SEGMENT = 20  # the usual smoothing averages a segment's windows over one such part


def chart(results: Results, metric: str | None = None, smooth: int | None = None) -> alt.TopLevelMixin:
    """A metric of all contenders and, below it, the changing parameter of the environment, if any."""
    metric, smooth = chosen_metric(results, metric), _chosen_smooth(results, smooth)
    clock, unit = spoken_ticks(results)
    curves = learning_curves(
        results,
        [Line(metric)],
        results.environments,
        unit,
        width=WIDTH,
        smooth=smooth,
        clock=clock,
        across_switches=False,
    )
    curves.title.subtitle += [remark] if (remark := stopped_remark(results)) else []
    if PARAMETER in results.metrics and metric != PARAMETER and any(map(results.sound_seeds, results.contenders)):
        return styled(alt.vconcat(curves, _parameter(results, clock, unit), spacing=8).resolve_scale(x="shared"))
    return styled(curves)


def matplotlib_figure(results: Results, metric: str | None = None, smooth: int | None = None) -> Any:
    """The same curves and bands as a `matplotlib.figure.Figure`; no window is opened."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError('backend="matplotlib" needs it: pip install matplotlib') from error
    metric, smooth = chosen_metric(results, metric), _chosen_smooth(results, smooth)
    clock, unit = spoken_ticks(results)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, colour in colours(results.contenders).items():
        rows = band_rows(results, name, Line(metric), smooth, across_switches=False)
        times = clock[rows["window"].to_numpy().astype(int) - 1]
        axes.plot(times, rows["mean"], color=colour, label=_plain(name))
        axes.fill_between(times, rows["low"], rows["high"], color=colour, alpha=0.2, linewidth=0)
    for window in results.switches:
        axes.axvline(clock[window - 1], color="#333333", linestyle=":", linewidth=0.8)
    smoothed = f", each point is the mean of {smooth}" if smooth > 1 else ""
    below = [seeds_and_bands(results, "bands") + smoothed, *left_out(results), *filter(None, [stopped_remark(results)])]
    axes.set_title(_plain("\n".join([results.environments, *below])), loc="left", fontsize=10)
    axes.set_xlabel(unit)
    axes.set_ylabel(_plain(metric_of(metric).label))
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def chosen_metric(results: Results, metric: str | None) -> str:
    """The metric to show; by default the objective of a sweep, else the first, or reward per step where episodes were counted and
    none ended."""
    check_curves(results)
    if metric is not None:
        if metric not in results.metrics:
            raise unknown("metric", str(metric), results.metrics)
        return metric
    if results.objective in results.metrics:
        return results.objective  # type: ignore[return-value]
    counts = [results.matrix(name, "episodes") for name in results.contenders] if "episodes" in results.metrics else []
    without_end = bool(counts) and not any(episodes.any() for episodes in counts)
    return "reward_rate" if without_end and "reward_rate" in results.metrics else results.metrics[0]


def _chosen_smooth(results: Results, smooth: int | None) -> int:
    if smooth is None:
        return math.ceil(results.segment_length / POINTS_OF_SEGMENT)
    if isinstance(smooth, bool) or not isinstance(smooth, int) or not 1 <= smooth <= results.windows:
        raise UserError(f"smooth must be an integer from 1 to {results.windows}, the number of windows; got {smooth!r}")
    return smooth


def _plain(text: str) -> str:
    """Text in which Matplotlib sees no formulas."""
    return text.replace("$", r"\$")


def _parameter(results: Results, clock: np.ndarray, unit: str) -> alt.Chart:
    """The parameter's value over time: the same for all contenders."""
    sound = [name for name in results.contenders if results.sound_seeds(name)]
    values = max((results.matrix(name, PARAMETER)[0] for name in sound), key=len)  # of the longest life
    shown = np.unique(np.linspace(0, len(values) - 1, 500).astype(int))
    rows = [{"window": int(clock[i]), "value": float(values[i])} for i in shown]
    name = results.description["stream"].get(PARAMETER) or metric_of(PARAMETER).label
    return (
        alt.Chart(inline(rows), width=WIDTH, height=60)
        .mark_line(color="#333333", strokeWidth=1.2, interpolate="step-before" if results.switches else "linear")
        .encode(
            x=alt.X("window:Q", title=unit, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
            y=alt.Y("value:Q", title=name, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        )
    )
