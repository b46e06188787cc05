"""The best transient lifetime against the length of tasks, from exact curves: nothing is simulated. Not in the paper.

V^P is at its fixed point E_τ[v_τ], tasks are drawn independently, V^T decays at every round of samples, and the step size is chosen
together with the lifetime, by gradients through the exact error.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from remanence.core.lazy import alt
from remanence.experiments.base import NOT_IN_PAPER, SMOKE, Experiment
from remanence.experiments.figure2 import GRID
from remanence.experiments.figure2 import corner_grid_stream as stream
from remanence.experiments.prediction import GOAL_REWARDS
from remanence.experiments.study_lifetime import DIAMETER, FULL, WRONG
from remanence.report.panels.lifetime import best_lifetimes
from remanence.results.observations import Observation
from remanence.results.store import Results
from remanence.runs.plan import Plan
from remanence.theory import BestLifetime, RewardProcess, best_lifetime, stream_moments
from remanence.theory.task_diameter import task_diameter_process
from remanence.worlds.true_values import random_walk

LENGTHS = {FULL: (25, 100, 400), SMOKE: (5, 10)}  # rounds per task, by preset
SMOKE_PROCESS = "ring of ten states"  # each one takes long to compile
SAMPLES = 10  # per round
TASKS = 5  # met before the one that is looked at


class Point(NamedTuple):
    """One process with tasks of one length."""

    process: str
    length: int
    best: BestLifetime
    short: float
    """the error with a lifetime that is too short by a factor of `WRONG`, relative to the best"""
    long: float
    """the same, too long"""
    never: float
    """the same if nothing is forgotten: TD"""


def processes() -> dict[str, RewardProcess]:
    return {
        SMOKE_PROCESS: ring(10),
        "5×5 grid": continuing_grid(),
        "App. C.2": task_diameter_process(DIAMETER),
    }


def ring(states: int) -> RewardProcess:
    """A random walk around a ring; the two tasks pay on opposite sides of it."""
    steps = np.roll(np.eye(states), 1, axis=1) + np.roll(np.eye(states), -1, axis=1)
    return RewardProcess(steps / 2, np.eye(states)[[0, states // 2]], 0.9, variance=0.01)


def continuing_grid() -> RewardProcess:
    """The prediction grid as a process without end: from a goal it goes on at the start, and values do too."""
    transitions, rewards = random_walk(GRID, GOAL_REWARDS)
    transitions[GRID.corners] = np.eye(GRID.num_states)[GRID.start]
    return RewardProcess(transitions, rewards, GRID.discount)


@cache
def points(preset: str) -> tuple[Point, ...]:
    return tuple(
        _point(name, process, length)
        for name, process in processes().items()
        if preset != SMOKE or name == SMOKE_PROCESS
        for length in LENGTHS[preset]
    )


def _point(name: str, process: RewardProcess, length: int) -> Point:
    best = best_lifetime(process, length, samples=SAMPLES, tasks=TASKS)

    def relative(lifetime: float) -> float:
        found = stream_moments(process, best.step_size, length, 1, lifetime, samples=SAMPLES, tasks=TASKS)
        return float(process.expect(found.mse.mean(axis=1))) / best.mse

    return Point(name, length, best, relative(best.lifetime / WRONG), relative(best.lifetime * WRONG), relative(np.inf))


def _observations(results: Results) -> list[Observation]:
    found = points(results.preset)
    shares = [one.best.lifetime / one.length for one in found]
    text = {
        name: "; ".join(
            f"tasks of {one.length}: best τ {one.best.lifetime:.3g} ({one.best.lifetime / one.length:.2f} of a task), a tenth of "
            f"it {one.short:.2f}, ten times {one.long:.2f}, nothing forgotten {one.never:.2f} times its error"
            for one in found
            if one.process == name
        )
        for name in dict.fromkeys(one.process for one in found)
    }
    return [
        Observation(
            "proportional",
            "the best transient lifetime is a fixed share of a task, whatever its length",
            f"between {min(shares):.2f} and {max(shares):.2f} of a task in {len(found)} exact curves",
        ),
        *(Observation(name, f"exact error, {name}", evidence) for name, evidence in text.items()),
    ]


def _figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    rows = [(one.process, one.length, one.best.lifetime) for one in points(results.preset)]
    return {"exact": best_lifetimes(rows)}


def _plan() -> Plan:
    truth = {"method": "exact moments", "samples": SAMPLES, "tasks": TASKS}
    return Plan(GRID, stream(), contenders={}, probe=lambda _: lambda _: {}, truth=truth, seeds=1)


EXPERIMENTS = (
    Experiment(
        name="study/lifetime/exact",
        figure=NOT_IN_PAPER,
        title="The best transient lifetime, by the length of tasks",
        plans={FULL: _plan, SMOKE: _plan},
        figures=_figures,
        claims=lambda _: [],
        observations=_observations,
        expected="2 min",
        remarks=(
            "Exact, as an expectation over tasks and samples; V^P is at its fixed point. A round has "
            f"{SAMPLES} samples, and lifetimes are counted in rounds.",
        ),
    ),
)
