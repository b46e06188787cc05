"""Every metric once: its name, what it means, its unit, which direction is better, and its label on an axis.

A curve has one value per window. A window is an episode where a life counts episodes, and a number of steps where it counts steps.

Episodes in windows of steps: an episode counts in the window in which it ends. One that a task switch cuts off counts nowhere. In a
window in which no episode ends, `return` and `episode_length` keep the value of the window before; they are 0 until the first
episode has ended. So a record holds no NaN, except of lanes that were stopped.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Metric:
    name: str
    meaning: str
    unit: str
    """empty where the number has none"""
    higher_is_better: bool | None
    """None where neither direction is better"""
    label: str
    """on an axis"""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """values outside of these are impossible: intervals and bands do not leave them"""
    about_parts: bool = False
    """whether it tells how an agent works, not how well: it has its own panel"""


NOT_NEGATIVE = (0.0, math.inf)

_ERROR_OF = "root mean squared value error on the current task"
METRICS: dict[str, Metric] = {
    one.name: one
    for one in (
        Metric(
            "rmsve_current",
            f"{_ERROR_OF}, weighted as in the paper's figure",
            "value",
            False,
            "RMSVE, current task",
            NOT_NEGATIVE,
        ),
        Metric(
            "rmsve_current_unweighted",
            f"{_ERROR_OF}, all points with equal weight",
            "value",
            False,
            "RMSVE, current task, unweighted",
            NOT_NEGATIVE,
        ),
        Metric(
            "rmsve_others",
            "mean over the other tasks of the root mean squared error of what the agent keeps at a switch",
            "value",
            False,
            "RMSVE, other tasks",
            NOT_NEGATIVE,
        ),
        Metric(
            "mse_others",
            "mean over the other tasks of the mean squared error of what the agent keeps at a switch",
            "value²",
            False,
            "MSE, other tasks",
            NOT_NEGATIVE,
        ),
        Metric(
            "rmsve_permanent",
            "root mean squared distance of what the agent keeps at a switch from the mean value over tasks",
            "value",
            None,
            "distance of V^P from the mean over tasks",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric("mse", "mean squared value error", "value²", False, "MSE", NOT_NEGATIVE),
        Metric(
            "return",
            "undiscounted return of the episode, or the mean over the episodes that ended in the window",
            "reward",
            True,
            "return per episode",
        ),
        Metric("discounted_return", "Σ γ^t R of the episode", "reward", True, "discounted return"),
        Metric(
            "return_last100",
            "mean undiscounted return of the last 100 episodes, fewer until there are 100, 0 before the first ends",
            "reward",
            True,
            "return, mean of the last 100 episodes",
        ),
        Metric(
            "return_average",
            "moving average of undiscounted returns, R ← 0.99 R + 0.01 G after each episode, starting at 0",
            "reward",
            True,
            "return, moving average over episodes",
        ),
        Metric("regret", "optimal value of the start state minus the discounted return", "reward", False, "regret"),
        Metric("reward_rate", "reward per step of the window", "reward per step", True, "reward per step"),
        Metric("steps", "number of steps of the episode", "steps", False, "steps per episode", NOT_NEGATIVE),
        Metric(
            "episode_length",
            "number of steps of the episode, or the mean over the episodes that ended in the window",
            "steps",
            None,
            "steps per episode",
            NOT_NEGATIVE,
        ),
        Metric(
            "episodes",
            "number of episodes that ended in the window",
            "episodes",
            None,
            "episodes per window",
            NOT_NEGATIVE,
        ),
        Metric(
            "absorbed",
            "share of V^T that V^P absorbed at the last consolidation, on visited states; 0 before the first",
            "",
            None,
            "share of V^T absorbed",
            about_parts=True,
        ),
        Metric(
            "kept",
            "share of V^T that was left after the last consolidation, on visited states; 1 before the first",
            "",
            None,
            "share of V^T kept",
            about_parts=True,
        ),
        Metric(
            "jump",
            "root mean squared change of V^P + V^T by the last consolidation, on visited states",
            "value",
            None,
            "jump of V^P + V^T",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric(
            "permanent_size",
            "mean |V^P| of the states visited recently",
            "value",
            None,
            "|V^P|",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric(
            "transient_size",
            "mean |V^T| of the states visited recently; |V| of an agent without a permanent part",
            "value",
            None,
            "|V^T|",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric(
            "permanent_drift",
            "Euclidean distance of the weights of V^P from their start, at the last consolidation",
            "",
            None,
            "drift of V^P",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric(
            "transient_drift",
            "Euclidean distance of the weights of V^T from their start, before the last consolidation",
            "",
            None,
            "drift of V^T",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric(
            "value_ratio",
            "largest |V| of the states visited recently, relative to what rewards allow: the largest |reward| so far / (1 − γ)",
            "",
            None,
            "largest |V| / what rewards allow",
            NOT_NEGATIVE,
            about_parts=True,
        ),
        Metric("task", "index of the task at the end of the window", "", None, "task"),
        Metric("game", "index of the game at the end of the window", "", None, "game"),
        Metric(
            "parameter", "value of the environment's changing parameter at the end of the window", "", None, "parameter"
        ),
    )
}

FAMILIES: dict[str, Metric] = {
    one.name: one
    for one in (
        Metric(
            "collected_",
            "number of items of a kind collected since the start",
            "items",
            None,
            "items collected",
            NOT_NEGATIVE,
        ),
        Metric("rmsve_", "root mean squared value error", "value", False, "value error (RMSVE)", NOT_NEGATIVE),
        Metric("mse_", "mean squared value error", "value²", False, "value error (MSE)", NOT_NEGATIVE),
    )
}
"""metrics that share a prefix; what follows the prefix says which one it is"""


def metric(name: str) -> Metric:
    """The metric of a name. A name that is not in the table (of your own probe) has no unit, no meaning and no direction."""
    if name in METRICS:
        return METRICS[name]
    for prefix, family in FAMILIES.items():
        if name.startswith(prefix):
            return replace(family, name=name, label=f"{family.label}, {name.removeprefix(prefix).replace('_', ' ')}")
    return Metric(name, "", "", None, name.replace("_", " "))


POSSIBLE = 1.1  # `value_ratio` above this, late in a life, is worth a warning: a network errs by a few per cent


def impossible_values(name: str, ratios: list[float], fields: Collection[str] = ()) -> str | None:
    """A warning if values exceed what rewards allow, with what helps an agent of this kind.

    Args:
        ratios: the largest `value_ratio` of each life.
        fields: the names of the fields of its configuration.
    """
    worst = max(ratios, default=0.0)
    if not worst > POSSIBLE:
        return None
    many = sum(ratio > POSSIBLE for ratio in ratios)
    return (
        f"{name}: values exceed what rewards allow, in {many} of {len(ratios)} seeds: up to {worst:.2g} times the largest reward "
        f"/ (1 − γ): {_against_growth(fields)}"
    )


def _against_growth(fields: Collection[str]) -> str:
    if "consolidate_every" in fields:
        return "absorb plus decay should be at most 1 (docs/agents/pt-dqn.md)"
    if "target_every" in fields:
        return "try a smaller step size, double=True or a larger target_every (docs/agents/dqn.md)"
    return "try a smaller step size"


def lower_is_better(name: str) -> bool:
    """Whether a smaller value is better. A metric without a direction is treated as one that should rise."""
    return metric(name).higher_is_better is False
