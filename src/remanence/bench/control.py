"""Figure 4 with its complete grid of step sizes: the engine on all of it, the usual scalar loop on a slice.

The loop below is what a research script does: one life at a time, one step at a time, a NumPy table, a list of visited pairs. It
runs a few lives of one cell; what all of them would take follows from its steps per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from remanence.agents import Hypers
from remanence.bench.measure import Report, Row, peak_memory
from remanence.core import backend
from remanence.experiments import get
from remanence.experiments.base import PAPER
from remanence.experiments.figure3 import DISCOUNTED_RETURN, EPSILON, GRID, SWAPPED_REWARDS
from remanence.experiments.figure4 import cell_name
from remanence.runs.jobs import lanes_of_sweep, make_driver

SEEDS = range(1000, 1030)
SLICE_SECONDS = 10.0
PERIOD, DECAY = 10, 0.5  # the cell whose lives are also lived step by step


def run(progress: Callable[[str], None]) -> Report:
    """Lives every lane of the sweep behind Figure 4 once: some minutes."""
    plan = get("figure4").plan(PAPER)
    hypers = plan.contenders[cell_name(PERIOD, DECAY)].hypers
    assert isinstance(hypers, Hypers)
    steps, lanes, scores = 0, 0, []
    started = time.monotonic()
    for agent, group in lanes_of_sweep(plan, SEEDS):
        driver = make_driver(plan, agent)
        progress(f"{group[0].contender}: {len(group)} lanes")
        for some in driver.iter_finished(
            [lane.hypers for lane in group], [lane.seed for lane in group], at_once=plan.lanes_at_once
        ):
            for number, outcome in some.items():
                steps += int(outcome.steps)
                lanes += 1
                if group[number].contender == cell_name(PERIOD, DECAY) and group[number].hypers == hypers:
                    scores.append(float(outcome.record["curves"][DISCOUNTED_RETURN].mean()))
    seconds = time.monotonic() - started
    progress("the usual loop, for a few seconds")
    rate, usual_scores = _usual_rate(hypers)
    peak = peak_memory()
    rows = [
        Row("cores", backend.cores(), ""),
        Row("engine: whole grid", seconds, "s", f"{lanes} lanes, compiling included"),
        Row("engine: steps", steps, "steps"),
        Row("engine", steps / seconds, "steps/s", "compiling included"),
        Row("usual loop", rate, "steps/s", "one core"),
        Row("usual loop: whole grid", steps / rate / 3600, "h", "from its rate on a slice"),
        Row("engine / usual loop", steps / seconds / rate, "×"),
        Row(f"engine: mean return, {cell_name(PERIOD, DECAY)}", float(np.mean(scores)), "", _spread(scores)),
        Row(
            f"usual loop: mean return, {cell_name(PERIOD, DECAY)}",
            float(np.mean(usual_scores)),
            "",
            _spread(usual_scores),
        ),
    ]
    if peak is not None:
        rows.append(Row("memory, peak of the process", peak / 2**20, "MiB"))
    return Report("control", rows)


def _spread(scores: list[float]) -> str:
    if len(scores) < 2:
        return f"{len(scores)} lane"
    return f"standard error {np.std(scores, ddof=1) / np.sqrt(len(scores)):.4f}, {len(scores)} lanes"


def _usual_rate(hypers: Hypers) -> tuple[float, list[float]]:
    """Steps per second of the usual loop, and the mean return of each life it lived."""
    started, steps, scores = time.perf_counter(), 0, []
    while time.perf_counter() - started < SLICE_SECONDS:
        lived, score = _life(hypers, seed=len(scores))
        steps += lived
        scores.append(score)
    return steps / (time.perf_counter() - started), scores


def _life(hypers: Hypers, seed: int, episodes: int = 500, segment_length: int = 50) -> tuple[int, float]:
    """One life of PT-Q (paper, Algorithm 2), step by step."""
    rng = np.random.default_rng(seed)
    permanent, transient = np.zeros((GRID.num_states, 4)), np.zeros((GRID.num_states, 4))
    led_to, goals = GRID.successors, [GRID.cell(goal) for goal in GRID.goals]
    sideways = ((2, 3), (2, 3), (0, 1), (0, 1))
    visited: list[tuple[int, int]] = []
    steps, returns = 0, 0.0
    for episode in range(episodes):
        rewards = SWAPPED_REWARDS[episode // segment_length % 2]
        state, done, weight = GRID.cell(GRID.start), False, 1.0
        while not done:
            values = permanent[state] + transient[state]
            explores = rng.random() < EPSILON
            action = int(rng.integers(4) if explores else rng.choice(np.flatnonzero(values == values.max())))
            direction = sideways[action][rng.integers(2)] if rng.random() < GRID.slip else action
            after = led_to[state, direction]
            done = after in goals
            reward = rewards[goals.index(after)] if done else 0.0
            best = 0.0 if done else (permanent[after] + transient[after]).max()
            transient[state, action] += hypers.transient_lr * (reward + GRID.discount * best - values[action])
            visited.append((state, action))
            returns += weight * reward
            weight *= GRID.discount
            state = after
            steps += 1
        if (episode + 1) % PERIOD == 0:
            target = permanent + transient
            for pair in visited:
                permanent[pair] += hypers.permanent_lr * (target[pair] - permanent[pair])
            transient *= hypers.decay
            visited.clear()
    return steps, returns / episodes
