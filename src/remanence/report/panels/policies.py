"""Greedy policies and action values drawn over a grid."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import polars as pl

from remanence.core.lazy import alt
from remanence.report.data import inline
from remanence.results.store import Results

ARROWS = np.array(["↑", "↓", "←", "→"])
PARTS = (("permanent", "permanent"), ("transient", "transient"), ("value", "sum"))
CELL = 24


class Grid(Protocol):
    """The geometry of a grid. States count from the bottom left, x first."""

    @property
    def width(self) -> int: ...
    @property
    def walls(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def goals(self) -> tuple[tuple[int, int], ...]: ...


def policy_maps(results: Results, grid: Grid) -> alt.TopLevelMixin:
    """Rows: contenders and parts of PT. Columns: episodes. Color: the value of the best action; arrows: the greedy policy.

    Values are means over seeds. Cells whose best actions tie, or were never tried, have no arrow.
    """
    order, segment_length = results.description["stream"]["order"], results.segment_length
    windows = results.maps["window"].unique().sort().to_list()
    labels = {window: f"episode {window}, task {order[(window - 1) // segment_length] + 1}" for window in windows}
    rows = []
    for name in results.contenders:
        parts = PARTS if name.startswith("PT") else (("value", ""),)
        for part, label in parts:
            rows.append(_strip(results, grid, name, part, f"{name} {label}".strip(), labels, heading=not rows))
    title = alt.TitleParams(
        "Greedy policy and value of the best action",
        subtitle=[
            f"mean over seeds after the given number of episodes; the goals swap rewards every {segment_length} episodes"
        ],
    )
    return alt.vconcat(*rows, spacing=6).resolve_scale(color="shared").properties(title=title)


def _strip(
    results: Results, grid: Grid, contender: str, part: str, name: str, labels: dict[int, str], heading: bool
) -> alt.FacetChart:
    table = _best_actions(results, grid, contender, part, labels)
    base = alt.Chart(inline(table.to_dicts())).encode(
        x=alt.X("x:O", axis=None), y=alt.Y("y:O", axis=None, sort="descending")
    )
    scale = alt.Scale(scheme="redblue", domain=[-1, 1], domainMid=0)
    squares = (
        base.transform_filter("datum.kind != 'wall'")
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            color=alt.Color(
                "value:Q", scale=scale, title="value", legend=alt.Legend(gradientLength=110) if heading else None
            ),
            tooltip=[
                alt.Tooltip("when:N"),
                alt.Tooltip("x:O"),
                alt.Tooltip("y:O"),
                alt.Tooltip("value:Q", format=".3f"),
            ],
        )
    )
    walls = base.transform_filter("datum.kind == 'wall'").mark_rect(color="#444444")
    arrows = base.mark_text(fontSize=13).encode(text="arrow:N")
    header = alt.Header(labelFontSize=10, labelExpr="split(datum.label, ', ')") if heading else alt.Header(labels=False)
    side = CELL * grid.width
    return (
        alt.layer(squares, walls, arrows)
        .properties(width=side, height=side)
        .facet(column=alt.Column("when:N", title=None, sort=list(labels.values()), header=header), spacing=6)
        .properties(title=alt.TitleParams(name, orient="left", anchor="middle", fontSize=12, angle=270))
    )


def _best_actions(results: Results, grid: Grid, contender: str, part: str, labels: dict[int, str]) -> pl.DataFrame:
    """One row per window and cell: the mean value of its best action, and an arrow if there is a single best action."""
    lanes = results.lanes.filter((pl.col("contender") == contender) & ~pl.col("diverged"))["lane"].to_list()
    mean = (
        results.maps.filter(pl.col("lane").is_in(lanes) & (pl.col("part") == part))
        .group_by("window", "point", "output")
        .agg(pl.col("value").mean())
        .sort("window", "point", "output")
    )
    values = mean["value"].to_numpy().reshape(len(labels), -1, len(ARROWS))
    best = values.max(axis=-1)
    clear = np.isclose(values, best[..., None], atol=1e-6).sum(axis=-1) == 1
    walls, goals = ({x + grid.width * y for x, y in places} for places in (grid.walls, grid.goals))
    kind = np.array(["wall" if s in walls else "goal" if s in goals else "floor" for s in range(values.shape[1])])
    arrow = np.where(clear & (kind == "floor"), ARROWS[values.argmax(axis=-1)], "")
    arrow = np.where(kind == "goal", "G", arrow)
    windows, states = np.meshgrid(np.array(list(labels)), np.arange(values.shape[1]), indexing="ij")
    return pl.DataFrame(
        {
            "when": [labels[window] for window in windows.ravel().tolist()],
            "x": states.ravel() % grid.width,
            "y": states.ravel() // grid.width,
            "value": best.ravel().round(3),
            "arrow": arrow.ravel(),
            "kind": np.tile(kind, len(labels)),
        }
    )
