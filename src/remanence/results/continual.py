"""Metrics of continual learning: jumpstart, recovery, forgetting, transfer. Defined in `docs/metrics.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remanence.metrics import lower_is_better
from remanence.results.statistics import Estimate, normal_interval
from remanence.results.store import Results

WINDOW = 5  # episodes averaged before a single curve is compared with a level
TOLERANCE = 0.1  # "recovered" is within this share of the segment's final level
RESET = "-reset"  # ends the name of a contender that is reset at each switch
FINAL_SHARE = 0.1  # the final level is the mean of this last share of a segment


@dataclass(frozen=True)
class ContinualMetrics:
    """One value per seed, in the metric's unit, except `recovery`, which is in windows."""

    performance: np.ndarray  # [seeds] mean over all windows, in the metric's direction
    jumpstart: np.ndarray  # [seeds] first window after a switch, mean over switches, in the metric's direction
    recovery: np.ndarray  # [seeds] windows until within TOLERANCE of the segment's final level, mean over switches
    forgetting: np.ndarray  # [seeds] how much worse a task is when it comes back than when it was left; more is worse
    transfer: (
        np.ndarray | None
    )  # [seeds] how much better than the reset contender of its family in segments after a switch

    def estimates(self) -> dict[str, Estimate | None]:
        """Means with the paper's interval; None for metrics this run cannot give."""
        measures = {
            "performance": self.performance,
            "jumpstart": self.jumpstart,
            "recovery": self.recovery,
            "forgetting": self.forgetting,
            "transfer": self.transfer,
        }
        return {
            name: normal_interval(values) if values is not None and values.size and np.isfinite(values).all() else None
            for name, values in measures.items()
        }


def continual_metrics(
    curves: np.ndarray, order: Sequence[int | None], lower: bool, baseline: np.ndarray | None
) -> ContinualMetrics:
    """The metrics of one contender.

    Args:
        curves: [seeds, windows], segments of equal length.
        order: [segments] the task of each segment.
        lower: whether a lower value is better.
        baseline: [seeds, windows] the reset contender's curves for the same seeds.
    """
    by_segment = _by_segment(curves, len(order))
    sign = -1.0 if lower else 1.0
    return ContinualMetrics(
        performance=curves.mean(axis=1, dtype=np.float64),
        jumpstart=by_segment[:, 1:, 0].mean(axis=1) if len(order) > 1 else np.empty(0),
        recovery=_recovery(by_segment),
        forgetting=_forgetting(sign * by_segment, order),
        transfer=None if baseline is None else _transfer(sign * by_segment, sign * _by_segment(baseline, len(order))),
    )


def of_run(results: Results, metric: str) -> dict[str, ContinualMetrics]:
    """The metrics of every contender; transfer where the reset contender of its family ran with the same seeds."""
    order = results.description["stream"]["order"]
    measured = {}
    for name in results.contenders:
        curves = results.matrix(name, metric)
        if not curves.size:
            continue
        baseline = results.matrix(reset, metric) if (reset := _reset_variant(results, name)) else None
        measured[name] = continual_metrics(curves, order, lower_is_better(metric), baseline)
    return measured


def _reset_variant(results: Results, name: str) -> str | None:
    """The contender of the same family that is reset at each switch, if it can be compared seed by seed.

    The family of TD, PT-TD, DQN-multihead and PT-DQN λ=0.55 is TD, TD, DQN and DQN: its reset contender is TD-reset or DQN-reset.
    """
    family = name.removeprefix("PT-").split(" ")[0].split("-")[0]
    variant = f"{family}{RESET}"
    comparable = variant != name and variant in results.contenders
    return variant if comparable and results.sound_seeds(variant) == results.sound_seeds(name) else None


def _by_segment(curves: np.ndarray, segments: int) -> np.ndarray:
    return curves.reshape(len(curves), segments, -1).astype(np.float64)


def _recovery(by_segment: np.ndarray) -> np.ndarray:
    if by_segment.shape[1] < 2:
        return np.empty(0)
    length = by_segment.shape[2]
    final = by_segment[:, :, -max(1, round(FINAL_SHARE * length)) :].mean(axis=2, keepdims=True)
    width = min(WINDOW, length)
    padded = np.cumsum(np.concatenate([np.zeros((*by_segment.shape[:2], 1)), by_segment], axis=2), axis=2)
    smooth = (padded[:, :, width:] - padded[:, :, :-width]) / width  # [seeds, segments, length − width + 1]
    near = np.abs(smooth - final) <= TOLERANCE * np.abs(final)
    first = np.where(near.any(axis=2), near.argmax(axis=2) + width, length)
    return first[:, 1:].mean(axis=1)


def _forgetting(by_segment: np.ndarray, order: Sequence[int | None]) -> np.ndarray:
    """Segments with task None are skipped: there, each seed draws its own tasks. In `by_segment`, more is better."""
    left = {}
    losses = []
    for segment, task in enumerate(order):
        if task is None:
            continue
        if task in left:
            losses.append(by_segment[:, left[task], -1] - by_segment[:, segment, 0])
        left[task] = segment
    return np.mean(losses, axis=0) if losses else np.empty(0)


def _transfer(by_segment: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    return (by_segment - baseline)[:, 1:].mean(axis=(1, 2)) if by_segment.shape[1] > 1 else np.empty(0)
