"""Sweeps: every setting on tuning seeds, the best one again on reporting seeds, and how sure the choice is.

Settings and seeds are lanes. Contenders that share an agent share a compiled program. Finished lanes are saved every few
seconds, so a sweep that was cut off does only what is missing.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from remanence import __version__
from remanence.errors import UserError
from remanence.experiments.base import Contender, Plan
from remanence.experiments.run import describe, make_driver, watch
from remanence.lanes import Driver, Outcome
from remanence.results.continual import lower_is_better
from remanence.results.store import Results, RunDirectory, load
from remanence.types import Hypers

SECONDS_BETWEEN_SAVES = 15.0
AREA = "auc_"  # prefix of the columns that hold areas under curves


@dataclass(frozen=True)
class Lane:
    """One life of a sweep."""

    number: int
    contender: str
    hypers: Hypers
    seed: int


def settings(contender: Contender) -> list[Hypers]:
    """Every combination of the values to search; the contender's own ones if there is nothing to search."""
    names = list(contender.search)
    combinations = itertools.product(*contender.search.values())
    return [dataclasses.replace(contender.hypers, **dict(zip(names, values, strict=True))) for values in combinations]


def check_seeds(tuning: Sequence[int], reporting: Sequence[int]) -> None:
    """Seeds that choose must not report: a winner by luck would be reported with its luck."""
    if not tuning:
        raise UserError("a sweep needs at least one tuning seed")
    shared = sorted(set(tuning) & set(reporting))
    if shared:
        raise UserError(f"tuning and reporting seeds overlap (seed {shared[0]}): choose disjoint ones")


def sweep(
    name: str, preset: str, plan: Plan, metrics: Sequence[str], seeds: Sequence[int], out: Path, console: Console
) -> Results:
    """Runs what is missing of a sweep. Its `lanes` table has one row per setting and seed, with areas under the curves."""
    description = {
        **describe(name, preset, plan, list(seeds)),
        "sweep": {
            one: {hyper: list(values) for hyper, values in c.search.items()} for one, c in plan.contenders.items()
        },
    }
    directory = RunDirectory(out / "sweep", description)
    directory.open()
    with directory.writing():
        table = load(directory.path).lanes
        done = set(table["lane"]) if len(table) else set()
        for driver, lanes in programs(plan, seeds):
            missing = [lane for lane in lanes if lane.number not in done]
            for finished in _in_portions(driver, missing, plan.lanes_at_once, console):
                directory.add({"lanes": _rows(finished, metrics)})
                directory.log("lanes done", lanes=len(finished))
    return load(directory.path)


def best_settings(table: pl.DataFrame, metric: str) -> dict[str, dict[str, float]]:
    """For each contender, the setting with the best mean area over its seeds; a diverged lane disqualifies its setting."""
    return {
        name: settings[int(np.argmin(areas.mean(axis=0)))]
        for name, (settings, areas) in _arrange(table, metric).items()
    }


def win_shares(
    table: pl.DataFrame, metric: str, resamples: int = 2_000, seed: int = 0
) -> dict[str, list[dict[str, Any]]]:
    """How often each setting would have won with other tuning seeds (bootstrap over seeds), the likeliest first."""
    rng = np.random.default_rng(seed)
    shares = {}
    for name, (settings, areas) in _arrange(table, metric).items():
        weights = rng.multinomial(len(areas), np.full(len(areas), 1 / len(areas)), size=resamples)  # [resamples, seeds]
        sound = np.isfinite(areas).all(axis=0)
        means = np.where(sound, weights @ np.where(sound, areas, 0.0), np.inf)
        wins = np.bincount(means.argmin(axis=1), minlength=len(settings)) / resamples
        order = np.argsort(-wins, kind="stable")
        shares[name] = [{"hypers": settings[i], "wins": float(wins[i])} for i in order if wins[i] > 0]
    return shares


def with_settings(plan: Plan, chosen: dict[str, dict[str, float]]) -> Plan:
    """The same plan with other hyper-parameters."""
    for name, hypers in chosen.items():
        for hyper, value in hypers.items():
            plan = plan.override(name, hyper, value)
    return plan


