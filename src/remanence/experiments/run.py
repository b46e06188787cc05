"""Runs a plan: every contender's lanes, straight into the run's directory, and only those that are missing."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
from rich.console import Console

from remanence import __version__
from remanence.agents.base import Agent
from remanence.errors import UserError
from remanence.experiments.base import Plan
from remanence.lanes import Driver, Outcome, Progress
from remanence.life import Probe, Setting
from remanence.progress import track
from remanence.results.store import Results, RunDirectory, load
from remanence.types import Hypers


def describe(experiment: str, preset: str, plan: Plan, seeds: list[int]) -> dict[str, Any]:
    """Everything that decides the outcome, as JSON."""
    stream = plan.stream
    return {
        "experiment": experiment,
        "preset": preset,
        "world": {"kind": type(plan.world).__name__, **dataclasses.asdict(plan.world)},  # type: ignore[call-overload]
        "stream": {
            "tasks": np.asarray(stream.tasks).tolist(),
            "order": stream.shared_order,
            "span": {type(stream.span).__name__.lower(): stream.span.count},
            "told": stream.told,
            "ends_episode": stream.ends_episode,
        },
        "truth": plan.truth,
        "map_ticks": list(plan.map_ticks),
        "most_steps": plan.most_steps,
        "window": plan.window,
        "contenders": {
            name: {"form": dict(contender.form), "hypers": dataclasses.asdict(contender.hypers)}
            for name, contender in plan.contenders.items()
        },
        "seeds": seeds,
        "versions": {
            "remanence": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def execute(experiment: str, preset: str, plan: Plan, seeds: int, out: Path, console: Console) -> Results:
    """Runs what is missing of a plan and returns the whole of its results."""
    if seeds < 1:
        raise UserError(f"an experiment needs at least one seed; got {seeds}")
    numbers = list(range(seeds))
    directory = RunDirectory(out, describe(experiment, preset, plan, numbers))
    directory.open()
    with directory.writing():
        done = set(load(directory.path).contenders)
        drivers: dict[int, Driver] = {}  # contenders that share an agent share its compiled program
        for position, (name, contender) in enumerate(plan.contenders.items()):
            if name in done:
                console.print(f"{name}: already done")
                continue
            started = time.monotonic()
            if id(contender.agent) not in drivers:
                drivers[id(contender.agent)] = make_driver(plan, contender.agent, _measure(plan, contender.agent))
            driver = drivers[id(contender.agent)]
            with watch(driver, seeds, name, console) as on_progress:
                outcome = driver.run([contender.hypers] * seeds, numbers, on_progress)
            seconds = time.monotonic() - started
            tables = _tables(plan, name, contender.hypers, numbers, position * len(numbers), outcome)
            directory.add(tables)
            directory.log("contender done", contender=name, seconds=round(seconds, 3), steps=int(outcome.steps.sum()))
            _warn(console, name, tables["lanes"])
    return load(directory.path)


def make_driver(plan: Plan, agent: Agent, probe: Probe) -> Driver:
    """The program for lanes of one agent of a plan."""
    return Driver(
        Setting(agent, plan.world, plan.stream, probe, plan.most_steps, plan.window), plan.round_steps, plan.meet_at
    )


@contextlib.contextmanager
def watch(driver: Driver, lanes: int, label: str, console: Console) -> Iterator[Callable[[Progress], None]]:
    """Shows how far lanes are, while they live."""
    started = time.monotonic()
    with track(console, label, lanes * driver.setting.pages) as advance:
        yield lambda progress: advance(progress.pages, progress.steps / (time.monotonic() - started))


def _measure(plan: Plan, agent: Agent) -> Probe:
    """All that a run keeps: numbers, and beliefs where pictures are wanted."""
    numbers, pictures = plan.probe(agent), plan.maps(agent) if plan.maps else lambda _: {}
    return lambda moment: {"curves": numbers(moment), "maps": pictures(moment)}


def _tables(
    plan: Plan, name: str, hypers: Hypers, seeds: list[int], first_lane: int, outcome: Outcome
) -> dict[str, pl.DataFrame]:
    """The outcome of one contender as rows."""
    lanes = first_lane + np.arange(len(seeds), dtype=np.int32)
    record = outcome.record
    sound = np.all([np.isfinite(leaf).reshape(len(lanes), -1).all(axis=1) for leaf in jax.tree.leaves(record)], axis=0)
    tables = {
        "lanes": pl.DataFrame(
            {
                "lane": lanes,
                "contender": name,
                "seed": np.array(seeds, np.int32),
                **{hyper: float(value) for hyper, value in dataclasses.asdict(hypers).items()},
                "steps": outcome.steps,
                "samples_lost": outcome.samples_lost,
                "diverged": ~sound,
                "version": __version__,
            }
        )
    }
    if record["curves"]:
        tables["curves"] = pl.concat(curve_rows(lanes, values, metric) for metric, values in record["curves"].items())
    if record["maps"]:
        tables["maps"] = pl.concat(
            _map_rows(lanes, plan.map_ticks, values, part) for part, values in record["maps"].items()
        )
    return tables


def curve_rows(lanes: np.ndarray, values: np.ndarray, metric: str) -> pl.DataFrame:
    """[lanes, ticks] as one row per value; ticks count from 1."""
    ticks = np.arange(1, values.shape[1] + 1, dtype=np.int32)
    return pl.DataFrame(
        {
            "lane": np.repeat(lanes, len(ticks)),
            "tick": np.tile(ticks, len(lanes)),
            "metric": metric,
            "value": values.ravel(),
        }
    )


def _map_rows(lanes: np.ndarray, ticks: Sequence[int], values: np.ndarray, part: str) -> pl.DataFrame:
    """[lanes, episodes, points, outputs] at the chosen ticks, as one row per value."""
    kept = values[:, np.array(ticks) - 1]
    axes = np.meshgrid(
        lanes, np.array(ticks, np.int32), *(np.arange(n, dtype=np.int32) for n in kept.shape[2:]), indexing="ij"
    )
    lane, tick, point, output = (axis.ravel() for axis in axes)
    return pl.DataFrame(
        {"lane": lane, "tick": tick, "part": part, "point": point, "output": output, "value": kept.ravel()}
    )


def _warn(console: Console, name: str, lanes: pl.DataFrame) -> None:
    """Says what a reader of the averages must know."""
    diverged = lanes.filter(pl.col("diverged"))["seed"].to_list()
    if diverged:
        console.print(
            f"warning: {name} diverged in {len(diverged)} of {len(lanes)} lanes (seeds {_list(diverged)}): "
            "kept out of averages; smaller step sizes would help",
            style="yellow",
        )
    lost = int(lanes["samples_lost"].sum())
    if lost:
        console.print(f"warning: {name} lost {lost} samples because its buffer was full", style="yellow")


def _list(numbers: list[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, …" if len(numbers) > most else shown
