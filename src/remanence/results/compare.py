"""Two agents of a run, seed by seed: the difference, its size, and a verdict with Student's t."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.metrics import lower_is_better
from remanence.metrics import metric as metric_of
from remanence.results.claims import ALPHA, MIN_SEEDS, TOO_FEW, UNDECIDED, paired
from remanence.results.statistics import Estimate, relative_difference, share_below, student_interval, student_p
from remanence.results.store import DIVERGED, FAILED, Results
from remanence.results.summary import per_seed

BETTER, WORSE, HIGHER, LOWER = "better", "worse", "higher", "lower"


@dataclass(frozen=True)
class Comparison:
    """`a` against `b`, one value of each per seed. Positive differences mean that `a` has more."""

    a: str
    b: str
    metric: str
    n: int
    """seeds in which neither diverged"""
    left_out: int
    """seeds in which one of them diverged, or its environment failed"""
    mean_a: float
    mean_b: float
    difference: float
    """mean of a − b"""
    low: float | None
    high: float | None
    """Student's 90 % interval of the difference; None for one seed"""
    p: float | None
    """two-sided p-value of Student's test of the paired differences; None for one seed"""
    relative: float | None
    """difference / |mean of b|; None if that is zero"""
    effect_size: float | None
    """Cohen's d of the paired differences, mean / standard deviation; None if they do not vary, or for one seed"""
    improvement: float
    """the share of seeds in which a is better than b; ties count half"""
    verdict: str
    """of a: better, worse (higher, lower for a metric without a direction), undecided, or too few seeds to judge"""
    failed: int = 0
    """those of the seeds left out in which an environment failed"""

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.4g}, {self.high:.4g}]"
        numbers = [
            f"{self.a} − {self.b} = {self.difference:+.4g}{interval} in {self.metric}",
            f"{self.mean_a:.4g} against {self.mean_b:.4g}",
            *([] if self.relative is None else [f"{100 * self.relative:+.1f} %"]),
            *([] if self.effect_size is None else [f"effect size {self.effect_size:+.2f}"]),
            f"probability of improvement {self.improvement:.2f}",
            *([] if self.p is None else [f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"]),
            f"n = {self.n}" + (f" ({self._left_out})" if self.left_out else ""),
        ]
        judged = f"{self.a} is {self.verdict}" if self.verdict in (BETTER, WORSE, HIGHER, LOWER) else self.verdict
        return f"{judged}: {', '.join(numbers)}"

    @property
    def _left_out(self) -> str:
        counts = {DIVERGED: self.left_out - self.failed, FAILED: self.failed}
        why = [f"{count} {one}" for one, count in counts.items() if count]
        if len(why) == 1:
            why = [one for one, count in counts.items() if count]
        return f"{self.left_out} seed{'s' if self.left_out > 1 else ''} left out: {', '.join(why)}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(results: Results, a: str, b: str, metric: str, last: float = 1.0) -> Comparison:
    """Student's test of the paired differences, as for the paper's claims (docs/metrics.md)."""
    for name in (a, b):
        if name not in results.contenders:
            raise unknown("agent", name, results.contenders)
    if a == b:
        raise UserError(f"'{a}' cannot be compared with itself: name two agents, of {', '.join(results.contenders)}")
    lived = [min(results.lifetimes(name)) for name in (a, b)]
    if lived[0] != lived[1]:
        raise UserError(
            f"{a} has {lived[0]} {results.unit}s and {b} has {lived[1]}, because the callback stopped the run: only agents with "
            "equally long lives can be compared"
        )
    one, other = paired(results, a, b, {name: per_seed(results, name, metric, last) for name in (a, b)})
    if not one.size:
        raise UserError(f"there is no seed in which neither {a} nor {b} diverged or failed: nothing can be compared")
    sample = one - other
    lower = lower_is_better(metric)
    interval, p = student_interval(sample), student_p(sample)
    return Comparison(
        a,
        b,
        metric,
        n=len(sample),
        left_out=len({*results.diverged(a), *results.diverged(b)}),
        mean_a=float(one.mean()),
        mean_b=float(other.mean()),
        difference=interval.mean,
        low=_number(interval.low),
        high=_number(interval.high),
        p=_number(p),
        relative=relative_difference(one, other),
        effect_size=_effect_size(sample),
        improvement=share_below(one, other) if lower else share_below(other, one),
        verdict=_verdict(interval, p, len(sample), metric),
        failed=len({*results.failed(a), *results.failed(b)}),
    )


def _verdict(difference: Estimate, p: float, seeds: int, metric: str) -> str:
    if seeds < MIN_SEEDS:
        return f"{TOO_FEW} (fewer than {MIN_SEEDS})"
    if p > ALPHA:
        return UNDECIDED
    more = difference.mean > 0
    if metric_of(metric).higher_is_better is None:
        return HIGHER if more else LOWER
    return BETTER if more != lower_is_better(metric) else WORSE


def _effect_size(sample: np.ndarray) -> float | None:
    spread = float(np.std(sample, ddof=1)) if len(sample) > 1 else 0.0
    return float(sample.mean()) / spread if spread else None


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
