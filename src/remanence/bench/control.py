"""Figure 4 with its complete grid of step sizes: the engine on all of it, an ordinary scalar loop on a part.

The loop below is like a research script: one seed at a time, one step at a time, a NumPy table, a list of visited pairs. It runs a
few seeds of one cell; the time for all of them is extrapolated from its steps per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from remanence.agents.base import hypers_of
from remanence.bench.measure import Report, Row, memory_row, spread
from remanence.core import backend
from remanence.core.types import Hypers
from remanence.experiments import get
from remanence.experiments.base import PAPER
from remanence.experiments.base import SMOKE as SMOKE_PRESET
from remanence.experiments.figure3 import DISCOUNTED_RETURN, EPSILON, GRID, SWAPPED_REWARDS
from remanence.experiments.figure4 import cell_name
from remanence.runs.jobs import lanes_of_sweep, make_driver
from remanence.streams import Stream

FIRST_SEED = 1000  # the tuning seeds of a sweep
K, DECAY = 10, 0.5  # the cell that is also run step by step
CELL = cell_name(K, DECAY)


@dataclass(frozen=True)
class Sizes:
    """How much of the figure is run."""

    preset: str = PAPER
    contenders: tuple[str, ...] = ()  # all if empty
    seeds: int = 30
    slice_seconds: float = 10.0  # how long the usual loop runs; at least one life


FULL = Sizes()
SMOKE = Sizes(SMOKE_PRESET, contenders=(CELL,), seeds=2, slice_seconds=0.0)


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Runs every lane of the sweep of Figure 4 once: some minutes."""
    plan = get("figure4").plan(sizes.preset)
    plan = plan.select(sizes.contenders or plan.contenders)
    hypers = hypers_of(plan.contenders[CELL].config)
    steps, lanes, scores = 0, 0, []
    started = time.monotonic()
    for group in lanes_of_sweep(plan, range(FIRST_SEED, FIRST_SEED + sizes.seeds)):
        driver = make_driver(plan, group[0].config)
        progress(f"{group[0].contender}: {len(group)} lanes")
        for some in driver.iter_finished(
            [lane.hypers for lane in group], [lane.seed for lane in group], at_once=plan.lanes_at_once
        ):
            for number, outcome in some.items():
                steps += int(outcome.steps)
                lanes += 1
                if group[number].contender == CELL and group[number].hypers == hypers:
                    scores.append(float(outcome.record["curves"][DISCOUNTED_RETURN].mean()))
    seconds = time.monotonic() - started
    progress("the usual loop, for some seconds")
    rate, usual_scores = _usual_rate(hypers, plan.stream, sizes.slice_seconds)
    return Report(
        "control",
        [
            Row("cores", backend.cores(), ""),
            Row("engine: whole grid", seconds, "s", f"{lanes} lanes, compiling included"),
            Row("engine: steps", steps, "steps"),
            Row("engine", steps / seconds, "steps/s", "compiling included"),
            Row("usual loop", rate, "steps/s", "one core"),
            Row("usual loop: whole grid", steps / rate / 3600, "h", "from its rate on a slice"),
            Row("engine / usual loop", steps / seconds / rate, "×"),
            _score_row("engine", scores),
            _score_row("usual loop", usual_scores),
            *memory_row(),
        ],
    )


def _score_row(who: str, scores: list[float]) -> Row:
    return Row(f"{who}: mean discounted return, {CELL}", float(np.mean(scores)), "return", spread(np.array(scores)))


def _usual_rate(hypers: Hypers, stream: Stream, seconds: float) -> tuple[float, list[float]]:
    """Steps per second of the usual loop, and the mean return of each life."""
    started, steps, scores = time.perf_counter(), 0, []
    while not scores or time.perf_counter() - started < seconds:
        lived, score = _life(
            hypers, len(scores), stream.segments * stream.segment_length.count, stream.segment_length.count
        )
        steps += lived
        scores.append(score)
    return steps / (time.perf_counter() - started), scores


def _life(hypers: Hypers, seed: int, episodes: int, segment_length: int) -> tuple[int, float]:
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
        if (episode + 1) % K == 0:
            target = permanent + transient
            for pair in visited:
                permanent[pair] += hypers.permanent_lr * (target[pair] - permanent[pair])
            transient *= hypers.decay
            visited.clear()
    return steps, returns / episodes
