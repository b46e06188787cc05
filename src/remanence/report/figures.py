"""Learning curves in the paper's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.results.continual import of_run
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.published import Overlap, Published, overlaps, trailing_mean
from remanence.results.statistics import UNBOUNDED
from remanence.results.statistics import band as student_band
from remanence.results.store import DIVERGED, FAILED, Results

# Okabe and Ito's colors, safe for color-blind readers, one per family of contenders.
COLOURS = {
    "PT": "#D55E00",
    "by shares": "#CC79A7",  # as multihead, which is never drawn beside it
    "plain": "#0072B2",
    "reset": "#009E73",
    "multihead": "#CC79A7",
    "large-buffer": "#56B4E9",
    "Random": "#767676",
}
LIGHTEST, DARKEST = -0.5, 0.6  # share of white and of black in the shades of a family
CONTROL = -0.42  # the same for a control and its agent
PUBLISHED_COLOUR = "#666666"
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


def colours(contenders: Sequence[str]) -> dict[str, str]:
    """A color for each contender of a figure: that of its family, in different shades if several belong to it.

    A control is a lighter shade of its agent.
    """
    families: dict[str, list[str]] = {}
    for agent in dict.fromkeys(name.removesuffix(CONTROL_SUFFIX) for name in contenders):
        families.setdefault(_family(agent), []).append(agent)
    shades = {
        agent: shade
        for family, agents in families.items()
        for agent, shade in zip(agents, _shades(COLOURS[family], len(agents)), strict=True)
    }
    shades |= {agent + CONTROL_SUFFIX: _mixed(shade, CONTROL) for agent, shade in shades.items()}
    return {name: shades[name] for name in contenders}


def colour_scale(contenders: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(contenders), range=list(colours(contenders).values()))


def _family(contender: str) -> str:
    if contender.startswith("PT"):
        return "by shares" if " by shares" in contender else "PT"
    return next((kind for kind in COLOURS if contender.endswith(kind)), "plain")


def _shades(colour: str, count: int) -> list[str]:
    """The color itself; of two, the second is darker; more go from light to dark."""
    depths = [0.0] if count == 1 else [0.0, DARKEST] if count == 2 else np.linspace(LIGHTEST, DARKEST, count)
    return [_mixed(colour, float(depth)) for depth in depths]


def _mixed(colour: str, depth: float) -> str:
    """With this share of black, or of white if it is negative."""
    base = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float64)
    shade = base * (1 - abs(depth)) + (0.0 if depth > 0 else 255.0) * abs(depth)
    return "#" + "".join(f"{round(part):02X}" for part in shade)


def learning_curves(
    results: Results,
    lines: Sequence[Line],
    title: str,
    x: str,
    y: str = "",
    width: int = 560,
    height: int = 300,
    smooth: int = 1,
    clock: np.ndarray | None = None,
    published: Published | None = None,
    cumulative: bool = False,
    across_switches: bool = True,
) -> alt.LayerChart | alt.FacetChart:
    """Mean over seeds with Student's 90 % band: one color per contender, one dash per metric, a rule at each switch.

    In a figure of one metric, controls are dashed.

    The authors' curves are thin, gray and dashed.

    Args:
        y: label of the vertical axis; that of the first line's metric if not given.
        smooth: a point is the mean of this many windows up to it.
        clock: [windows] what the axis shows at the end of each window; its number if not given.
        published: the authors' curves of this panel.
        cumulative: the sum since the beginning of a metric that is a mean per step.
        across_switches: whether such a mean may hold windows of the task before.
    """
    clock = np.arange(1, results.windows + 1) if clock is None else clock
    y = y or metric_of(lines[0].metric).label
    names = results.contenders
    rows = pl.concat(
        band_rows(results, name, line, smooth, cumulative, across_switches) for name in names for line in lines
    )
    rows = rows.with_columns(window=pl.Series(clock[rows["window"].to_numpy().astype(int) - 1]))
    by_agent = alt.Color("contender:N", scale=colour_scale(names), legend=_legend("agent"))
    along = alt.X("window:Q", title=x, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    up = alt.Y("mean:Q", title=y, scale=alt.Scale(zero=True))
    base = alt.Chart(inline(rows.to_dicts()))
    band = base.mark_area(opacity=0.2).encode(
        x=along, y=alt.Y("low:Q", title=y), y2="high:Q", color=by_agent, detail="measure:N"
    )
    curve = base.mark_line(strokeWidth=1.6).encode(
        x=along,
        y=up,
        color=by_agent,
        strokeDash=dash_of(lines) if len(lines) > 1 else _dash_of_controls(names),
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
        alt.Chart(inline([{"window": int(clock[window - 1])} for window in results.switches]))
        .mark_rule(strokeDash=[3, 3], color="#333333", opacity=0.6, strokeWidth=0.8)
        .encode(x="window:Q")
    )
    smoothed = f", each point is the mean of {smooth}" if smooth > 1 else ""
    change = "a new task is drawn" if None in results.description["stream"]["order"] else "the task changes"
    switches = f"; dashed rules: {change}" if results.switches else ""
    subtitle = f"{seeds_and_bands(results, 'bands')}{smoothed}{switches}"
    layers, remarks = [rules, band, curve], left_out(results)
    if published and (shared := overlaps(results, published, [line.metric for line in lines])):
        layers.insert(2, published_curves(shared, along, clock))
        remarks.append(about_published(results, published, next(iter(shared.values()))))
    return alt.layer(*layers).properties(
        width=width, height=height, title=alt.TitleParams(title, subtitle=[subtitle, *remarks])
    )


def dash_of(lines: Sequence[Line]) -> alt.StrokeDash:
    """Tells the metrics of a figure apart."""
    labels, dashes = [line.name for line in lines], [[2, 3] if line.dotted else [1, 0] for line in lines]
    legend = _legend("measured on") if len(lines) > 1 else None
    return alt.StrokeDash("measure:N", scale=alt.Scale(domain=labels, range=dashes), legend=legend)


def _dash_of_controls(contenders: Sequence[str]) -> alt.StrokeDash:
    """Tells controls from their agents, in the legend of the colors."""
    dashes = [[5, 2] if name.endswith(CONTROL_SUFFIX) else [1, 0] for name in contenders]
    scale = alt.Scale(domain=list(contenders), range=dashes)
    return alt.StrokeDash("contender:N", scale=scale, legend=_legend("agent"))


def published_curves(
    shared: Mapping[tuple[str, str], Overlap], along: alt.X, clock: np.ndarray | None = None
) -> alt.Chart:
    """The authors' curves by (contender, metric): thin, gray and dashed. `clock`: as of `learning_curves`."""
    rows = []
    for (name, metric), one in shared.items():
        means, last = _binned(one.published[None])
        windows = one.windows[last - 1] if clock is None else clock[one.windows[last - 1] - 1]
        rows += [
            {"contender": name, "metric": metric_of(metric).label, "window": int(x), "published": round(float(y), 6)}
            for x, y in zip(windows, means[0], strict=True)
        ]
    tooltip = [
        alt.Tooltip("contender:N", title="published curve of"),
        alt.Tooltip("metric:N"),
        alt.Tooltip("window:Q"),
        alt.Tooltip("published:Q", format=".4f"),
    ]
    return (
        alt.Chart(inline(rows))
        .mark_line(strokeWidth=0.9, strokeDash=[5, 2], color=PUBLISHED_COLOUR)
        .encode(x=along, y="published:Q", detail=["contender:N", "metric:N"], tooltip=tooltip)
    )


