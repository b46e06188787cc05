"""Each agent's curve beside the published one, one panel per agent."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import (
    Line,
    about_published,
    band_rows,
    colours,
    dash_of,
    learning_curves,
    published_curves,
)
from remanence.results.published import Published, overlaps
from remanence.results.store import Results

WIDTH, HEIGHT = 560, 130


def curves_with_published(
    results: Results, lines: Sequence[Line], published: Published, title: str, x: str, y: str = "", smooth: int = 1
) -> dict[str, alt.TopLevelMixin]:
    """The figure of all agents, with the published curves, and the figure of each agent alone, if any was published."""
    return {
        "curves": learning_curves(results, lines, title, x, y, smooth=smooth, published=published),
        **beside_published(results, lines, published, title, x, y, smooth),
    }


def beside_published(
    results: Results, lines: Sequence[Line], published: Published, title: str, x: str, y: str = "", smooth: int = 1
) -> dict[str, alt.TopLevelMixin]:
    """Where curves of several agents lie on each other, this figure shows each agent alone. Empty without a published curve."""
    shared = overlaps(results, published, [line.metric for line in lines])
    names = [name for name in results.contenders if any(name == contender for contender, _ in shared)]
    if not names:
        return {}
    label, shades = y or metric_of(lines[0].metric).label, colours(results.contenders)
    panels = []
    for name in names:
        below = x if name == names[-1] else None
        along = alt.X("window:Q", title=below, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
        rows = pl.concat(band_rows(results, name, line, smooth) for line in lines)
        base = alt.Chart(inline(rows.to_dicts())).encode(x=along, detail="measure:N")
        band = base.mark_area(opacity=0.3, color=shades[name]).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
        curve = base.mark_line(strokeWidth=1.2, color=shades[name]).encode(y="mean:Q", strokeDash=dash_of(lines))
        of_name = {pair: one for pair, one in shared.items() if pair[0] == name}
        panels.append(
            alt.layer(band, curve, published_curves(of_name, along)).properties(
                width=WIDTH, height=HEIGHT, title=alt.TitleParams(name, fontSize=12)
            )
        )
    about = about_published(results, published, next(iter(shared.values())))
    heading = alt.TitleParams(f"{title}: each agent", subtitle=[f"ours in color, with 90 % bands; {about}"])
    return {
        "published": alt.vconcat(*panels, spacing=6).resolve_scale(x="shared", y="shared").properties(title=heading)
    }
