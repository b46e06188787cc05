"""Prediction on the 5×5 grid (Fig. 2, tabular): the engine, a step-by-step script, and a hand-written Numba loop.

All of them run the experiment of the paper's panel, with errors measured after every episode. The report shows these errors: a
loop that is fast because it is wrong is visible there. The engine is measured on a sweep over the paper's step sizes, and on the
lanes of one curve of the figure.

One difference remains: the scripts and the Numba loop consolidate visit by visit, as in the paper. The engine's PT-TD follows its
plan; without a buffer it counts the visits of a table and takes the same steps in closed form, so a part of its lead is algebra.
"""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from remanence.agents.base import AgentConfig, hypers_of
from remanence.agents.configs import PTTD, TD
from remanence.bench import native, stepwise
from remanence.bench.measure import Lap, Report, Result, Row, memory_row, peak_memory, race, spread, timed
from remanence.core import backend
from remanence.engine.lanes import Driver
from remanence.experiments import get
from remanence.experiments.base import PAPER
from remanence.experiments.base import SMOKE as SMOKE_PRESET
from remanence.experiments.prediction import CURRENT
from remanence.runs.jobs import make_driver, settings
from remanence.runs.plan import Contender, Plan
from remanence.worlds import CornerGrid
from remanence.worlds.true_values import Truth, corner_grid_truth


@dataclass(frozen=True)
class Sizes:
    """Length and number of lives, and how often they are timed."""

    preset: str = PAPER
    min_lanes: int = 2_000  # of a sweep
    rounds: int = 3
    agents: tuple[str, ...] = ("TD", "PT-TD")
    slice_seconds: float = 0.9  # how long a step-by-step script runs in each round; at least one life


FULL = Sizes()
SMOKE = Sizes(SMOKE_PRESET, min_lanes=1, rounds=1, agents=("PT-TD",), slice_seconds=0.0)

ENGINE, CURVE, NATIVE, USUAL, LEAN = "engine", "engine, one curve", "Numba", "NumPy, usual", "NumPy, lean"


@dataclass(frozen=True)
class Lanes:
    """Configuration and seed of every lane, and which lanes are those of the figure."""

    configs: list[AgentConfig]
    seeds: list[int]
    chosen: np.ndarray  # [lanes]


