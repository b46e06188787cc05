"""Metrics of continual learning: jumpstart, recovery, forgetting, transfer. Defined in `docs/metrics.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from remanence.core.errors import UserError, unknown
from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.statistics import UNBOUNDED, Bounds, Estimate, finite, mean_where, student_interval
from remanence.results.stopped import stopped_remark
from remanence.results.store import Results
from remanence.results.table import Table, row, table

WINDOW = 5  # episodes averaged before a single curve is compared with a level
TOLERANCE = 0.1  # "recovered" is within this share of the level, or better
RESET = "-reset"  # ends the name of a contender that is reset at each switch
FINAL_SHARE = 0.1  # the final level is the mean of this last share of a segment
RETURN, REGRET = "discounted_return", "regret"  # where both are measured, their sum is the optimum

Levels = Mapping[int, float]  # task -> the level of recovery, the same for all contenders


@dataclass(frozen=True)
class ContinualMetrics:
    """One value per seed, in the metric's unit, except `recovery`, which is in windows.

    NaN for a seed in which nothing of the kind happened: no switch to another task, or no task that came back.
    """

    performance: np.ndarray  # [seeds] mean over all windows, in the metric's direction
    jumpstart: np.ndarray  # [seeds] first window after a switch, mean over switches, in the metric's direction
    recovery: np.ndarray  # [seeds] windows until within TOLERANCE of the level or better, mean over switches
    forgetting: np.ndarray  # [seeds] how much worse a task is when it comes back than when it was left; more is worse
    transfer: (
        np.ndarray | None
    )  # [seeds] how much better than the reset contender of its family in segments after a switch
    bounds: Bounds = UNBOUNDED  # of the metric
    segment_length: int = 0  # windows

    def estimates(self) -> dict[str, Estimate | None]:
        """Means over the seeds that have a value, with Student's 90 % interval; None for metrics this run cannot give."""
        measures = {
            "performance": (self.performance, self.bounds),
            "jumpstart": (self.jumpstart, self.bounds),
            "recovery": (self.recovery, (0.0, float(self.segment_length))),
            "forgetting": (self.forgetting, UNBOUNDED),
            "transfer": (self.transfer, UNBOUNDED),
        }
        there = {
            name: (np.empty(0) if values is None else values[np.isfinite(values)], bounds)
            for name, (values, bounds) in measures.items()
        }
        return {
            name: student_interval(values, bounds=bounds) if values.size else None
            for name, (values, bounds) in there.items()
        }


def continual_metrics(
    curves: np.ndarray,
    order: Sequence[int] | np.ndarray,
    lower: bool,
    baseline: np.ndarray | None,
    levels: Levels | None = None,
    bounds: Bounds = UNBOUNDED,
) -> ContinualMetrics:
    """The metrics of one contender.

    Args:
        curves: [seeds, windows], segments of equal length.
        order: [segments] the task of each segment, or [seeds, segments] where each seed has its own.
        lower: whether a lower value is better.
        baseline: [seeds, windows] the reset contender's curves for the same seeds.
        levels: of recovery, by task; if there is only this contender, its final levels.
        bounds: of the metric.
    """
    order = np.asarray(order)
    tasks = np.broadcast_to(order, (len(curves), order.shape[-1]))
    by_segment = _by_segment(curves, tasks.shape[1])
    switched = np.diff(tasks, axis=1, prepend=tasks[:, :1]) != 0
    sign = -1.0 if lower else 1.0
    levels = best_final_levels([(curves, tasks)], lower) if levels is None else levels
    transfer = None
    if baseline is not None:
        gain = sign * (by_segment - _by_segment(baseline, tasks.shape[1]))
        transfer = mean_where(gain.mean(axis=2), switched)
    return ContinualMetrics(
        performance=curves.mean(axis=1, dtype=np.float64),
        jumpstart=mean_where(by_segment[:, :, 0], switched),
        recovery=mean_where(_recovery(by_segment, np.vectorize(levels.__getitem__)(tasks), sign), switched),
        forgetting=_forgetting(sign * by_segment, tasks),
        transfer=transfer,
        bounds=bounds,
        segment_length=by_segment.shape[2],
    )


