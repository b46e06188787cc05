"""The error on a new task against the number of tasks seen, one panel per distance between tasks."""

from __future__ import annotations

from collections.abc import Mapping

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.report.figures import colour_scale, seeds_and_bands
from remanence.results.statistics import band as student_band
from remanence.results.store import Results
from remanence.results.summary import auc


def diameter_panels(results: Results, places: Mapping[str, tuple[str, float, int]], metric: str) -> alt.TopLevelMixin:
    """`places`: contender -> agent, distance ε, tasks seen."""
    rows = []
    for name, (agent, diameter, switches) in places.items():
        sample = auc(results, name, metric)
        if not sample.size:
            continue
        mean, low, high = map(float, student_band(sample, metric_of(metric).bounds))
        hypers = results.description["contenders"][name]["hypers"]
        rows.append(
            {
                "agent": agent,
                "diameter": diameter,
                "switches": switches,
                "mean": mean,
                "low": low,
                "high": high,
                "steps": ", ".join(f"{key} {value:g}" for key, value in hypers.items()) or "none",
            }
        )
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    seen = sorted({row["switches"] for row in rows})
    colours = alt.Color(
        "agent:N",
        scale=colour_scale(agents),
        legend=alt.Legend(title="agent", symbolType="stroke", symbolStrokeWidth=2.5, symbolOpacity=1),
    )
    panels, label = [], metric_of(metric).label
    for diameter in sorted({row["diameter"] for row in rows}):
        base = alt.Chart(inline([row for row in rows if row["diameter"] == diameter])).encode(
            x=alt.X(
                "switches:Q",
                title="tasks seen before",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(values=seen, grid=False, format="d"),
            ),
            color=colours,
        )
        up = alt.Y("mean:Q", title=None if panels else label, scale=alt.Scale(zero=True))
        band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title=None if panels else label), y2="high:Q")
        line = base.mark_line(point=True).encode(
            y=up, tooltip=["agent:N", "switches:Q", alt.Tooltip("mean:Q", format=".4f"), alt.Tooltip("steps:N")]
        )
        panels.append((band + line).properties(width=150, height=220, title=alt.TitleParams(f"ε = {diameter:g}")))
    title = alt.TitleParams(
        "Exact error on a new task",
        subtitle=[
            f"mean over the rounds of the new task and over all possible new tasks; {seeds_and_bands(results, 'bands')}; "
            "each panel has its own scale"
        ],
    )
    return alt.hconcat(*panels, spacing=14).properties(title=title)
