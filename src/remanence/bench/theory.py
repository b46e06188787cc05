"""Exact learning curves: a thousand small ones, a large one, and the simulation that gives the same precision."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from remanence.bench.measure import Report, Row
from remanence.theory import RewardProcess, learning_curve, stability_limit
from remanence.theory.simulation import simulate_rounds
from remanence.theory.task_diameter import task_diameter_process


@dataclass(frozen=True)
class Sizes:
    """Sizes of the curves."""

    rounds: int = 1000
    combinations: int = 1000  # of starts and step sizes of the small process
    large: int = 200  # states of the large process
    runs: int = 2_000  # of the simulation that is timed


FULL = Sizes()
SMOKE = Sizes(rounds=20, combinations=10, large=10, runs=10)


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """A few seconds."""
    rng = np.random.default_rng(0)
    rounds, combinations, large = sizes.rounds, sizes.combinations, sizes.large
    small = task_diameter_process(1.0)
    single_task = RewardProcess(small.transitions[0], small.rewards[0], small.discount, variance=small.variance[0])
    starts, steps = rng.normal(size=(combinations, small.num_states)), rng.uniform(0.001, 0.1, size=(combinations, 1))
    dense = RewardProcess(rng.dirichlet(np.ones(large), size=large), rng.normal(size=large), 0.9, variance=0.01)
    progress("exact curves")
    first = _seconds(lambda: learning_curve(single_task, steps, rounds, 10, starts))
    again = _seconds(lambda: learning_curve(single_task, steps, rounds, 10, starts))
    large_first = _seconds(lambda: learning_curve(dense, 0.01, rounds, 10))
    large_again = _seconds(lambda: learning_curve(dense, 0.01, rounds, 10))
    progress("stability limit")
    limit = _seconds(lambda: stability_limit(dense, 10))
    progress("simulation")
    simulate_rounds(single_task, 0, 0.01, 2, 10, 2, 0)  # compiles; arrays of one element would have another type
    simulated = _seconds(lambda: simulate_rounds(single_task, 0, 0.01, rounds, 10, sizes.runs, 0))
    # Three digits of an MSE need about 2 · 10⁶ runs: its relative standard error is about √(2 / runs).
    needed = simulated * 2e6 / sizes.runs
    many = f"{small.num_states} states × {rounds} rounds × {combinations} starts and step sizes"
    one = f"{large} states × {rounds} rounds"
    return Report(
        "theory",
        [
            Row(many, first, "s", "with compiling"),
            Row(f"{many}, again", again, "s"),
            Row(one, large_first, "s", "with compiling"),
            Row(f"{one}, again", large_again, "s"),
            Row(f"stability limit, {large} states", limit, "s"),
            Row(
                "compiled simulation of one curve to three digits",
                needed,
                "s",
                f"from {sizes.runs} runs: {simulated:.2g} s",
            ),
            Row("ratio to one exact curve of the many", needed / (again / combinations), "×"),
        ],
    )


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