def _arrange(table: pl.DataFrame, metric: str) -> dict[str, tuple[list[dict[str, float]], np.ndarray]]:
    """For each contender: its settings, and [seeds, settings] areas, turned so that less is better."""
    sign = 1.0 if lower_is_better(metric) else -1.0
    arranged = {}
    for name in table["contender"].unique(maintain_order=True):
        own = table.filter(pl.col("contender") == name)
        hypers = _hyper_columns(own)
        rows = own.with_columns(
            pl.when("diverged").then(float("inf")).otherwise(sign * pl.col(AREA + metric)).alias("loss")
        )
        rows = rows.sort([*hypers, "seed"])
        settings = rows.select(hypers).unique(maintain_order=True).to_dicts() if hypers else [{}]
        arranged[name] = settings, rows["loss"].to_numpy().reshape(len(settings), -1).T
    return arranged


def _hyper_columns(own: pl.DataFrame) -> list[str]:
    known = ("lane", "contender", "seed", "steps", "samples_lost", "diverged", "version")
    return [c for c in own.columns if c not in known and not c.startswith(AREA) and own[c].null_count() == 0]


def programs(plan: Plan, seeds: Sequence[int]) -> Iterator[tuple[Driver, list[Lane]]]:
    """Contenders with the same agent make one program. Small step sizes come first: their lives are the longest."""
    numbers = itertools.count()
    for agent in {id(contender.agent): contender.agent for contender in plan.contenders.values()}.values():
        lanes = [
            Lane(next(numbers), name, hypers, seed)
            for name, contender in plan.contenders.items()
            if contender.agent is agent
            for hypers in settings(contender)
            for seed in seeds
        ]
        lanes.sort(key=lambda lane: tuple(reversed(dataclasses.astuple(lane.hypers)[:2])))
        yield make_driver(plan, agent, plan.probe(agent)), lanes


def _in_portions(
    driver: Driver, lanes: list[Lane], at_once: int, console: Console
) -> Iterator[list[tuple[Lane, Outcome]]]:
    """Lives the lanes, giving them back some seconds' worth at a time."""
    if not lanes:
        return
    portion: list[tuple[Lane, Outcome]] = []
    saved = time.monotonic()
    with watch(driver, len(lanes), _label(lanes), console) as on_progress:
        hypers, seeds = [lane.hypers for lane in lanes], [lane.seed for lane in lanes]
        for some in driver.as_they_finish(hypers, seeds, on_progress, at_once):
            portion += [(lanes[number], outcome._replace(agents=None)) for number, outcome in some.items()]
            if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                yield portion
                portion, saved = [], time.monotonic()
    if portion:
        yield portion


def _label(lanes: list[Lane]) -> str:
    names = list(dict.fromkeys(lane.contender for lane in lanes))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _rows(finished: list[tuple[Lane, Outcome]], metrics: Sequence[str]) -> pl.DataFrame:
    block, outcomes = [lane for lane, _ in finished], [outcome for _, outcome in finished]
    columns: dict[str, Any] = {
        "lane": np.array([lane.number for lane in block], np.int32),
        "contender": [lane.contender for lane in block],
        "seed": np.array([lane.seed for lane in block], np.int32),
    }
    for hyper in (field.name for field in dataclasses.fields(block[0].hypers)):
        columns[hyper] = [float(getattr(lane.hypers, hyper)) for lane in block]
    for metric in metrics:
        columns[AREA + metric] = np.array([outcome.record[metric].mean(dtype=np.float64) for outcome in outcomes])
    sound = np.all([np.isfinite(columns[AREA + metric]) for metric in metrics], axis=0)
    return pl.DataFrame(columns).with_columns(
        steps=pl.Series([int(outcome.steps) for outcome in outcomes]),
        samples_lost=pl.Series([int(outcome.samples_lost) for outcome in outcomes]),
        diverged=pl.Series(~sound),
        version=pl.lit(__version__),
    )
