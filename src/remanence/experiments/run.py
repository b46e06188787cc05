"""Runs a plan: every contender's lanes, straight into the run's directory, and only those that are missing."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
from rich.console import Console

from remanence import __version__
from remanence.errors import UserError
from remanence.experiments.base import Contender, Experiment, Plan
from remanence.lanes import Driver, Outcome, Progress
from remanence.life import Setting
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
            "order": list(stream.order),
            "span": {type(stream.span).__name__.lower(): stream.span.count},
            "told": stream.told,
            "ends_episode": stream.ends_episode,
        },
        "truth": plan.truth,
        "map_ticks": list(plan.map_ticks),
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


def execute(experiment: Experiment, preset: str, plan: Plan, seeds: int, out: Path, console: Console) -> Results:
    """Runs what is missing of a plan and returns the whole of its results."""
    if seeds < 1:
        raise UserError(f"an experiment needs at least one seed; got {seeds}")
    numbers = list(range(seeds))
    directory = RunDirectory(out, describe(experiment.name, preset, plan, numbers))
    directory.open()
    with directory.writing():
        done = set(load(directory.path).contenders)
        for position, (name, contender) in enumerate(plan.contenders.items()):
            if name in done:
                console.print(f"{name}: already done")
                continue
            started = time.monotonic()
            outcome = live(plan, contender, [contender.hypers] * seeds, numbers, name, console)
            seconds = time.monotonic() - started
            tables = _tables(plan, name, contender.hypers, numbers, position * len(numbers), outcome)
            directory.add(tables)
            directory.log("contender done", contender=name, seconds=round(seconds, 3), steps=int(outcome.steps.sum()))
            _warn(console, name, tables["lanes"])
    return load(directory.path)


def live(
    plan: Plan, contender: Contender, hypers: Sequence[Hypers], seeds: Sequence[int], label: str, console: Console
) -> Outcome:
    """Lives the lanes of one contender, telling how far it is; lane i has `hypers[i]` and `seeds[i]`."""
    setting = Setting(contender.agent, plan.world, plan.stream, plan.probe(contender.agent))
    driver = Driver(setting, plan.round_steps)
    started = time.monotonic()
    with track(console, label, len(seeds) * setting.episodes) as advance:

        def on_progress(progress: Progress) -> None:
            advance(progress.episodes, progress.steps / (time.monotonic() - started))

        return driver.run(hypers, seeds, on_progress)


def _tables(
    plan: Plan, name: str, hypers: Hypers, seeds: list[int], first_lane: int, outcome: Outcome
) -> dict[str, pl.DataFrame]:
    """The outcome of one contender as rows."""
    lanes = first_lane + np.arange(len(seeds), dtype=np.int32)
    scalars = {metric: values for metric, values in outcome.record.items() if values.ndim == 2}
    pictures = {part: values for part, values in outcome.record.items() if values.ndim == 3}
    sound = np.all([np.isfinite(v).all(axis=tuple(range(1, v.ndim))) for v in outcome.record.values()], axis=0)
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
    if scalars:
        tables["curves"] = pl.concat(_long(lanes, values, metric=metric) for metric, values in scalars.items())
    if pictures:
        ticks = np.array(plan.map_ticks)
        tables["maps"] = pl.concat(
            _long(lanes, values[:, ticks - 1].reshape(len(lanes), -1), part=part)
            .with_columns(
                tick=pl.Series(np.tile(np.repeat(ticks, values.shape[2]), len(lanes)), dtype=pl.Int32),
                point=pl.Series(np.tile(np.arange(values.shape[2]), len(lanes) * len(ticks)), dtype=pl.Int32),
            )
            .select("lane", "tick", "part", "point", "value")
            for part, values in pictures.items()
        )
    return tables


def _long(lanes: np.ndarray, values: np.ndarray, **constant: str) -> pl.DataFrame:
    """[lanes, ticks] as one row per value; ticks count from 1."""
    ticks = np.arange(1, values.shape[1] + 1, dtype=np.int32)
    return pl.DataFrame(
        {
            "lane": np.repeat(lanes, len(ticks)),
            "tick": np.tile(ticks, len(lanes)),
            **constant,
            "value": values.ravel(),
        }
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
