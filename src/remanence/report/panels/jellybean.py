"""Items collected in Jelly Bean World, and the agent's values of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from remanence.core.lazy import alt
from remanence.metrics import NOT_NEGATIVE
from remanence.report.data import inline
from remanence.report.figures import colour_scale, seeds_and_bands
from remanence.results.statistics import band as student_band
from remanence.results.store import Results

if TYPE_CHECKING:
    from remanence.worlds.jellybean.pictures import Walk

KINDS = ("blue", "red")  # items whose values are drawn
PARTS = {"permanent": "permanent", "transient": "transient", "value": "their sum"}


def items_per_task(results: Results, prefix: str) -> alt.TopLevelMixin:
    """Bars: items of each kind collected in each task, mean over seeds with 90 % intervals. Scales differ by kind."""
    kinds = [metric.removeprefix(prefix) for metric in results.metrics if metric.startswith(prefix)]
    names, length = results.contenders, results.segment_length
    rows = []
    for name in names:
        for kind in kinds if results.sound_seeds(name) else ():
            so_far = results.matrix(name, prefix + kind)[:, length - 1 :: length].astype(np.float64)
            counts = np.diff(so_far, axis=1, prepend=0.0)  # [seeds, tasks]
            rows += [
                {"agent": name, "kind": kind, "task": task + 1, "count": mean, "low": low, "high": high}
                for task, (mean, low, high) in enumerate(zip(*student_band(counts, NOT_NEGATIVE), strict=True))
            ]
    shades = alt.Color("agent:N", scale=colour_scale(names), title="agent")
    panels = []
    for kind in kinds:
        base = alt.Chart(inline([row for row in rows if row["kind"] == kind])).encode(
            x=alt.X("task:O", title="task", axis=alt.Axis(labelAngle=0)), xOffset=alt.XOffset("agent:N", sort=names)
        )
        bars = base.mark_bar().encode(
            y=alt.Y("count:Q", title=f"{kind} items"), color=shades, tooltip=["agent:N", "task:O", "count:Q"]
        )
        intervals = base.mark_rule(color="#333333").encode(y="low:Q", y2="high:Q")
        panels.append((bars + intervals).properties(width=560, height=110))
    title = alt.TitleParams(
        "Items collected in each task",
        subtitle=[f"{seeds_and_bands(results)}; blue is worth +2 in odd tasks, −1 in even ones, red the reverse"],
    )
    return alt.vconcat(*panels, spacing=8).properties(title=title)


def world_scene(walk: Walk) -> alt.TopLevelMixin:
    """The world around an agent that has walked to the nearest item, with its path and its view."""
    radius, side = walk.radius, 2 * walk.radius + 1
    axis = {"axis": None, "scale": alt.Scale(domain=[-radius - 0.5, radius + 0.5], nice=False)}
    along, up = alt.X("x:Q", **axis), alt.Y("y:Q", **axis)
    names = list(walk.kinds)
    pixels = 420 / side
    squares = (
        alt.Chart(inline(list(walk.items)))
        .mark_square(size=pixels**2, opacity=1)
        .encode(x=along, y=up, color=alt.Color("kind:N", title="item", scale=alt.Scale(domain=names, range=names)))
    )
    way = (
        alt.Chart(inline(list(walk.path)))
        .mark_line(color="#999999", strokeWidth=1.5)
        .encode(x=along, y=up, order="step:Q")
    )
    seen, reach = walk.vision_range + 0.5, {"x": 0, "y": 0}
    window = (
        alt.Chart(inline([{"x": -seen, "x2": seen, "y": -seen, "y2": seen}]))
        .mark_rect(fillOpacity=0, stroke="black", strokeWidth=1.5)
        .encode(x=along, x2="x2:Q", y=up, y2="y2:Q")
    )
    agent = (
        alt.Chart(inline([reach])).mark_point(shape="cross", color="black", filled=True, size=70).encode(x=along, y=up)
    )
    title = alt.TitleParams(
        f"Jelly Bean World, seed {walk.seed}",
        subtitle=[f"after {walk.steps} steps towards the nearest item; the frame is the agent's view"],
    )
    return alt.layer(way, squares, window, agent).properties(width=420, height=420, title=title)


def value_fields(results: Results, contender: str) -> dict[str, alt.TopLevelMixin]:
    """The value of the best action when a single item is visible, by its position and by part, at the end of the last two tasks."""
    if not len(results.maps) or contender not in results.contenders:
        return {}
    lanes = results.lanes.filter(pl.col("contender") == contender)["lane"].to_list()
    maps = results.maps.filter(pl.col("lane").is_in(lanes))
    windows = maps["window"].unique().sort().to_list()[-2:]
    values = (
        maps.filter(pl.col("window").is_in(windows))
        .group_by("lane", "window", "part", "point")
        .agg(pl.col("value").max())  # of the best action
        .group_by("window", "part", "point")
        .agg(pl.col("value").mean())
    )
    places = int(values["point"].max()) + 1  # type: ignore[arg-type]
    side = int(np.sqrt(places // len(KINDS)))
    rows = [
        {
            "item": f"{KINDS[point // side**2]} item, end of task {window // results.segment_length}",
            "part": PARTS[part],
            "x": point % side**2 // side - side // 2,
            "y": point % side - side // 2,
            "value": float(f"{value:.4g}"),
        }
        for window, part, point, value in values.sort("window", "point").iter_rows()
    ]
    columns = list(dict.fromkeys(row["item"] for row in rows))
    panels = []
    for part in PARTS.values():
        shown = [row for row in rows if row["part"] == part]
        top = max(abs(row["value"]) for row in shown) or 1.0
        squares = (
            alt.Chart(inline(shown))
            .mark_rect()
            .encode(
                x=alt.X("x:O", axis=None),
                y=alt.Y("y:O", axis=None, sort="descending"),
                color=alt.Color("value:Q", title=part, scale=alt.Scale(scheme="blueorange", domain=[-top, top])),
                tooltip=["x:O", "y:O", alt.Tooltip("value:Q", format=".4f")],
            )
            .properties(width=120, height=120)
            .facet(column=alt.Column("item:N", sort=columns, title=None))
        )
        panels.append(squares)
    title = alt.TitleParams(
        f"Values of {contender} for a single item at each position of its view",
        subtitle=["value of the best action, agent at the center; mean over seeds"],
    )
    return {"values": alt.vconcat(*panels).resolve_scale(color="independent").properties(title=title)}
