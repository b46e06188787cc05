"""Prediction on the 5×5 corner grid: the engine, the usual step-by-step script, and a hand-written native loop.

All three live the same lives (paper, §5.1: 500 episodes, another task every 50, errors measured after every episode), and
the report shows what they learned: a loop that is fast because it is wrong would give itself away there. The engine is
measured on the sweep over the paper's step sizes, which is what it is for, and on the 30 lanes of a figure.
"""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from remanence import backend
from remanence.agents import Agent, PTHypers, TDHypers, pt_td, td
from remanence.agents.behaviour import uniform
from remanence.bench import native, stepwise
from remanence.bench.measure import Lap, Report, Result, Row, peak_memory, race, timed
from remanence.lanes import Driver
from remanence.life import Setting
from remanence.probes import value_error
from remanence.streams import Stream, cyclic
from remanence.truth import corner_grid_truth
from remanence.types import Episodes
from remanence.values import linear, one_hot
from remanence.worlds import CornerGrid

PERMANENT_LRS = (0.1, 0.05, 0.01, 0.005, 0.001)  # paper, Table of step sizes for the policy evaluation grids
TRANSIENT_LRS = (0.8, 0.5, 0.3, 0.1, 0.05, 0.01)  # and for TD
CHOSEN_PERMANENT, CHOSEN_TRANSIENT = 0.01, 0.3  # those of the paper's figure
FIGURE_LANES = 30
BUFFER = 2_000  # visited states kept for consolidation; 50 episodes visit 825 ± 95
ROUNDS = 3
SLICE_SECONDS = 0.9  # how long a step-by-step script runs in each round

WORLD = CornerGrid()
TASKS = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]], np.float32)
STREAM = Stream(TASKS, order=cyclic(len(TASKS), segments=10), span=Episodes(50), told=True)
TRUTH = corner_grid_truth(WORLD, TASKS)

ENGINE, FIGURE, USUAL, LEAN, NATIVE = "engine", "engine, one figure", "NumPy, usual", "NumPy, lean", "Numba"


@dataclass(frozen=True)
class Lanes:
    """Step sizes and seed of every lane. TD has no permanent step size: 0 stands for it."""

    permanent_lr: np.ndarray  # [lanes]
    transient_lr: np.ndarray  # [lanes]
    seeds: np.ndarray  # [lanes]

    @property
    def chosen(self) -> np.ndarray:
        """[lanes] whether the lane has the step sizes of the paper's figure."""
        return np.isin(self.permanent_lr, (0.0, CHOSEN_PERMANENT)) & (self.transient_lr == CHOSEN_TRANSIENT)


def grid(permanent_lrs: Sequence[float], transient_lrs: Sequence[float], seeds: int) -> Lanes:
    combinations = itertools.product(permanent_lrs, transient_lrs, range(seeds))
    return Lanes(*(np.array(column) for column in zip(*combinations, strict=True)))


@dataclass(frozen=True)
class Contender:
    """One algorithm, for all implementations."""

    name: str
    agent: Agent
    hypers: Callable[[float, float], Any]  # (permanent_lr, transient_lr) -> what the engine's agent takes
    script: Callable[[stepwise.Style], stepwise.TD | stepwise.PTTD]  # with the step sizes of the figure
    sweep: Lanes
    figure: Lanes
    consolidates: bool


def contenders() -> list[Contender]:
    states = WORLD.num_states
    value, behaviour = linear(one_hot(states)), uniform(WORLD.num_actions)
    return [
        Contender(
            name="TD",
            agent=td(value, behaviour),
            hypers=lambda _, lr: TDHypers(lr),
            script=lambda style: stepwise.TD(style, states, CHOSEN_TRANSIENT),
            sweep=grid([0.0], TRANSIENT_LRS, seeds=342),
            figure=grid([0.0], [CHOSEN_TRANSIENT], FIGURE_LANES),
            consolidates=False,
        ),
        Contender(
            name="PT-TD",
            agent=pt_td(value, behaviour, example_obs=jnp.int32(0), buffer=BUFFER),
            hypers=PTHypers,
            script=lambda style: stepwise.PTTD(style, states, CHOSEN_PERMANENT, CHOSEN_TRANSIENT),
            sweep=grid(PERMANENT_LRS, TRANSIENT_LRS, seeds=69),
            figure=grid([CHOSEN_PERMANENT], [CHOSEN_TRANSIENT], FIGURE_LANES),
            consolidates=True,
        ),
    ]


def run(progress: Callable[[str], None]) -> Report:
    """Measures everything in one go, in about a minute."""
    version = f"jax {jax.__version__}, NumPy {np.__version__}"
    rows = [Row("cores", backend.cores(), "", f"{platform.machine()}, {version}, devices: {len(jax.devices())}")]
    before = peak_memory()
    for contender in contenders():
        rows += _measure(contender, progress)
    after = peak_memory()
    if before is not None and after is not None:
        rows.append(
            Row("memory, peak of the process", after / 2**20, "MiB", f"{before / 2**20:.0f} before the first run")
        )
    return Report("prediction", rows)


