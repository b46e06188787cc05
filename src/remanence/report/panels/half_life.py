"""The gain over the learner against the half-life of the transient part."""

from __future__ import annotations

from collections.abc import Sequence

from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.data import inline
from remanence.results.statistics import Estimate

ADVISED = 1 / 5  # of the time between two changes


def half_life_panel(
    gains: Sequence[tuple[float, Estimate]], metric: str, title: str, learner: str, seeds: int
) -> alt.TopLevelMixin:
    """Args: gains: (half-life, relative to the length of a task; the gain)."""
    rows = [{"share": share, "gain": gain, "low": low, "high": high} for share, (gain, low, high) in gains]
    x = alt.X("share:Q", title="half-life of the transient part / length of a task", scale=alt.Scale(type="log"))
    label = f"gain in mean {metric_of(metric).label}"
    y = alt.Y("gain:Q", title=label)
    base = alt.Chart(inline(rows)).encode(x=x)
    line = base.mark_line(strokeWidth=1.2).encode(y=y)
    bars = base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", title=label), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=y, tooltip=["share:Q", "gain:Q", "low:Q", "high:Q"]
    )
    zero = alt.Chart(inline([{"gain": 0.0}])).mark_rule(strokeDash=[3, 3], opacity=0.7).encode(y="gain:Q")
    marks = [{"share": ADVISED, "text": "a fifth"}, {"share": 1.0, "text": "a task"}]
    upright = alt.Chart(inline(marks)).encode(x="share:Q")
    rules = upright.mark_rule(strokeDash=[3, 3], opacity=0.7)
    names = upright.mark_text(align="left", dx=4).encode(y=alt.value(8), text="text:N")
    subtitle = f"gain over {learner}, paired over {seeds} seeds, 90 % intervals (Student's t)"
    return (line + bars + points + zero + rules + names).properties(
        width=420, height=260, title=alt.TitleParams(title, subtitle=subtitle)
    )
