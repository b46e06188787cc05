"""What players wrote down, as the tables every run has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.core.types import Hypers
from remanence.engine.lanes import Outcome
from remanence.gym.pool import EnvWorker
from remanence.results.schema import curve_rows
from remanence.schedules import Schedule


def numbers_of(hypers: Any) -> dict[str, float]:
    """Hyper-parameters by name, where they have names."""
    return {name: float(value) for name, value in vars(hypers).items()} if isinstance(hypers, Hypers) else {}


def lane_row(lane: int, contender: str, seed: int, hypers: Any, outcome: Outcome, row: int, weights: Any) -> dict:
    """One row of `lanes`."""
    sound = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(weights) if leaf.dtype.kind == "f")
    return {
        "lane": lane,
        "contender": contender,
        "seed": seed,
        **numbers_of(hypers),
        "steps": int(outcome.steps[row]),
        "samples_dropped": int(outcome.samples_dropped[row]),
        "diverged": not sound,
        "version": __version__,
    }


def curves_of(lane: int, worker: EnvWorker, schedule: Schedule) -> list[pl.DataFrame]:
    """The curves of one life.

    return          mean undiscounted return of the episodes that ended in a window; NaN where none did
    episode_length  their mean length
    episodes        how many they were
    reward_rate     reward per step of the window
    task            the number of the task at the window's end, where there are several
    parameter       its value there, where it is a number
    """
    window, windows = (
        (worker.window, schedule.duration // worker.window) if schedule.by_steps else (1, schedule.duration)
    )
    episodes = worker.episodes if schedule.by_steps else worker.episodes[:windows]
    ended = [(one.end - 1) // window for one in episodes] if schedule.by_steps else range(len(episodes))
    where = np.array(ended, np.int64)
    count = np.bincount(where, minlength=windows)
    returned = _mean(where, [one.returned for one in episodes], count)
    lengths = _mean(where, [one.length for one in episodes], count)
    rate = np.array(worker.rewards) / window if schedule.by_steps else returned / lengths
    ends = [(window_index + 1) * window - 1 for window_index in range(windows)]
    found: dict[str, Any] = {"return": returned, "reward_rate": rate, "episode_length": lengths, "episodes": count}
    if len(schedule.names) > 1:
        found["task"] = [schedule.task(end) for end in ends]
    values = [schedule.value(end) for end in ends]
    if all(isinstance(value, int | float | np.number) for value in values):
        found["parameter"] = values
    lanes = np.array([lane], np.int32)
    return [curve_rows(lanes, np.asarray(values, np.float64)[None], metric) for metric, values in found.items()]


def _mean(where: np.ndarray, values: Sequence[float], count: np.ndarray) -> np.ndarray:
    """[windows] mean of the values that belong to each; NaN where there are none."""
    sums = np.bincount(where, np.asarray(values, np.float64), len(count))
    return np.divide(sums, count, out=np.full(len(count), np.nan), where=count > 0)