def _measure(contender: Contender, progress: Callable[[str], None]) -> list[Row]:
    name, lanes = contender.name, len(contender.sweep.seeds)
    driver = Driver(Setting(contender.agent, WORLD, STREAM, value_error(contender.agent, TRUTH)))
    loop = native.compile_loop(contender.consolidates, BUFFER)
    seeds = itertools.count()
    contestants = {
        ENGINE: partial(_engine_lap, contender, driver, contender.sweep),
        FIGURE: partial(_engine_lap, contender, driver, contender.figure),
        NATIVE: partial(_native_lap, loop, contender.sweep),
        USUAL: partial(_script_lap, contender, stepwise.USUAL, seeds),
        LEAN: partial(_script_lap, contender, stepwise.LEAN, seeds),
    }
    first = {}
    for label in (ENGINE, FIGURE, NATIVE):
        progress(f"{name}: compiling, {label}")
        first[label] = timed(contestants[label])[0]
    progress(f"{name}: racing {', '.join(contestants)}")
    best = race(contestants, ROUNDS)
    return [
        *_speed_rows(name, best, first, lanes),
        *_ratio_rows(name, best),
        *[_score_row(name, label, best[label].scores) for label in contestants],
    ]


def _engine_lap(contender: Contender, driver: Driver, lanes: Lanes) -> Lap:
    pairs = zip(lanes.permanent_lr.tolist(), lanes.transient_lr.tolist(), strict=True)
    outcome = driver.run([contender.hypers(*pair) for pair in pairs], lanes.seeds.tolist())
    scores = outcome.record["rmsve_current"][lanes.chosen].mean(axis=1)
    return Lap(int(outcome.steps.sum(dtype=np.int64)), scores)


def _native_lap(loop: Callable[..., tuple[np.ndarray, np.ndarray]], lanes: Lanes) -> Lap:
    steps, errors = loop(
        native.tabulate(WORLD, STREAM, TRUTH),
        lanes.permanent_lr.astype(np.float32),
        lanes.transient_lr.astype(np.float32),
        lanes.seeds.astype(np.uint64),
    )
    return Lap(int(steps.sum()), errors[lanes.chosen, :, 0].mean(axis=1))


def _script_lap(contender: Contender, style: stepwise.Style, seeds: itertools.count[int]) -> Lap:
    """Whole lives, one after the other, for about `SLICE_SECONDS`."""
    deadline, steps, scores = time.perf_counter() + SLICE_SECONDS, 0, []
    while time.perf_counter() < deadline:
        lived = stepwise.live(WORLD, STREAM, TRUTH, contender.script(style), style.policy(next(seeds)))
        steps += lived.steps
        scores.append(lived.current.mean())
    return Lap(steps, np.array(scores))


def _speed_rows(name: str, best: dict[str, Result], first: dict[str, float], lanes: int) -> list[Row]:
    notes = {
        ENGINE: f"{lanes} lanes, all cores, {best[ENGINE].seconds:.2f} s",
        FIGURE: f"{FIGURE_LANES} lanes, all cores, {best[FIGURE].seconds:.2f} s",
        NATIVE: f"{lanes} lanes, all cores, {best[NATIVE].seconds:.2f} s; written for this experiment only",
        USUAL: "one core; one-hot features, dot products",
        LEAN: "one core; plain lists, plain numbers",
    }
    speeds = [Row(f"{name}: {label}", best[label].rate, "steps/s", note) for label, note in notes.items()]
    compiling = [
        Row(f"{name}: compiling, {label}", first[label] - best[label].seconds, "s", "first call less a warm one")
        for label in first
    ]
    return speeds + compiling


def _ratio_rows(name: str, best: dict[str, Result]) -> list[Row]:
    def ratio(other: str, note: str) -> Row:
        return Row(f"{name}: {ENGINE} / {other}", best[ENGINE].rate / best[other].rate, "×", note)

    cores = backend.cores()
    per_core = {label: best[ENGINE].rate / best[label].rate / cores for label in (USUAL, LEAN)}
    return [
        ratio(USUAL, f"{per_core[USUAL]:.0f} per core"),
        ratio(LEAN, f"{per_core[LEAN]:.1f} per core"),
        ratio(NATIVE, "fraction of the practical limit"),
    ]


def _score_row(name: str, label: str, scores: np.ndarray) -> Row:
    note = f"± {scores.std(ddof=1) / np.sqrt(len(scores)):.4f} (standard error), {len(scores)} lanes"
    return Row(f"{name}: mean error, {label}", float(scores.mean()), "RMSVE", note)