def of_run(results: Results, metric: str) -> dict[str, ContinualMetrics]:
    """The metrics of every contender; transfer where the reset contender of its family ran with the same seeds."""
    curves = {name: matrix for name in results.contenders if (matrix := results.matrix(name, metric)).size}
    tasks = {name: results.tasks(name) for name in curves}
    lower = lower_is_better(metric)
    judges = [name for name in curves if not name.endswith(CONTROL_SUFFIX)] or curves  # controls of ours set no level
    levels = best_final_levels([(curves[name], tasks[name]) for name in judges], lower)
    levels = {**levels, **_optimum(results, metric, tasks)}
    measured = {}
    for name in curves:
        baseline = results.matrix(reset, metric) if (reset := _reset_variant(results, name)) else None
        measured[name] = continual_metrics(curves[name], tasks[name], lower, baseline, levels, metric_of(metric).bounds)
    return measured


@dataclass(frozen=True, repr=False)
class Continual(Table):
    """Jumpstart, recovery, forgetting and transfer of every agent, and what each task left for the next."""

    matrices: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    def matrix(self, agent: str) -> pl.DataFrame:
        """Task × task. Row i, column j: the first window of task j right after task i; the diagonal: the last window of a task.

        Means over seeds and switches; null where task j never followed task i.
        """
        if agent not in self.matrices:
            raise unknown("agent", agent, self.matrices)
        return self.matrices[agent]


def continual_table(results: Results, metric: str) -> Continual:
    """The metrics of continual learning of every agent, with Student's 90 % intervals (docs/metrics.md)."""
    if not results.switches:
        raise UserError("this stream never switches to another task, so there is no jumpstart, recovery or forgetting")
    if results.stopped:
        raise UserError(f"jumpstart, recovery, forgetting and transfer need whole lives; {stopped_remark(results)}")
    measured = of_run(results, metric)
    rows = []
    for name, metrics in measured.items():
        for measure, estimate in metrics.estimates().items():
            unit = f"{results.unit}s" if measure == "recovery" else metric_of(metric).unit
            values = getattr(metrics, measure)
            count = 0 if values is None else int(np.isfinite(values).sum())
            rows.append(row(name, "measure", measure, estimate, unit=unit, n=count))
    if not rows:
        raise UserError("every life of this run diverged: there is nothing to measure")
    remark = f"Measured by {metric_of(metric).label}; n seeds, Student's t; – where nothing of the kind happened."
    plain = table(rows, "measure", remark)
    matrices = {
        name: _with_names(task_matrix(results.matrix(name, metric), results.tasks(name)), results.task_names)
        for name in measured
    }
    return Continual(plain.frame, plain.what, plain.remark, matrices)


