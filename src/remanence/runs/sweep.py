"""Sweeps: every setting on tuning seeds, the best one again on reporting seeds, and how sure the choice is.

Settings and seeds are lanes, carried out like those of any other run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from remanence.core.errors import UserError
from remanence.experiments.base import Plan
from remanence.metrics import lower_is_better
from remanence.results.directory import RunDirectory
from remanence.results.store import Results
from remanence.runs.execution import Execution
from remanence.runs.jobs import lanes_of_sweep
from remanence.runs.rows import AREA
from remanence.runs.run import describe, run_missing


def check_seeds(tuning: Sequence[int], reporting: Sequence[int]) -> None:
    """Seeds that choose must not report: a winner by luck would be reported with its luck."""
    if not tuning:
        raise UserError("a sweep needs at least one tuning seed")
    shared = sorted(set(tuning) & set(reporting))
    if shared:
        raise UserError(f"tuning and reporting seeds overlap (seed {shared[0]}): choose disjoint ones")


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
    """Runs what is missing of a sweep. Its `lanes` table has one row per setting and seed, with areas under the curves."""
    description = {
        **describe(name, preset, plan, list(seeds)),
        "sweep": {
            one: {hyper: list(values) for hyper, values in c.search.items()} for one, c in plan.contenders.items()
        },
    }
    directory = RunDirectory(out / "sweep", description)
    return run_missing(directory, plan, lanes_of_sweep(plan, seeds), metrics, console, execution)


def best_settings(table: pl.DataFrame, metric: str) -> dict[str, dict[str, float]]:
    """For each contender, the setting with the best mean area over its seeds; a diverged lane disqualifies its setting."""
    return {
        name: settings[int(np.argmin(auc_metrics.mean(axis=0)))]
        for name, (settings, auc_metrics) in _arrange(table, metric).items()
    }


def win_shares(
    table: pl.DataFrame, metric: str, resamples: int = 2_000, seed: int = 0
) -> dict[str, list[dict[str, Any]]]:
    """How often each setting would have won with other tuning seeds (bootstrap over seeds), the likeliest first."""
    rng = np.random.default_rng(seed)
    shares = {}
    for name, (settings, auc_metrics) in _arrange(table, metric).items():
        weights = rng.multinomial(
            len(auc_metrics), np.full(len(auc_metrics), 1 / len(auc_metrics)), size=resamples
        )  # [resamples, seeds]
        sound = np.isfinite(auc_metrics).all(axis=0)
        means = np.where(sound, weights @ np.where(sound, auc_metrics, 0.0), np.inf)
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
    known = ("lane", "contender", "seed", "steps", "samples_dropped", "diverged", "version")
    return [c for c in own.columns if c not in known and not c.startswith(AREA) and own[c].null_count() == 0]
