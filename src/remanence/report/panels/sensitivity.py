"""Mean area under the curve against step size (paper, App. C.4)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from remanence.core.lazy import alt
from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import colour_scale, colours, seeds_and_bands
from remanence.results.statistics import band as student_band
from remanence.results.store import Results
from remanence.results.summary import settings_of, summarise_sweep

WIDTH, HEIGHT = 250, 240
EXPLODING = 5  # settings with a mean error above this multiple of the median are not drawn


def sensitivity(results: Results, metric: str, title: str) -> alt.TopLevelMixin:
    """A panel per contender and, if it is searched, per decay; for PT, one curve per permanent step size.

    Settings that diverged for some seed are not drawn.
    """
    rows = _sensible(_rows(results, metric), metric)
    limits = _limits(rows)
    panels = []
    shades = colours(rows["contender"].unique(maintain_order=True).to_list())
    for name, decay in rows.select("contender", "decay").unique(maintain_order=True).iter_rows():
        shown = rows.filter((pl.col("contender") == name) & pl.col("decay").eq_missing(decay))
        title_of_panel = name if decay is None else f"{name}, λ = {decay:g}"
        panels.append(_panel(shown, title_of_panel, shades[name], metric, limits))
    omitted = _left_out(results, rows)
    better = "lower" if lower_is_better(metric) else "higher"
    subtitle = [f"{seeds_and_bands(results)}; {better} is better"]
    return (
        alt.hconcat(*panels, spacing=24)
        .resolve_scale(color="independent")
        .properties(title=alt.TitleParams(title, subtitle=[*subtitle, *omitted]))
    )


def _rows(results: Results, metric: str) -> pl.DataFrame:
    rows = []
    for name, settings in _searched(results).items():
        for hypers, lanes in settings:
            sample = lanes[f"auc_{metric}"].to_numpy()
            if lanes["diverged"].any() or not len(sample):
                continue
            mean, low, high = map(float, student_band(sample, metric_of(metric).bounds))
            rows.append(
                {
                    "contender": name,
                    "lr": hypers.get("lr", hypers.get("transient_lr")),
                    "permanent": hypers.get("permanent_lr"),
                    "decay": hypers.get("decay"),
                    "mean": mean,
                    "low": low,
                    "high": high,
                }
            )
    schema = {
        "contender": pl.String,
        "lr": pl.Float64,
        "permanent": pl.Float64,
        "decay": pl.Float64,
        "mean": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def _searched(results: Results) -> dict[str, list[tuple[dict[str, float], pl.DataFrame]]]:
    """The settings of contenders that have something to search."""
    return {name: settings for name, settings in settings_of(results) if results.description["sweep"][name]}


def _sensible(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Drops settings with huge but finite errors: they would hide the others."""
    return rows.filter(pl.col("mean") <= EXPLODING * pl.col("mean").median()) if lower_is_better(metric) else rows


def _limits(rows: pl.DataFrame) -> list[float]:
    """Limits of the axis that all panels share."""
    means = rows["mean"].to_numpy()
    if not means.size:
        return [0.0, 1.0]
    margin = 0.05 * (means.max() - means.min())
    return [float(means.min() - margin), float(means.max() + margin)]


def _panel(
    rows: pl.DataFrame, name: str, shade: str, metric: str, limits: list[float]
) -> alt.LayerChart | alt.FacetChart:
    of_pt = rows["permanent"].null_count() == 0
    steps = alt.Axis(
        grid=False, values=sorted(rows["lr"].unique().to_list()), format="g", labelOverlap="greedy", labelSeparation=4
    )
    by_permanent = alt.Color(
        "permanent:O",
        title="permanent",
        scale=alt.Scale(scheme="viridis"),
        legend=alt.Legend(labelExpr="toString(datum.value)"),
    )
    base = alt.Chart(inline(rows.to_dicts())).encode(
        x=alt.X(
            "lr:Q",
            title="step size of the transient part" if of_pt else "step size",
            scale=alt.Scale(type="log", padding=12, nice=False),
            axis=steps,
        ),
        color=by_permanent if of_pt else alt.value(shade),
    )
    tooltip = [alt.Tooltip("lr:Q"), alt.Tooltip("permanent:O"), alt.Tooltip("mean:Q", format=".4f")]
    label = f"mean {metric_of(metric).label}"
    y = alt.Y("mean:Q", title=label, scale=alt.Scale(domain=limits, zero=False, nice=False))
    line = base.mark_line(point=True, clip=True).encode(y=y, tooltip=tooltip)
    bars = base.mark_rule(strokeWidth=1.5, clip=True).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
    return alt.layer(bars, line).properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(name, fontSize=12))


def _left_out(results: Results, rows: pl.DataFrame) -> list[str]:
    counts = {name: len(settings) for name, settings in _searched(results).items()}
    shown = {name: len(rows.filter(pl.col("contender") == name)) for name in counts}
    return [
        f"{name}: {counts[name] - shown[name]} settings diverged or exploded, not drawn"
        for name in counts
        if counts[name] > shown[name]
    ]


def against_paper(
    results: Results, metric: str, paper_values: Mapping[tuple[str, tuple[float, ...]], float], title: str
) -> alt.TopLevelMixin:
    """The mean of each setting against the paper's value: both agree on the diagonal."""
    summary = summarise_sweep(results)
    rows = [
        {"agent": name, "setting": label, "ours": round(values["metrics"][metric]["auc_mean"], 4), "paper": value}
        for label, values in summary.items()
        if (value := paper_values.get((name := label.split(" ")[0], tuple(values["hypers"].values())))) is not None
        and values["metrics"][metric]["auc_mean"] is not None
    ]
    label = metric_of(metric).label
    names = list(dict.fromkeys(row["agent"] for row in rows))
    largest = max((max(row["ours"], row["paper"]) for row in rows), default=1.0)
    scale = alt.Scale(domain=[min([0.0, *(row["ours"] for row in rows)]), largest], nice=True)
    points = (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=50, opacity=0.8)
        .encode(
            x=alt.X("paper:Q", title=f"{label}, in the paper", scale=scale),
            y=alt.Y("ours:Q", title=f"{label}, ours", scale=scale),
            color=alt.Color("agent:N", scale=colour_scale(names)),
            tooltip=["setting:N", "ours:Q", "paper:Q"],
        )
    )
    diagonal = (
        alt.Chart(inline([{"a": 0.0}, {"a": largest}]))
        .mark_line(color="#999999", strokeDash=[4, 4])
        .encode(x="a:Q", y="a:Q")
    )
    subtitle = f"one point per setting, mean of {len(results.seeds)} seeds; dashed: equal to the paper"
    return (diagonal + points).properties(width=320, height=320, title=alt.TitleParams(title, subtitle=[subtitle]))
