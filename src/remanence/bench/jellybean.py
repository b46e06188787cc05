"""Jelly Bean World on one core: over new terrain, over known terrain, step by step; and agents in it on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from remanence.bench.lives import LifeSizes, smoke_lives, whole_lives
from remanence.bench.measure import Lap, Report, Row, race
from remanence.experiments.base import RELEASED
from remanence.worlds.jellybean import PRESETS, JellyBeanWorlds

# A straight walk samples this many patches each time it reaches new terrain, after this many steps.
PATCHES, EVERY = 10, 32
UP, DOWN = 0, 3


@dataclass(frozen=True)
class Sizes:
    """Lengths of the walks, and how often they are timed."""

    lap: int = 3_200  # steps of a straight walk
    rounds: int = 24
    explored: int = 100_000  # steps to and fro, a multiple of 2 · `turn`
    turn: int = 500  # steps before the walk to and fro turns
    calls: int = 2_000  # of one step each; a multiple of 100
    lanes: tuple[int, ...] = (1, 4, 30)  # of such a call
    lives: LifeSizes = field(default_factory=lambda: LifeSizes(RELEASED, contenders=("PT-DQN", "DQN")))


FULL = Sizes()
SMOKE = Sizes(lap=320, rounds=1, explored=200, turn=50, calls=100, lanes=(2,), lives=smoke_lives("DQN"))


def run(progress: Callable[[str], None], sizes: Sizes = FULL, against: str | None = None) -> Report:
    """About five minutes."""
    rows = []
    progress("compiling")
    started = time.perf_counter()
    JellyBeanWorlds(PRESETS["paper"], [1]).walk(np.zeros((64, 1), np.int8))
    rows.append(Row("the first world, compiled or from the cache", time.perf_counter() - started, "s"))
    for name, rules in PRESETS.items():
        progress(name)
        world = JellyBeanWorlds(rules, [7])
        before, start_time = _weight(world), int(world.time[0])
        results = race({"new": lambda world=world: _lap(world, np.full(sizes.lap, UP))}, sizes.rounds)
        grown = (_weight(world) - before) / (int(world.time[0]) - start_time)
        to_and_fro = np.tile(np.repeat([DOWN, UP], sizes.turn), sizes.explored // (2 * sizes.turn))
        _lap(world, to_and_fro)
        results |= race({"explored": lambda world=world, way=to_and_fro: _lap(world, way)}, sizes.rounds)
        new, explored = results["new"].rate_per_core, results["explored"].rate_per_core
        proposals = new * PATCHES * rules.iterations / EVERY
        rows += [
            Row(f"{name}: new terrain, a straight walk", new, "steps/s"),
            Row(f"{name}: new terrain", proposals, "proposals/s", "births and deaths of items"),
            Row(f"{name}: known terrain", explored, "steps/s", f"with all views of {rules.view} × {rules.view}"),
            Row(f"{name}: memory of new terrain", grown * 1e6 / 2**20, "MiB", "per million steps of a straight walk"),
        ]
    for lanes in sizes.lanes:
        rows.append(Row(f"one call of {lanes} lanes over known terrain", 1e6 * _call_seconds(lanes, sizes.calls), "µs"))
    found, rates = whole_lives("figure5/jellybean", sizes.lives, progress, against)
    return Report("jellybean", [*rows, *found], lives=rates)


def _lap(world: JellyBeanWorlds, way: np.ndarray) -> Lap:
    world.walk(way[:, None].astype(np.int8), views=False)
    return Lap(len(way), np.zeros(1))


def _weight(world: JellyBeanWorlds) -> int:
    return sum(array.nbytes for array in world.state().values())


def _call_seconds(lanes: int, calls: int) -> float:
    """The mean time of a call, in the fastest hundred calls in a row."""
    worlds = JellyBeanWorlds(PRESETS["released"], range(1, lanes + 1))
    actions = np.tile(np.repeat([[UP], [DOWN]], 10, axis=0), (calls // 20, lanes))
    best = np.inf
    for hundred in np.split(actions, calls // 100):
        started = time.process_time()
        for action in hundred:
            worlds.step(action)
        best = min(best, (time.process_time() - started) / len(hundred))
    return best