def task_matrix(curves: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """[tasks, tasks] row i, column j: the first window of j right after i; on the diagonal, the last window of a segment.

    Means over the events of each seed, then over the seeds that have one; NaN where there is none.

    Args: curves: [seeds, windows].  tasks: [seeds, segments].
    """
    by_segment, number = _by_segment(curves, tasks.shape[1]), int(tasks.max()) + 1
    sums, counts = np.zeros((2, len(curves), number, number))
    for seed, order in enumerate(tasks):
        for segment, task in enumerate(order):
            sums[seed, task, task] += by_segment[seed, segment, -1]
            counts[seed, task, task] += 1
            if segment and order[segment - 1] != task:
                sums[seed, order[segment - 1], task] += by_segment[seed, segment, 0]
                counts[seed, order[segment - 1], task] += 1
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    seeds = (counts > 0).sum(axis=0)
    return np.where(seeds > 0, means.sum(axis=0) / np.maximum(seeds, 1), np.nan)


def _with_names(matrix: np.ndarray, names: Sequence[str]) -> pl.DataFrame:
    """A matrix with the names of its tasks."""
    names = [*names, *map(str, range(len(names), len(matrix)))][: len(matrix)]
    if len({"after", *names}) <= len(names):  # two tasks of one name
        names = [f"{place}: {name}" for place, name in enumerate(names)]
    columns = {
        name: [value if np.isfinite(value) else None for value in matrix[:, place].tolist()]
        for place, name in enumerate(names)
    }
    return pl.DataFrame({"after": list(names), **columns}, schema_overrides=dict.fromkeys(columns, pl.Float64))


def best_final_levels(contenders: Sequence[tuple[np.ndarray, np.ndarray]], lower: bool) -> dict[int, float]:
    """For each task, the best of the contenders' final levels: means over seeds and segments of the end of a segment.

    Args: contenders: for each, its curves [seeds, windows] and tasks [seeds, segments].
    """
    best: dict[int, float] = {}
    for curves, tasks in contenders:
        by_segment = _by_segment(curves, tasks.shape[1])
        final = by_segment[:, :, -max(1, round(FINAL_SHARE * by_segment.shape[2])) :].mean(axis=2)
        for task in np.unique(tasks).tolist():
            level = float(final[tasks == task].mean())
            best[task] = level if task not in best else min(best[task], level) if lower else max(best[task], level)
    return best


def _optimum(results: Results, metric: str, tasks: Mapping[str, np.ndarray]) -> dict[int, float]:
    """Task -> the optimal value of the start, where it is measured: regret is this value minus the discounted return."""
    if metric != RETURN or REGRET not in results.metrics:
        return {}
    found: dict[int, float] = {}
    for name, of_segments in tasks.items():
        best = results.matrix(name, RETURN).astype(np.float64) + results.matrix(name, REGRET)
        by_segment = _by_segment(best, of_segments.shape[1]).mean(axis=2)
        found |= {task: float(by_segment[of_segments == task].mean()) for task in np.unique(of_segments).tolist()}
    return found


def _reset_variant(results: Results, name: str) -> str | None:
    """The contender of the same family that is reset at each switch, if it can be compared seed by seed.

    The family of TD, PT-TD, DQN-multihead and PT-DQN λ=0.55 is TD, TD, DQN and DQN: its reset contender is TD-reset or DQN-reset.
    """
    family = name.removeprefix("PT-").split(" ")[0].split("-")[0]
    variant = f"{family}{RESET}"
    comparable = variant != name and variant in results.contenders
    return variant if comparable and results.sound_seeds(variant) == results.sound_seeds(name) else None


def _by_segment(curves: np.ndarray, segments: int) -> np.ndarray:
    return finite(curves, "the curves").reshape(len(curves), segments, -1)


def _recovery(by_segment: np.ndarray, levels: np.ndarray, sign: float) -> np.ndarray:
    """[seeds, segments] windows until the mean of the last WINDOW ones reaches the level; the segment's length if it never does."""
    length = by_segment.shape[2]
    width = min(WINDOW, length)
    padded = np.cumsum(np.concatenate([np.zeros((*by_segment.shape[:2], 1)), by_segment], axis=2), axis=2)
    smooth = (padded[:, :, width:] - padded[:, :, :-width]) / width  # [seeds, segments, length − width + 1]
    enough = sign * levels - TOLERANCE * np.abs(levels)
    reached = sign * smooth >= enough[:, :, None]
    return np.where(reached.any(axis=2), reached.argmax(axis=2) + width, length)


def _forgetting(by_segment: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """[seeds] mean over returns of a task; NaN where none came back. In `by_segment`, more is better."""
    losses = [_losses(curve, order) for curve, order in zip(by_segment, tasks.tolist(), strict=True)]
    return np.array([float(np.mean(of_seed)) if of_seed else np.nan for of_seed in losses])


def _losses(by_segment: np.ndarray, order: Sequence[int]) -> list[float]:
    """For each return of a task after another one: its last window when it was left minus its first one now."""
    left: dict[int, int] = {}
    losses = []
    for segment, task in enumerate(order):
        if left.get(task, segment - 1) < segment - 1:
            losses.append(float(by_segment[left[task], -1] - by_segment[segment, 0]))
        left[task] = segment
    return losses
