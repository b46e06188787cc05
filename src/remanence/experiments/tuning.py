"""Chooses hyper-parameters from the paper's lists, on seeds that never report results.

Every setting of a contender is a group of lanes in one compiled program.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from remanence.experiments.base import TUNING_SEEDS, Contender, Plan
from remanence.experiments.run import live
from remanence.types import Hypers


def settings(contender: Contender) -> list[Hypers]:
    """Every combination of the values the paper searched."""
    names = list(contender.search)
    combinations = itertools.product(*contender.search.values())
    return [dataclasses.replace(contender.hypers, **dict(zip(names, values, strict=True))) for values in combinations]


def tune(plan: Plan, metric: str, console: Console, seeds: Sequence[int] = TUNING_SEEDS) -> pl.DataFrame:
    """One row per contender, setting and seed: the area under the curve of `metric`; infinite if the lane diverged."""
    tables = []
    for name, contender in plan.contenders.items():
        tried = settings(contender)
        lanes = [(hypers, seed) for hypers in tried for seed in seeds]
        outcome = live(plan, contender, [hypers for hypers, _ in lanes], [seed for _, seed in lanes], name, console)
        areas = outcome.record[metric].mean(axis=1, dtype=np.float64)
        rows: dict[str, Any] = {
            "contender": name,
            "seed": [seed for _, seed in lanes],
            "auc": np.where(np.isfinite(areas), areas, np.inf),
        }
        for hyper in contender.search:
            rows[hyper] = [float(getattr(hypers, hyper)) for hypers, _ in lanes]
        tables.append(pl.DataFrame(rows))
    return pl.concat(tables, how="diagonal")


def best(table: pl.DataFrame, contender: str) -> dict[str, float]:
    """The setting with the lowest mean over tuning seeds."""
    own = table.filter(pl.col("contender") == contender)
    hypers = [name for name in own.columns if name not in ("contender", "seed", "auc") and own[name].null_count() == 0]
    return own.group_by(hypers).agg(pl.col("auc").mean()).sort("auc").select(hypers).row(0, named=True)
