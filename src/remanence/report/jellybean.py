"""What an agent collects in Jelly Bean World, and what it thinks items are worth."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from remanence.report.figures import colour
from remanence.results.statistics import PAPER_Z
from remanence.results.store import Results

KINDS = ("blue", "red")  # whose values are drawn
PARTS = {"permanent": "permanent Vᴾ", "transient": "transient Vᵀ", "value": "their sum"}


def items_per_task(results: Results, prefix: str) -> alt.TopLevelMixin:
    """Bars: how many items of each kind were collected in each task, mean over seeds with 90 % intervals; scales differ by kind."""
    kinds = [metric.removeprefix(prefix) for metric in results.metrics if metric.startswith(prefix)]
    names, length = results.contenders, results.segment_length
    rows = []
    for name in names:
        for kind in kinds:
            so_far = results.matrix(name, prefix + kind)[:, length - 1 :: length].astype(np.float64)
            counts = np.diff(so_far, axis=1, prepend=0.0)  # [seeds, tasks]
            margin = PAPER_Z * counts.std(axis=0, ddof=1) / np.sqrt(len(counts)) if len(counts) > 1 else 0 * counts[0]
            rows += [
                {"agent": name, "kind": kind, "task": task + 1, "count": mean, "low": mean - m, "high": mean + m}
                for task, (mean, m) in enumerate(zip(counts.mean(axis=0), margin, strict=True))
            ]
    shades = alt.Color("agent:N", scale=alt.Scale(domain=names, range=[colour(one) for one in names]), title="agent")
    panels = []
    for kind in kinds:
        base = alt.Chart(alt.Data(values=[row for row in rows if row["kind"] == kind])).encode(
            x=alt.X("task:O", title="task", axis=alt.Axis(labelAngle=0)), xOffset=alt.XOffset("agent:N", sort=names)
        )
        bars = base.mark_bar().encode(
            y=alt.Y("count:Q", title=f"{kind} items"), color=shades, tooltip=["agent:N", "task:O", "count:Q"]
        )
        intervals = base.mark_rule(color="#333333").encode(y="low:Q", y2="high:Q")
        panels.append((bars + intervals).properties(width=560, height=110))
    title = alt.TitleParams(
        "Items collected in each task",
        subtitle=[
            f"mean of {len(results.seeds)} seeds, 90 % intervals; blue is worth +2 in odd tasks, −1 in even ones, red the reverse"
        ],
    )
    return alt.vconcat(*panels, spacing=8).properties(title=title)


def value_fields(results: Results, contender: str) -> dict[str, alt.TopLevelMixin]:
    """The best action's value when a single item is seen, by its place and by part, at the end of the last two tasks."""
    if not len(results.maps) or contender not in results.contenders:
        return {}
    lanes = results.lanes.filter(pl.col("contender") == contender)["lane"].to_list()
    own = results.maps.filter(pl.col("lane").is_in(lanes))
    ticks = own["tick"].unique().sort().to_list()[-2:]
    values = (
        own.filter(pl.col("tick").is_in(ticks))
        .group_by("lane", "tick", "part", "point")
        .agg(pl.col("value").max())  # of the best action
        .group_by("tick", "part", "point")
        .agg(pl.col("value").mean())
    )
    places = int(values["point"].max()) + 1  # type: ignore[arg-type]
    side = int(np.sqrt(places // len(KINDS)))
    rows = [
        {
            "item": f"{KINDS[point // side**2]} item, end of task {tick // results.segment_length}",
            "part": PARTS[part],
            "x": point % side**2 // side - side // 2,
            "y": point % side - side // 2,
            "value": round(value, 5),
        }
        for tick, part, point, value in values.sort("tick", "point").iter_rows()
    ]
    columns = list(dict.fromkeys(row["item"] for row in rows))
    panels = []
    for part in PARTS.values():
        shown = [row for row in rows if row["part"] == part]
        top = max(abs(row["value"]) for row in shown) or 1.0
        squares = (
            alt.Chart(alt.Data(values=shown))
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
        f"What {contender} thinks of a single item in each place of its view",
        subtitle=["value of the best action, the agent in the middle; mean over seeds"],
    )
    return {"values": alt.vconcat(*panels).resolve_scale(color="independent").properties(title=title)}
