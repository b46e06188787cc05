"""How a mean and its interval are written in tables: everywhere with the same ±."""

from __future__ import annotations

from remanence.results.statistics import Estimate

PLUS_MINUS = "± is half the width of Student's 90 % interval of the mean over seeds (t σ/√n)."
ABOUT_GAINS = (
    "By forgetting: the control that never consolidates minus the learner without a permanent part. By remembering: PT minus the "
    "control. Paired over seeds; positive is better. The paper has no such control."
)


def with_margin(estimate: Estimate | None, digits: int) -> str:
    """The mean ± half the width of its interval; without it for one seed; a dash for nothing.

    An end that was clipped to what is possible is not used: the other end has the same distance from the mean.
    """
    if estimate is None:
        return "–"
    margin = max(estimate.high - estimate.mean, estimate.mean - estimate.low)
    return f"{estimate.mean:.{digits}f}" + (f" ± {margin:.{digits}f}" if margin == margin else "")


def of_summary(summary: dict) -> Estimate | None:
    """The area under a curve in a summary, as an estimate; None if every seed diverged."""
    if summary["auc_mean"] is None:
        return None
    low, high = (float("nan") if end is None else end for end in summary["auc_interval"])
    return Estimate(summary["auc_mean"], low, high)
