"""The plane of k and λ: as lines, as a heat map, and as one curve per cell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import colour_scale, seeds_and_bands
from remanence.results.statistics import band as student_band
from remanence.results.store import Results
from remanence.results.summary import auc

Cells = Mapping[str, tuple[int, float]]  # contender -> (k, λ)


def plane_lines(results: Results, cells: Cells, baseline: str, metric: str) -> alt.TopLevelMixin:
    """Mean performance against λ, one line per k, and the baseline as a dotted line (the paper's style)."""
    rows = _cell_rows(results, cells, metric)
    base = alt.Chart(inline(rows.to_dicts())).encode(
        x=alt.X("decay:Q", title="λ", axis=alt.Axis(values=sorted({decay for _, decay in cells.values()}), grid=False)),
        color=alt.Color(
            "k:O", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(title="k, in episodes", symbolOpacity=1)
        ),
    )
    label = f"mean {metric_of(metric).label}"
    y = alt.Y("mean:Q", title=label, scale=alt.Scale(zero=False))
    tooltip = [alt.Tooltip("k:O"), alt.Tooltip("decay:Q", title="λ"), alt.Tooltip("mean:Q", format=".4f"), "hypers:N"]
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
    line = base.mark_line(point=True).encode(y=y, tooltip=tooltip)
    reference = auc(results, baseline, metric).mean() if baseline in results.contenders else None
    layers = [band, line]
    if reference is not None:
        line = alt.Chart(inline([{"mean": float(reference), "label": f"{baseline}-learning"}]))
        layers.append(line.mark_rule(strokeDash=[3, 3], color="black", strokeWidth=1.5).encode(y="mean:Q"))
        layers.append(
            line.mark_text(align="left", baseline="bottom", dx=4, dy=-2).encode(
                y="mean:Q", x=alt.value(0), text="label:N"
            )
        )
    title = alt.TitleParams(
        "The effect of k and λ",
        subtitle=[f"mean over all episodes; {seeds_and_bands(results, 'bands')}; best step sizes per cell"],
    )
    return alt.layer(*layers).properties(width=460, height=320, title=title)


def plane_heatmap(results: Results, cells: Cells, baseline: str, metric: str) -> alt.TopLevelMixin:
    """The gain over the baseline in every cell."""
    reference = float(auc(results, baseline, metric).mean())
    rows = _cell_rows(results, cells, metric).with_columns(gain=(pl.col("mean") - reference).round(5))
    limit = float(rows["gain"].abs().max() or 1.0)  # type: ignore[arg-type]
    base = alt.Chart(inline(rows.to_dicts())).encode(
        x=alt.X("decay:O", title="λ", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("k:O", title="k, in episodes", sort="ascending"),
    )
    squares = base.mark_rect().encode(
        color=alt.Color(
            "gain:Q", title=f"gain over {baseline}", scale=alt.Scale(scheme="redblue", domain=[-limit, limit])
        ),
        tooltip=[
            alt.Tooltip("k:O"),
            alt.Tooltip("decay:O", title="λ"),
            alt.Tooltip("mean:Q", format=".4f"),
            "hypers:N",
        ],
    )
    readable = alt.condition(f"abs(datum.gain) > {0.6 * limit}", alt.value("white"), alt.value("black"))
    numbers = base.mark_text(fontSize=11).encode(text=alt.Text("mean:Q", format=".3f"), color=readable)
    title = alt.TitleParams(
        f"Mean {metric_of(metric).label} for every k and λ",
        subtitle=[f"color: gain over {baseline}, which has {reference:.3f}"],
    )
    return (squares + numbers).properties(width=330, height=270, title=title)


def cell_curves(results: Results, cells: Cells, baseline: str, metric: str, bin_width: int = 10) -> alt.TopLevelMixin:
    """One small curve per cell, with the baseline's."""
    segment_length = results.segment_length
    reference = _binned(results, baseline, metric, bin_width)
    rows = []
    for name, (k, decay) in cells.items():
        if name in results.contenders:
            for label, curve in (("PT-Q", _binned(results, name, metric, bin_width)), (baseline, reference)):
                windows = (np.arange(len(curve)) + 1) * bin_width
                rows += [
                    {
                        "k": f"k = {k}",
                        "decay": f"λ = {decay:g}",
                        "agent": label,
                        "episode": int(t),
                        "value": round(float(v), 4),
                    }
                    for t, v in zip(windows, curve, strict=True)
                ]
    names = ["PT-Q", baseline]
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.2)
        .encode(
            x=alt.X("episode:Q", title=None, axis=alt.Axis(grid=False, tickCount=3), scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=None, axis=alt.Axis(tickCount=4)),
            color=alt.Color("agent:N", scale=colour_scale(names)),
        )
    )
    # Rules use the same rows: the layers of a facet share one table.
    rules = (
        alt.Chart()
        .transform_filter(f"datum.episode % {segment_length} == 0 && datum.episode < {results.windows}")
        .mark_rule(strokeDash=[2, 3], opacity=0.25, strokeWidth=0.6)
        .encode(x="episode:Q")
    )
    title = alt.TitleParams(
        "PT-Q against Q-learning for every k and λ",
        subtitle=[f"mean {metric_of(metric).label} in bins of {bin_width} episodes"],
    )
    order = [f"k = {k}" for k in sorted({k for k, _ in cells.values()})]
    return (
        alt.layer(rules, line, data=inline(rows))
        .properties(width=140, height=80)
        .facet(row=alt.Row("k:N", sort=order, title=None), column=alt.Column("decay:N", title=None), spacing=10)
        .properties(title=title)
    )


def _binned(results: Results, name: str, metric: str, width: int) -> np.ndarray:
    mean = results.matrix(name, metric).mean(axis=0, dtype=np.float64)
    bins = len(mean) // width
    return mean[: bins * width].reshape(bins, width).mean(axis=1)


def _cell_rows(results: Results, cells: Cells, metric: str) -> pl.DataFrame:
    rows = []
    for name, (k, decay) in cells.items():
        aucs = auc(results, name, metric) if name in results.contenders else np.empty(0)
        if not aucs.size:
            continue
        mean, low, high = map(float, student_band(aucs, metric_of(metric).bounds))
        hypers = results.description["contenders"][name]["hypers"]
        rows.append(
            {
                "k": k,
                "decay": decay,
                "mean": round(mean, 5),
                "low": round(low, 5),
                "high": round(high, 5),
                "hypers": f"permanent {hypers['permanent_lr']:g}, transient {hypers['transient_lr']:g}",
            }
        )
    return pl.DataFrame(rows)