def about_published(results: Results, published: Published, shared: Overlap) -> str:
    """What the gray curves are, and how far they can be compared."""
    unit, last = spoken_ticks(results)[1], int(shared.windows[-1]) * results.description.get("window", 1)
    parts = ["gray, dashed: the published curves"]
    if not shared.complete:
        parts.append(f" up to {unit} {last:,}, where both have the same tasks")
    elif shared.windows[-1] < results.windows - 1:
        parts.append(f", which end at {unit} {last:,}")
    if results.preset != published.presets[0]:
        parts.append(f"; they belong to the preset {published.presets[0]}")
    return "".join(parts + ([f"; {published.remark}"] if published.remark else []))


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
        base = alt.Chart(inline(points)).encode(
            y=alt.Y(
                "agent:N", title=None, scale=alt.Scale(domain=names), axis=alt.Axis(labels=not panels, ticks=False)
            ),
            color=alt.Color("agent:N", scale=colour_scale(names), legend=None),
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
    is_sweep, names = "sweep" in results.description, results.contenders
    counts = [len(results.seeds)] if is_sweep or not names else [len(results.sound_seeds(name)) for name in names]
    fewest, most = min(counts), max(counts)
    if most <= 1:
        return f"one seed, no {drawn}"
    return f"mean of {most if fewest == most else f'{fewest} to {most}'} seeds, 90 % {drawn} (Student's t)"


def left_out(results: Results) -> list[str]:
    """A line for each contender with seeds that diverged, or whose environment failed: they are not in the averages."""
    seeds = len(results.seeds)
    says = {
        DIVERGED: f"{{count}} of {seeds} seeds diverged, not shown",
        FAILED: f"the environment failed in {{count}} of {seeds} seeds, not shown",
    }
    return [
        f"{name}: {says[why].format(count=count)}"
        for name in results.contenders
        for why, count in results.left_out(name).items()
    ]


def band_rows(
    results: Results,
    contender: str,
    line: Line,
    smooth: int = 1,
    cumulative: bool = False,
    across_switches: bool = True,
) -> pl.DataFrame:
    """The mean and the band of one contender's curve. Each seed's curve is smoothed first, so the band is that of what is shown."""
    curves = results.matrix(contender, line.metric)
    parts = [curves] if across_switches else np.split(curves, results.switches, axis=1)
    curves = np.concatenate([trailing_mean(part, smooth) for part in parts], axis=1)
    columns = {"window": [], "mean": [], "low": [], "high": []}
    if curves.size:
        binned, windows = _binned(curves)
        bounds = metric_of(line.metric).bounds
        if cumulative:
            steps = int(windows[0]) * results.description.get("window", 1)
            binned, bounds = steps * np.cumsum(binned, axis=1), UNBOUNDED
        mean, low, high = student_band(binned, bounds)
        columns = {"window": windows, "mean": mean, "low": low, "high": high}
    rounded = {name: np.round(np.asarray(column, np.float64), 6) for name, column in columns.items()}
    return pl.DataFrame(rounded).with_columns(contender=pl.lit(contender), measure=pl.lit(line.name))


def _binned(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averages neighbouring windows until at most `MAX_POINTS` remain: [seeds, bins] and the last window of each bin."""
    width = -(-curves.shape[1] // MAX_POINTS)
    bins = curves.shape[1] // width
    covered = curves[:, : bins * width].astype(np.float64)
    return covered.reshape(len(curves), bins, width).mean(axis=2), np.arange(1, bins + 1) * width


def spoken_ticks(results: Results) -> tuple[np.ndarray, str]:
    """[windows] the step or episode at the end of each window, and which of the two it is."""
    return results.ends, next(iter(results.description["stream"]["segment_length"])).removesuffix("s")


def _legend(title: str) -> alt.Legend:
    return alt.Legend(
        title=title, orient="right", symbolType="stroke", symbolStrokeWidth=2.5, symbolOpacity=1, labelLimit=0
    )
