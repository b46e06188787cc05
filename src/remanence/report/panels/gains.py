"""PT's gain over the learner it is built on: how much of it is forgetting, how much remembering."""

from __future__ import annotations

from collections.abc import Sequence

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.results.gains import Gain

PARTS = {
    "forgetting": "by forgetting: control − learner",
    "remembering": "by remembering: PT − control",
}
COLOURS = {"forgetting": "#0072B2", "remembering": "#D55E00"}


def gains_chart(gains: Sequence[Gain]) -> alt.TopLevelMixin:
    """A point with its interval for both parts of the gain of each agent."""
    rows = [
        {"agent": one.agent, "part": part, "mean": mean, "low": low, "high": high}
        for one in gains
        for part in PARTS
        for mean, low, high in [map(float, getattr(one, part))]
    ]
    agents = [one.agent for one in gains]
    panels = []
    for part, label in PARTS.items():
        base = alt.Chart(inline([row for row in rows if row["part"] == part])).encode(
            y=alt.Y(
                "agent:N",
                title=None,
                scale=alt.Scale(domain=agents),
                axis=alt.Axis(labels=not panels, ticks=False, labelLimit=260),
            ),
            color=alt.value(COLOURS[part]),
        )
        interval = base.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", title=label, scale=alt.Scale(zero=True)), x2="high:Q"
        )
        point = base.mark_point(filled=True, size=50).encode(
            x="mean:Q", tooltip=["agent:N", alt.Tooltip("mean:Q", format=".4f")]
        )
        zero = alt.Chart(inline([{"zero": 0}])).mark_rule(strokeDash=[3, 3], opacity=0.6).encode(x="zero:Q")
        panels.append((zero + interval + point).properties(width=250, height=max(40, 17 * len(agents))))
    seeds, learners = gains[0].seeds, dict.fromkeys(one.learner for one in gains)
    title = alt.TitleParams(
        f"Gain over {' or '.join(learners)} in mean {metric_of(gains[0].metric).label}",
        subtitle=[
            f"{seeds} seeds, paired, 90 % intervals (Student's t); the control never consolidates; not in the paper"
        ],
    )
    return alt.hconcat(*panels, spacing=18).resolve_scale(x="shared").properties(title=title)
