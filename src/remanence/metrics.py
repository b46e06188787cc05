"""Every metric once: its name, what it means, its unit, which direction is better, and its label on an axis.

A curve has one value per window. A window is an episode where a life counts episodes, and a number of steps where it counts steps.

Episodes in windows of steps: an episode counts in the window in which it ends. One that a task switch cuts off counts nowhere. In a
window in which no episode ends, `return` and `episode_length` keep the value of the window before; they are 0 until the first
episode has ended. So a record holds no NaN, except of lanes that were stopped.
"""

from __future__ import annotations

import math
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


def lower_is_better(name: str) -> bool:
    """Whether a smaller value is better. A metric without a direction is treated as one that should rise."""
    return metric(name).higher_is_better is False
