"""Common parts of the prediction panels: tasks, contenders, claims and the figure (paper, §5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from remanence.agents.configs import PTTD, TD
from remanence.agents.linear import FeatureConfig
from remanence.core.lazy import alt
from remanence.metrics import FAMILIES
from remanence.report.figures import Line
from remanence.report.panels.published import curves_with_published
from remanence.results.claims import Claim, Finding, claim, is_below, lower
from remanence.results.published import Published
from remanence.results.store import Results
from remanence.results.summary import at_switches, auc
from remanence.runs.plan import Contender
from remanence.worlds.grids.corner import CORNER_TASKS

GOAL_REWARDS = CORNER_TASKS

# Step sizes searched for all three grids (paper, App. C.4).
STEP_SIZES = (0.8, 0.5, 0.3, 0.1, 0.05, 0.01)
PERMANENT_STEP_SIZES = (0.1, 0.05, 0.01, 0.005, 0.001)

CURRENT, OTHERS = "rmsve_current", "rmsve_others"


@dataclass(frozen=True)
class StepSizes:
    """The chosen step size of each contender."""

    td: float
    td_reset: float
    permanent: float
    transient: float


def contenders(features: FeatureConfig, buffer: int | None, chosen: StepSizes) -> dict[str, Contender]:
    """TD, TD-reset and PT-TD over the same features, under the uniformly random policy."""
    single = {"lr": STEP_SIZES}
    double = {"permanent_lr": PERMANENT_STEP_SIZES, "transient_lr": STEP_SIZES}
    permanent, transient = chosen.permanent, chosen.transient
    return {
        "TD": Contender(TD(lr=chosen.td, features=features), single),
        "TD-reset": Contender(TD(lr=chosen.td_reset, features=features, reset=True), single),
        "PT-TD": Contender(
            PTTD(permanent_lr=permanent, transient_lr=transient, features=features, buffer=buffer), double
        ),
    }


def figures(results: Results, title: str, published: Published) -> dict[str, alt.TopLevelMixin]:
    """The panel in the paper's look: solid is the current task, dotted the other tasks."""
    lines = (Line(CURRENT, "current task", dotted=False), Line(OTHERS, "other tasks", dotted=True))
    return curves_with_published(results, lines, published, title, x="episode", y=FAMILIES["rmsve_"].label)


def claims(results: Results) -> list[Claim]:
    """The claims of §5.1 ("Observations") about a prediction panel."""
    names = results.contenders
    aucs = {metric: {name: auc(results, name, metric) for name in names} for metric in (CURRENT, OTHERS)}
    first = {name: at_switches(results, name, CURRENT)[1] for name in names if results.switches}
    less = partial(lower, results)
    return [
        claim(
            "current-lowest",
            "PT-TD has the lowest error on the current task, over the whole experiment",
            *(less("PT-TD", rival, aucs[CURRENT], "AUC") for rival in ("TD", "TD-reset")),
        ),
        claim(
            "others-lowest",
            "PT-TD has the lowest error on the other tasks, over the whole experiment",
            *(less("PT-TD", rival, aucs[OTHERS], "AUC") for rival in ("TD", "TD-reset")),
        ),
        claim(
            "reset-poor",
            "TD-reset performs poorly: its error on the current task is the highest",
            *(less(better, "TD-reset", aucs[CURRENT], "AUC") for better in ("TD", "PT-TD")),
        ),
        claim(
            "td-biased-after-switch",
            "TD has high errors immediately after a switch, biased towards the past task: higher than just before it, "
            "and higher than PT-TD's",
            _jump_at_switches(results, "TD"),
            less("PT-TD", "TD", first, "first episode after a switch"),
        ),
        claim(
            "td-forgets-within-task",
            "within a task, TD's error on the current task falls and its error on the other tasks rises",
            _change_within_task(results, "TD", CURRENT, falls=True),
            _change_within_task(results, "TD", OTHERS, falls=False),
        ),
        claim(
            "pt-starts-well",
            "PT-TD starts a new task from a better point than either baseline",
            *(less("PT-TD", rival, first, "first episode after a switch") for rival in ("TD", "TD-reset")),
        ),
    ]


def _jump_at_switches(results: Results, name: str) -> Finding:
    if name not in results.contenders or not results.switches:
        return is_below(np.empty(0), np.empty(0), f"{name}: jump at switches")
    before, first, _ = at_switches(results, name, CURRENT)
    return is_below(before, first, f"{name}: last before − first after a switch")


def _change_within_task(results: Results, name: str, metric: str, falls: bool) -> Finding:
    """Whether the error falls or rises from the first to the last episode of a task that follows a switch."""
    if name not in results.contenders or not results.switches:
        return is_below(np.empty(0), np.empty(0), f"{name}: change within a task")
    _, first, last = at_switches(results, name, metric)
    if falls:
        return is_below(last, first, f"{metric}: last − first episode of a task")
    return is_below(first, last, f"{metric}: first − last episode of a task")
