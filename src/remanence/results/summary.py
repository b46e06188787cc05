"""Numbers per contender and metric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from remanence.results.statistics import bootstrap_interval, normal_interval, standard_error
from remanence.results.store import Results


def summarise(results: Results) -> dict[str, Any]:
    """For each contender: its hyper-parameters and, for each metric, the area under the curve and every segment's ends.

    auc        mean over windows of one seed's curve; mean and standard error over seeds, the paper's 90 % normal interval and
               a 90 % percentile bootstrap
    first      mean value in the first episode after each switch (jumpstart), per segment
    last       mean value in the last episode before the next switch, per segment
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
    """The same for every setting of a sweep, named by its hyper-parameters. A sweep keeps areas only: there are no segments."""
    summary = {}
    for name, table in settings_of(results):
        for hypers, own in table:
            label = " ".join([name, *(f"{hyper}={value:g}" for hyper, value in hypers.items())])
            sound = own.filter(~pl.col("diverged"))
            areas = {
                column.removeprefix("auc_"): sound[column].to_numpy()
                for column in own.columns
                if column.startswith("auc_")
            }
            summary[label] = {
                "hypers": hypers,
                "metrics": {metric: {**_of_areas(sample), "first": [], "last": []} for metric, sample in areas.items()},
                "diverged": own.filter(pl.col("diverged"))["seed"].to_list(),
            }
    return summary


def settings_of(results: Results) -> Iterator[tuple[str, list[tuple[dict[str, float], pl.DataFrame]]]]:
    """For each contender of a sweep: every setting of the searched hyper-parameters, with its lanes."""
    for name, search in results.description["sweep"].items():
        own = results.lanes.filter(pl.col("contender") == name)
        hypers = list(search)
        groups = own.sort(*hypers, "seed").partition_by(hypers, maintain_order=True) if hypers else [own]
        yield name, [({hyper: float(group[hyper][0]) for hyper in hypers}, group) for group in groups if len(group)]


def auc(results: Results, contender: str, metric: str) -> np.ndarray:
    """[sound seeds] mean over windows."""
    return results.matrix(contender, metric).mean(axis=1, dtype=np.float64)


def segment_ends(results: Results, contender: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Each [sound seeds, segments]: the value in the first and in the last window of every segment."""
    curves = results.matrix(contender, metric)
    length = results.segment_length
    return curves[:, ::length], curves[:, length - 1 :: length]


def _of_metric(results: Results, contender: str, metric: str) -> dict[str, Any]:
    areas = auc(results, contender, metric)
    if not areas.size:
        return {**_of_areas(areas), "first": [], "last": []}
    first, last = segment_ends(results, contender, metric)
    return {
        **_of_areas(areas),
        "first": first.mean(axis=0, dtype=np.float64).tolist(),
        "last": last.mean(axis=0, dtype=np.float64).tolist(),
    }


def _of_areas(areas: np.ndarray) -> dict[str, Any]:
    if not areas.size:  # every lane diverged: there is nothing to average
        return {"auc_mean": None, "auc_se": None, "auc_interval": None, "auc_bootstrap": None}
    normal, bootstrap = normal_interval(areas), bootstrap_interval(areas)
    return {
        "auc_mean": float(areas.mean()),
        "auc_se": _number(standard_error(areas)),
        "auc_interval": [_number(normal.low), _number(normal.high)],
        "auc_bootstrap": [_number(bootstrap.low), _number(bootstrap.high)],
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: an interval that one seed cannot give is null."""
    return value if np.isfinite(value) else None