def _sweep(contender: Contender, min_lanes: int) -> Lanes:
    """All combinations of the step sizes the paper searched, with enough seeds for `min_lanes` lanes."""
    combinations = settings(contender)
    return _repeat(contender, combinations, seeds=-(-min_lanes // len(combinations)))


def _repeat(contender: Contender, combinations: list[AgentConfig], seeds: int) -> Lanes:
    configs = [config for config in combinations for _ in range(seeds)]
    chosen = np.array([config == contender.config for config in configs])
    return Lanes(configs, [seed for _ in combinations for seed in range(seeds)], chosen)


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """About a minute."""
    plan = get("figure2/tabular").plan(sizes.preset)
    versions = f"{platform.machine()}, jax {jax.__version__}, NumPy {np.__version__}"
    rows = [Row("cores", backend.cores(), "", versions)]
    before = peak_memory() or 0.0
    for name in sizes.agents:
        rows += _measure(plan, name, progress, sizes)
    return Report("prediction", [*rows, *memory_row(f"{before / 2**20:.0f} before the first run")])


def _measure(plan: Plan, name: str, progress: Callable[[str], None], sizes: Sizes) -> list[Row]:
    assert isinstance(plan.world, CornerGrid)
    contender, truth = plan.contenders[name], corner_grid_truth(plan.world, plan.stream.tasks)
    many, few = _sweep(contender, sizes.min_lanes), _repeat(contender, [contender.config], plan.seeds)
    driver = make_driver(plan, contender.config)
    tables = native.tabulate(plan.world, plan.stream, truth)
    loop = native.compile_loop(consolidates=isinstance(contender.config, PTTD))
    seeds = itertools.count()
    contestants = {
        ENGINE: partial(_engine_lap, driver, many),
        CURVE: partial(_engine_lap, driver, few),
        NATIVE: partial(_native_lap, loop, tables, many),
        USUAL: partial(_script_lap, plan, truth, contender, stepwise.USUAL, seeds, sizes.slice_seconds),
        LEAN: partial(_script_lap, plan, truth, contender, stepwise.LEAN, seeds, sizes.slice_seconds),
    }
    first = {}
    for label in (ENGINE, CURVE, NATIVE):
        progress(f"{name}: compiling, {label}")
        first[label] = timed(contestants[label]).seconds
    progress(f"{name}: racing {' · '.join(contestants)}")
    best = race(contestants, sizes.rounds)
    lanes = {ENGINE: len(many.seeds), CURVE: len(few.seeds), NATIVE: len(many.seeds)}
    return [*_speed_rows(name, best, first, lanes), *_ratio_rows(name, best), *_score_rows(name, best)]


def _engine_lap(driver: Driver, lanes: Lanes) -> Lap:
    outcome = driver.run([hypers_of(config) for config in lanes.configs], lanes.seeds)
    return Lap(int(outcome.steps.sum(dtype=np.int64)), outcome.record["curves"][CURRENT][lanes.chosen].mean(axis=1))


def _native_lap(loop: native.Loop, tables: native.Tables, lanes: Lanes) -> Lap:
    rates = np.array([_step_sizes(config) for config in lanes.configs], np.float32)
    steps, errors = loop(tables, rates[:, 0], rates[:, 1], np.array(lanes.seeds, np.uint64))
    return Lap(int(steps.sum()), errors[lanes.chosen, :, 0].mean(axis=1))


def _script_lap(
    plan: Plan, truth: Truth, contender: Contender, style: stepwise.Style, seeds: Iterator[int], seconds: float
) -> Lap:
    """Complete lives, one after the other, for about this many seconds; at least one."""
    assert isinstance(plan.world, CornerGrid)
    permanent_lr, transient_lr = _step_sizes(contender.config)
    deadline, steps, scores = time.perf_counter() + seconds, 0, []
    while not scores or time.perf_counter() < deadline:
        if isinstance(contender.config, PTTD):
            agent = stepwise.PTTD(style, plan.world.num_states, permanent_lr, transient_lr)
        else:
            agent = stepwise.TD(style, plan.world.num_states, transient_lr)
        lived = stepwise.live(plan.world, plan.stream, truth, agent, style.policy(next(seeds)))
        steps += lived.steps
        scores.append(lived.current.mean())
    return Lap(steps, np.array(scores))


def _step_sizes(config: AgentConfig) -> tuple[float, float]:
    """The permanent step size (TD has none: 0) and the other one."""
    if isinstance(config, TD):
        return 0.0, config.lr
    assert isinstance(config, PTTD)
    assert config.decay == 0.0, "the hand-written loops reset the transient part"
    return config.permanent_lr, config.transient_lr


def _speed_rows(name: str, best: dict[str, Result], first: dict[str, float], lanes: dict[str, int]) -> list[Row]:
    notes = {label: f"{lanes[label]} lanes, all cores, {best[label].seconds:.2f} s" for label in lanes} | {
        USUAL: "one core; one-hot dot products",
        LEAN: "one core; plain lists",
    }
    compiling = [
        Row(f"{name}: {label}, compiling", first[label] - best[label].seconds, "s", "first call less a warm one")
        for label in first
    ]
    return [Row(f"{name}: {label}", best[label].rate, "steps/s", note) for label, note in notes.items()] + compiling


def _ratio_rows(name: str, best: dict[str, Result]) -> list[Row]:
    engine = best[ENGINE]

    def ratio(other: str) -> Row:
        note = f"per second of one core: {engine.rate_per_core / best[other].rate_per_core:.3g}"
        return Row(f"{name}: engine / {other}", engine.rate / best[other].rate, "×", note)

    return [ratio(USUAL), ratio(LEAN), ratio(NATIVE)]


def _score_rows(name: str, best: dict[str, Result]) -> list[Row]:
    return [
        Row(f"{name}: {label}, error", float(result.scores.mean()), "RMSVE", spread(result.scores))
        for label, result in best.items()
    ]
