"""Heat maps of values over the cells of a grid."""

from __future__ import annotations

import numpy as np
import polars as pl

from remanence.core.lazy import alt
from remanence.report.data import inline
from remanence.results.store import Results

CELL = 26
VALUE_SCALE = {"scheme": "viridis", "domain": [0, 1]}


def lattice(values: pl.DataFrame, title: str, numbers: bool) -> alt.TopLevelMixin:
    """One heat map per task. `values` has columns x, y, task, value on a regular lattice, y upwards."""
    cells = len(values["x"].unique())
    side = CELL * cells if numbers else 11 * cells
    digits = pl.col("x").round(3), pl.col("y").round(3), pl.col("value").round(4)
    base = alt.Chart(inline(values.with_columns(*digits).to_dicts())).encode(
        x=alt.X("x:O", axis=None), y=alt.Y("y:O", axis=None, sort="descending")
    )
    tooltip = [alt.Tooltip("x:O"), alt.Tooltip("y:O"), alt.Tooltip("value:Q", format=".3f")]
    squares = base.mark_rect().encode(
        color=alt.Color("value:Q", scale=alt.Scale(**VALUE_SCALE), title="value"), tooltip=tooltip
    )
    layers = [squares, _numbers(base, "datum.value < 0.6")] if numbers else [squares]
    tasks = values["task"].unique(maintain_order=True).to_list()
    return (
        alt.layer(*layers)
        .properties(width=side, height=side)
        .facet(column=alt.Column("task:N", title=None, sort=tasks))
        .properties(title=title)
    )


def evolution(results: Results, truth: np.ndarray, size: int) -> alt.TopLevelMixin:
    """Rows: true values, TD, PT-TD and its two parts. Columns: episodes. Means over seeds.

    `truth`: [tasks, states] over a square grid of `size`² cells, row by row from the top.
    """
    order, segment_length = results.description["stream"]["order"], results.segment_length
    windows = results.maps["window"].unique().sort().to_list()
    labels = {window: f"episode {window}, task {order[(window - 1) // segment_length] + 1}" for window in windows}
    top = float(np.ceil(truth.max() * 10) / 10)
    values, corrections = (
        alt.Scale(scheme="viridis", domain=[0, top]),
        alt.Scale(scheme="blueorange", domain=[-top, top]),
    )
    rows = [
        _strip(_truth_rows(truth, order, segment_length, windows), labels, size, "true value", values, heading=True)
    ]
    shown = (
        ("TD", "value", "TD", values),
        ("PT-TD", "value", "PT-TD", values),
        ("PT-TD", "permanent", "permanent", values),
        ("PT-TD", "transient", "transient", corrections),
    )
    for contender, part, label, scale in shown:
        if contender in results.contenders:
            rows.append(_strip(_mean_map(results, contender, part), labels, size, label, scale))
    title = alt.TitleParams(
        "How predictions evolve",
        subtitle=[
            "after the given number of episodes; the task changes every " + f"{segment_length} episodes",
            "PT-TD = permanent + transient",
        ],
    )
    return alt.vconcat(*rows, spacing=6).resolve_scale(color="independent").properties(title=title)


def _truth_rows(truth: np.ndarray, order: list[int], segment_length: int, windows: list[int]) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame(
            {
                "window": window,
                "point": np.arange(truth.shape[1]),
                "value": truth[order[(window - 1) // segment_length]],
            }
        )
        for window in windows
    )


def _mean_map(results: Results, contender: str, part: str) -> pl.DataFrame:
    lanes = results.lanes.filter((pl.col("contender") == contender) & ~pl.col("diverged"))["lane"].to_list()
    rows = results.maps.filter(pl.col("lane").is_in(lanes) & (pl.col("part") == part))
    return rows.group_by("window", "point").agg(pl.col("value").mean()).sort("window", "point")


def _strip(
    values: pl.DataFrame, labels: dict[int, str], size: int, name: str, scale: alt.Scale, heading: bool = False
) -> alt.FacetChart:
    """One row of heat maps, one per window."""
    row, column = np.divmod(values["point"].to_numpy(), size)
    table = values.with_columns(
        x=pl.Series(column),
        y=pl.Series(row),
        value=pl.col("value").round(3),
        when=pl.col("window").replace_strict(labels),
    ).drop("point", "window")
    base = alt.Chart(inline(table.to_dicts())).encode(x=alt.X("x:O", axis=None), y=alt.Y("y:O", axis=None))
    squares = base.mark_rect().encode(
        color=alt.Color("value:Q", scale=scale, title=name, legend=alt.Legend(gradientLength=70)),
        tooltip=[alt.Tooltip("when:N"), alt.Tooltip("value:Q", format=".3f")],
    )
    header = alt.Header(labelFontSize=10, labelExpr="split(datum.label, ', ')") if heading else alt.Header(labels=False)
    side = 17 * size
    return (
        squares.properties(width=side, height=side)
        .facet(column=alt.Column("when:N", title=None, sort=list(labels.values()), header=header), spacing=6)
        .properties(title=alt.TitleParams(name, orient="left", anchor="middle", fontSize=12, angle=270))
    )


def _numbers(base: alt.Chart, dark_if: str) -> alt.Chart:
    return base.mark_text(fontSize=9).encode(
        text=alt.Text("value:Q", format=".2f"), color=alt.condition(dark_if, alt.value("white"), alt.value("black"))
    )
