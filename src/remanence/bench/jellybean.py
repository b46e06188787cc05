"""Jelly Bean World on one core: over new terrain, over known terrain, step by step; and whole lives in it on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from remanence.bench.deep import whole_lives
from remanence.bench.measure import Lap, Report, Row, race
from remanence.experiments import get
from remanence.experiments.base import RELEASED
from remanence.experiments.figure5_jellybean import network
from remanence.worlds.jellybean import PRESETS, JellyBeanWorlds

LAP, ROUNDS = 3_200, 24  # steps of a straight walk, timed so many times
KNOWN = 100_000  # steps to and fro
CALLS = 2_000  # of one step each, for some lanes
# A straight walk samples so many patches each time it comes to new terrain, after so many steps.
PATCHES, EVERY = 10, 32
LIFE = 10_000
UP, DOWN = 0, 3


def run(progress: Callable[[str], None]) -> Report:
    """About two minutes."""
    rows = []
    progress("compiling")
    started = time.perf_counter()
    JellyBeanWorlds(PRESETS["paper"], [1]).walk(np.zeros((64, 1), np.int8))
    rows.append(Row("the first world, compiled or from the cache", time.perf_counter() - started, "s"))
    for name, rules in PRESETS.items():
        progress(name)
        world = JellyBeanWorlds(rules, [7])
        before, begun = _weight(world), int(world.time[0])
        results = race({"new": lambda world=world: _lap(world, np.full(LAP, UP))}, ROUNDS)
        grown = (_weight(world) - before) / (int(world.time[0]) - begun)
        to_and_fro = np.tile(np.repeat([DOWN, UP], 500), KNOWN // 1000)
        _lap(world, to_and_fro)
        results |= race({"known": lambda world=world, way=to_and_fro: _lap(world, way)}, ROUNDS)
        new, known = results["new"].rate_per_core, results["known"].rate_per_core
        proposals = new * PATCHES * rules.iterations / EVERY
        rows += [
            Row(f"{name}: new terrain, a straight walk", new, "steps/s"),
            Row(f"{name}: new terrain", proposals, "proposals/s", "births and deaths of items"),
            Row(f"{name}: known terrain", known, "steps/s", f"with all views of {rules.view} × {rules.view}"),
            Row(f"{name}: memory of new terrain", grown * 1e6 / 2**20, "MiB", "per million steps of a straight walk"),
        ]
    for lanes in (1, 4, 30):
        rows.append(Row(f"one call of {lanes} lanes over known terrain", 1e6 * _call_seconds(lanes), "µs"))
    progress("whole lives")
    plan = get("figure5/jellybean").plan(RELEASED).shortened(steps=LIFE)
    rows += whole_lives(plan, {name: network(plan.world, width, 4) for name, width in (("PT-DQN", 0.5), ("DQN", 1.0))})  # type: ignore[arg-type]
    return Report("jellybean", rows)


def _lap(world: JellyBeanWorlds, way: np.ndarray) -> Lap:
    world.walk(way[:, None].astype(np.int8), views=False)
    return Lap(len(way), np.zeros(1))


def _weight(world: JellyBeanWorlds) -> int:
    return sum(array.nbytes for array in world.state().values())


def _call_seconds(lanes: int) -> float:
    """Of the fastest hundred calls in a row."""
    worlds = JellyBeanWorlds(PRESETS["released"], range(1, lanes + 1))
    actions = np.tile(np.repeat([[UP], [DOWN]], 10, axis=0), (CALLS // 20, lanes))
    best = np.inf
    for hundred in np.split(actions, CALLS // 100):
        started = time.process_time()
        for action in hundred:
            worlds.step(action)
        best = min(best, (time.process_time() - started) / len(hundred))
    return best
