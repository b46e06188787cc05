"""Exact learning curves: small ones by the thousand, a large one, and the simulation that would be needed for the same digits."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from remanence.bench.measure import Report, Row
from remanence.theory import RewardProcess, learning_curve, stability_limit
from remanence.theory.simulation import simulate_rounds
from remanence.theory.task_diameter import task_diameter_process

ROUNDS, COMBINATIONS, LARGE = 1000, 1000, 200
RUNS = 2_000  # of the simulation that is timed


def run(progress: Callable[[str], None]) -> Report:
    """A few seconds."""
    rng = np.random.default_rng(0)
    small = task_diameter_process(1.0)
    alone = RewardProcess(small.transitions[0], small.rewards[0], small.discount, variance=small.variance[0])
    starts, steps = rng.normal(size=(COMBINATIONS, small.num_states)), rng.uniform(0.001, 0.1, size=(COMBINATIONS, 1))
    large = RewardProcess(rng.dirichlet(np.ones(LARGE), size=LARGE), rng.normal(size=LARGE), 0.9, variance=0.01)
    progress("exact curves")
    first = _seconds(lambda: learning_curve(alone, steps, ROUNDS, 10, starts))
    again = _seconds(lambda: learning_curve(alone, steps, ROUNDS, 10, starts))
    large_first = _seconds(lambda: learning_curve(large, 0.01, ROUNDS, 10))
    large_again = _seconds(lambda: learning_curve(large, 0.01, ROUNDS, 10))
    progress("stability limit")
    limit = _seconds(lambda: stability_limit(large, 10))
    progress("simulation")
    simulate_rounds(alone, 0, 0.01, 1, 10, 1, 0)  # compiles
    simulated = _seconds(lambda: simulate_rounds(alone, 0, 0.01, ROUNDS, 10, RUNS, 0))
    # Three digits of an MSE need about 2 · 10⁶ runs: its relative standard error is about √(2 / runs).
    needed = simulated * 2e6 / RUNS
    return Report(
        "theory",
        [
            Row(f"7 states × {ROUNDS} rounds × {COMBINATIONS} starts and step sizes", first, "s", "with compiling"),
            Row("the same again", again, "s"),
            Row(f"{LARGE} states × {ROUNDS} rounds", large_first, "s", "with compiling"),
            Row("the same again", large_again, "s"),
            Row(f"stability limit, {LARGE} states", limit, "s"),
            Row(
                "compiled simulation of one curve to three digits", needed, "s", f"from {RUNS} runs: {simulated:.2g} s"
            ),
            Row("ratio to one exact curve of the thousand", needed / (again / COMBINATIONS), "×"),
        ],
    )


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
