"""Summary statistics per contender and metric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from remanence.metrics import metric as metric_of
from remanence.results.statistics import bootstrap_interval, mean_where, standard_error, student_interval
from remanence.results.store import Results


def summarise(results: Results) -> dict[str, Any]:
    """For each contender: its hyperparameters and, for each metric, the area under the curve and both ends of each segment.

    auc        mean over windows of one seed's curve; mean and standard error over seeds, Student's 90 % interval (within the
               metric's bounds) and a 90 % percentile bootstrap
    first      mean value in the first window after each switch (jumpstart), per segment
    last       mean value in the last window before the next switch, per segment
    """
    return {
        name: {
            "hypers": results.description["contenders"][name]["hypers"],
            "metrics": {metric: _of_metric(results, name, metric) for metric in results.metrics},
            "diverged": results.diverged(name),
            "samples_dropped": int(results.lanes.filter(results.lanes["contender"] == name)["samples_dropped"].sum()),
        }
        for name in results.contenders
    }


def summarise_sweep(results: Results) -> dict[str, Any]:
    """The same for every setting of a sweep, named by its hyperparameters. Sweeps record AUCs only, so there are no segments."""
    summary = {}
    for name, table in settings_of(results):
        for hypers, lanes in table:
            label = " ".join([name, *(f"{hyper}={value:g}" for hyper, value in hypers.items())])
            finite = lanes.filter(~pl.col("diverged"))
            aucs = {
                column.removeprefix("auc_"): finite[column].to_numpy()
                for column in lanes.columns
                if column.startswith("auc_")
            }
            summary[label] = {
                "hypers": hypers,
                "metrics": {
                    metric: {**_auc_statistics(sample, metric), "first": [], "last": []}
                    for metric, sample in aucs.items()
                },
                "diverged": lanes.filter(pl.col("diverged"))["seed"].to_list(),
            }
    return summary


def settings_of(results: Results) -> Iterator[tuple[str, list[tuple[dict[str, float], pl.DataFrame]]]]:
    """For each contender of a sweep: every setting of the searched hyperparameters, with its lanes."""
    for name, search in results.description["sweep"].items():
        lanes = results.lanes.filter(pl.col("contender") == name)
        hypers = list(search)
        groups = lanes.sort(*hypers, "seed").partition_by(hypers, maintain_order=True) if hypers else [lanes]
        yield name, [({hyper: float(group[hyper][0]) for hyper in hypers}, group) for group in groups if len(group)]


def auc(results: Results, contender: str, metric: str) -> np.ndarray:
    """[sound seeds] mean over windows."""
    return results.matrix(contender, metric).mean(axis=1, dtype=np.float64)


def segment_ends(results: Results, contender: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Each [sound seeds, segments]: the value in the first and in the last window of every segment."""
    curves = results.matrix(contender, metric)
    length = results.segment_length
    return curves[:, ::length], curves[:, length - 1 :: length]


def at_switches(results: Results, contender: str, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each [sound seeds]: the last window before a switch, the first after it, and the last of the segment that it starts.

    Means over the switches to another task; NaN for a seed without one.
    """
    first, last = segment_ends(results, contender, metric)
    switched = results.switched(contender)
    before = np.roll(last, 1, axis=1)
    return mean_where(before, switched), mean_where(first, switched), mean_where(last, switched)


def _of_metric(results: Results, contender: str, metric: str) -> dict[str, Any]:
    aucs = auc(results, contender, metric)
    if not aucs.size:
        return {**_auc_statistics(aucs, metric), "first": [], "last": []}
    first, last = segment_ends(results, contender, metric)
    return {
        **_auc_statistics(aucs, metric),
        "first": first.mean(axis=0, dtype=np.float64).tolist(),
        "last": last.mean(axis=0, dtype=np.float64).tolist(),
    }


def _auc_statistics(aucs: np.ndarray, metric: str) -> dict[str, Any]:
    if not aucs.size:  # every lane diverged
        return {"auc_mean": None, "auc_se": None, "auc_interval": None, "auc_bootstrap": None}
    interval, bootstrap = student_interval(aucs, bounds=metric_of(metric).bounds), bootstrap_interval(aucs)
    return {
        "auc_mean": float(aucs.mean()),
        "auc_se": _number(standard_error(aucs)),
        "auc_interval": [_number(interval.low), _number(interval.high)],
        "auc_bootstrap": [_number(bootstrap.low), _number(bootstrap.high)],
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: null if there is only one seed."""
    return value if np.isfinite(value) else None
