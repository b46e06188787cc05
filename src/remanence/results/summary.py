"""Summary statistics per contender and metric, and all values as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from remanence.core.errors import UserError, unknown
from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.results.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean_where,
    standard_error,
    student_interval,
)
from remanence.results.stopped import stopped_remark
from remanence.results.store import CHOICE, TASK_CURVES, Results
from remanence.results.table import Table, row, table

NOT_SUMMARISED = (*TASK_CURVES, "parameter")  # curves that tell of the stream, not of the agents


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


def summary_table(results: Results, metrics: Sequence[str] = (), last: float = 1.0) -> Table:
    """Mean, Student's 90 % interval and interquartile mean over seeds of each contender and metric, and how many seeds count.

    Args:
        metrics: default: all but those about the two parts of a PT agent.
        last: the share of the life, at its end, over which each seed's curve is averaged.
    """
    if "sweep" in results.description:
        return _sweep_table(results, metrics)
    check_curves(results)
    metrics = list(metrics) or [name for name in results.first_metrics(()) if name not in NOT_SUMMARISED]
    rows = [
        _row(name, metric, per_seed(results, name, metric, last), len(results.diverged(name)))
        for name in results.contenders
        for metric in metrics
    ]
    share = "" if last == 1.0 else f"the last {100 * last:g} % of "
    failed = sum(len(results.failed(name)) for name in results.contenders)
    of_them = f" In {failed} of them the environment failed." if failed else ""
    stopped = f" {remark[0].upper()}{remark[1:]}." if (remark := stopped_remark(results)) else ""
    return table(
        rows,
        "metric",
        f"Mean over {share}each seed's curve; n seeds, Student's t; diverged seeds are left out.{of_them}{stopped}",
    )


def _sweep_table(results: Results, metrics: Sequence[str]) -> Table:
    """The same for every setting of a sweep, which keeps one number per seed, the mean over its curve."""
    columns = [column.removeprefix("auc_") for column in results.lanes.columns if column.startswith("auc_")]
    measured = sorted(columns, key=lambda metric: metric != results.objective)
    for metric in metrics:
        if metric not in measured:
            raise unknown("metric", metric, measured)
    rows = []
    for name, settings in settings_of(results):
        for hypers, lanes in settings:
            sound = lanes.filter(~pl.col("diverged"))
            label = _label(name, hypers)
            samples = {metric: sound[f"auc_{metric}"].to_numpy() for metric in metrics or measured}
            rows += [_row(label, metric, sample, len(lanes) - len(sound)) for metric, sample in samples.items()]
    return table(
        rows, "metric", "Mean over each seed's curve; n tuning seeds, Student's t; diverged seeds are left out."
    )


def _row(agent: str, metric: str, sample: np.ndarray, diverged: int) -> dict[str, Any]:
    estimate = student_interval(sample, bounds=metric_of(metric).bounds) if sample.size else None
    iqm = interquartile_mean(sample) if sample.size else None
    return row(agent, "metric", metric, estimate, iqm=iqm, n=len(sample), diverged=diverged)


def _label(name: str, hypers: dict[str, float]) -> str:
    """A setting of a sweep."""
    return " ".join([name, *(f"{hyper}={value:g}" for hyper, value in hypers.items())])


def per_seed(results: Results, contender: str, metric: str, last: float = 1.0) -> np.ndarray:
    """[sound seeds] mean over the last share of the windows."""
    check_curves(results)
    if metric not in results.metrics:
        raise unknown("metric", metric, results.metrics)
    if isinstance(last, bool) or not isinstance(last, int | float) or not 0.0 < last <= 1.0:
        raise UserError(f"last is the share of the life, at its end, that counts: above 0 and at most 1; got {last!r}")
    curves = results.matrix(contender, metric)
    return curves[:, -max(1, round(last * curves.shape[1])) :].mean(axis=1, dtype=np.float64)


def check_curves(results: Results) -> None:
    """Raises if there are no curves to compute anything from."""
    if "sweep" in results.description:
        raise UserError("a sweep keeps one number per seed and setting, no curves: use summary()")
    if not results.metrics:
        raise UserError("this run has no curves: nothing is finished yet")


def frame(results: Results, diverged: bool = False) -> pl.DataFrame:
    """All values: agent, seed, step (or episode) at the end of the window, task, metric, value.

    Args: diverged: whether to keep diverged lives, marked in one more column; values that are no numbers are null.
    """
    check_curves(results)
    lanes = results.lanes.select("lane", pl.col("contender").alias("agent"), "seed", "diverged")
    lanes = lanes if diverged else lanes.filter(~pl.col("diverged"))
    clock = results.description["stream"]["segment_length"]
    unit = next(iter(clock)).removesuffix("s")
    places = pl.DataFrame({"window": np.arange(1, results.windows + 1, dtype=np.int32), unit: results.ends})
    rows = results.curves.filter(~pl.col("metric").is_in(TASK_CURVES)).join(lanes, on="lane").join(places, on="window")
    rows = rows.join(_tasks(results), on=["lane", "window"], how="left")
    value = pl.when(pl.col("value").is_finite()).then(pl.col("value"))
    columns = ["agent", "seed", unit, "task", "metric", value, *(["diverged"] if diverged else [])]
    return rows.sort("lane", "metric", "window", maintain_order=True).select(columns)


def _tasks(results: Results) -> pl.DataFrame:
    """The name of the task of each lane and window; null where each seed drew its own and did not record it."""
    order, length = results.description["stream"]["order"], results.segment_length
    names = results.task_names
    recorded = next((metric for metric in TASK_CURVES if metric in results.metrics), None)
    if None in order and recorded:
        drawn = results.curves.filter((pl.col("metric") == recorded) & pl.col("value").is_finite())
        number = pl.col("value").cast(pl.Int64).replace_strict(dict(enumerate(names)), default=None)
        return drawn.select("lane", "window", task=number.cast(pl.String))
    tasks = [None if task is None else names[task] for task in order for _ in range(length)]
    shared = pl.DataFrame(
        {"window": np.arange(1, len(tasks) + 1, dtype=np.int32), "task": pl.Series(tasks, dtype=pl.String)}
    )
    return results.lanes.select("lane").join(shared, how="cross")


def summarise_sweep(results: Results) -> dict[str, Any]:
    """The same for every setting of a sweep, named by its hyperparameters. Sweeps record AUCs only, so there are no segments."""
    return {label: values for settings in settings_by_agent(results).values() for label, values in settings.items()}


def settings_by_agent(results: Results) -> dict[str, dict[str, Any]]:
    """The same, by contender."""
    found: dict[str, dict[str, Any]] = {}
    for name, settings in settings_of(results):
        summary = found.setdefault(name, {})
        for hypers, lanes in settings:
            label = _label(name, hypers)
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
    return found


def ranked_settings(results: Results, metric: str) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """By contender of a sweep: every setting with its statistics and whether it was chosen, the best mean first. A setting with
    diverged seeds comes last, since it cannot be chosen."""
    chosen = results.description.get(CHOICE, {}).get("settings", {})

    def rank(one: dict[str, Any]) -> tuple[float, bool]:
        mean = one["metrics"][metric]["auc_mean"]
        if mean is None or one["diverged"]:
            return float("inf"), True
        return mean if lower_is_better(metric) else -mean, not one["chosen"]

    ranked = {}
    for name, settings in settings_by_agent(results).items():
        marked = [(label, {**one, "chosen": one["hypers"] == chosen.get(name)}) for label, one in settings.items()]
        ranked[name] = sorted(marked, key=lambda item: rank(item[1]))
    return ranked


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
