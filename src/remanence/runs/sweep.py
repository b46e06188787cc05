"""Sweeps: every setting on tuning seeds, the best one again on reporting seeds, and how certain the choice is.

Settings and seeds are lanes, executed like those of any other run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from remanence.core.errors import UserError
from remanence.metrics import lower_is_better
from remanence.results.directory import RunDirectory
from remanence.results.store import ONE_AT_A_TIME, Results
from remanence.runs.describe import describe
from remanence.runs.execution import Execution
from remanence.runs.jobs import check_seeds, lanes_of_sweep, one_at_a_time
from remanence.runs.plan import Plan
from remanence.runs.rows import AUC
from remanence.runs.run import run_missing


def check_disjoint(tuning: range, reporting: range) -> None:
    """Tuning and reporting seeds must differ: results on the seeds that chose the setting are biased upwards."""
    if not tuning:
        raise UserError("a sweep needs at least one tuning seed")
    check_seeds(tuning)
    check_seeds(reporting)
    first = max(tuning[0], reporting[0])
    if first <= min(tuning[-1], reporting[-1]):
        raise UserError(f"tuning and reporting seeds overlap (seed {first}): choose disjoint ones")


def sweep(
    name: str,
    preset: str,
    plan: Plan,
    metrics: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    console: Console,
    execution: Execution = Execution(),
) -> Results:
    """Runs the missing lanes of a sweep. Its `lanes` table has one row per setting and seed, with areas under the curves."""
    fewer = one_at_a_time(plan)
    description = {
        **describe(name, preset, plan, list(seeds)),
        "sweep": searched_values(plan),
        **({ONE_AT_A_TIME: fewer} if fewer else {}),
    }
    directory = RunDirectory(out / "sweep", description)
    return run_missing(directory, plan, lanes_of_sweep(plan, seeds), metrics, console, execution)


def searched_values(plan: Plan) -> dict[str, dict[str, list[float]]]:
    """The values that a sweep searches, by contender and field."""
    return {one: {hyper: list(values) for hyper, values in c.search.items()} for one, c in plan.contenders.items()}


def best_settings(table: pl.DataFrame, metric: str) -> dict[str, dict[str, float]]:
    """For each contender, the setting with the best mean AUC over its seeds; a diverged lane disqualifies its setting."""
    return {
        name: settings[int(np.argmin(aucs.mean(axis=0)))] for name, (settings, aucs) in _arrange(table, metric).items()
    }


def win_shares(
    table: pl.DataFrame, metric: str, resamples: int = 2_000, seed: int = 0, losers: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """How often each setting wins with other tuning seeds (bootstrap over seeds), the most frequent first.

    Args: losers: whether settings that never win are in it.
    """
    rng = np.random.default_rng(seed)
    shares = {}
    for name, (settings, aucs) in _arrange(table, metric).items():
        weights = rng.multinomial(len(aucs), np.full(len(aucs), 1 / len(aucs)), size=resamples)  # [resamples, seeds]
        finite = np.isfinite(aucs).all(axis=0)
        means = np.where(finite, weights @ np.where(finite, aucs, 0.0), np.inf)
        wins = np.bincount(means.argmin(axis=1), minlength=len(settings)) / resamples
        order = np.argsort(-wins, kind="stable")
        shares[name] = [{"hypers": settings[i], "wins": float(wins[i])} for i in order if wins[i] > 0 or losers]
    return shares


def with_settings(plan: Plan, chosen: dict[str, dict[str, float]]) -> Plan:
    """The same plan with other hyperparameters."""
    for name, hypers in chosen.items():
        for hyper, value in hypers.items():
            contender = plan.contenders[name]
            now = getattr(contender.config, hyper)
            exact = next((one for one in contender.search.get(hyper, ()) if one == value), value)
            plan = plan.override(name, hyper, int(value) if isinstance(now, int) else exact if now is None else value)
    return plan


def _arrange(table: pl.DataFrame, metric: str) -> dict[str, tuple[list[dict[str, float]], np.ndarray]]:
    """For each contender: its settings and their AUCs [seeds, settings], with the sign that makes less better."""
    sign = 1.0 if lower_is_better(metric) else -1.0
    arranged = {}
    for name in table["contender"].unique(maintain_order=True):
        lanes = table.filter(pl.col("contender") == name)
        hypers = _hyper_columns(lanes)
        rows = lanes.with_columns(
            pl.when("diverged").then(float("inf")).otherwise(sign * pl.col(AUC + metric)).alias("loss")
        )
        rows = rows.sort([*hypers, "seed"])
        settings = rows.select(hypers).unique(maintain_order=True).to_dicts() if hypers else [{}]
        arranged[name] = settings, rows["loss"].to_numpy().reshape(len(settings), -1).T
    return arranged


def _hyper_columns(lanes: pl.DataFrame) -> list[str]:
    others = ("lane", "contender", "seed", "steps", "samples_dropped", "failed", "diverged", "version")
    return [c for c in lanes.columns if c not in others and not c.startswith(AUC) and lanes[c].null_count() == 0]
