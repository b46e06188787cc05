"""The paper's claims, as checks on results. A verdict follows from a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from remanence.results.statistics import normal_interval
from remanence.results.store import Results

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NOT_RUN = "reproduced", "not reproduced", "undecided", "not run"


@dataclass(frozen=True)
class Claim:
    id: str
    text: str
    verdict: str
    evidence: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """One comparison: its verdict and the numbers behind it."""

    verdict: str
    evidence: str


def is_negative(sample: np.ndarray, label: str) -> Finding:
    """Whether the mean of a sample (one value per seed) is below zero: decided if the 90 % interval lies on one side."""
    if len(sample) == 0:
        return Finding(NOT_RUN, f"{label}: no seeds to compare")
    mean, low, high = normal_interval(sample)
    if not np.isfinite(low):
        return Finding(UNDECIDED, f"{label} = {mean:+.4f} (one seed gives no interval)")
    verdict = REPRODUCED if high < 0 else NOT_REPRODUCED if low > 0 else UNDECIDED
    return Finding(verdict, f"{label} = {mean:+.4f} [{low:+.4f}, {high:+.4f}], n = {len(sample)}")


def is_small(sample: np.ndarray, margin: float, label: str) -> Finding:
    """Whether the mean of a sample is within a margin of zero: decided if the 90 % interval lies inside or outside."""
    if len(sample) == 0:
        return Finding(NOT_RUN, f"{label}: no seeds to compare")
    mean, low, high = normal_interval(sample)
    if not np.isfinite(low):
        return Finding(UNDECIDED, f"{label} = {mean:+.4f} (one seed gives no interval)")
    outside = low > margin or high < -margin
    verdict = REPRODUCED if -margin < low and high < margin else NOT_REPRODUCED if outside else UNDECIDED
    return Finding(verdict, f"{label} = {mean:+.4f} [{low:+.4f}, {high:+.4f}], margin ±{margin:.4f}, n = {len(sample)}")


def lower(results: Results, winner: str, loser: str, per_seed: dict[str, np.ndarray], what: str) -> Finding:
    """Whether `winner` is below `loser`, seed by seed: lanes of equal seed share random numbers, so differences are paired."""
    missing = [name for name in (winner, loser) if name not in per_seed]
    if missing:
        return Finding(NOT_RUN, f"{', '.join(missing)} did not run")
    seeds = {name: results.sound_seeds(name) for name in (winner, loser)}
    shared = sorted(set(seeds[winner]) & set(seeds[loser]))
    left, right = (np.array([per_seed[name][seeds[name].index(seed)] for seed in shared]) for name in (winner, loser))
    finding = is_negative(left - right, f"{what}: {winner} − {loser}")
    left_out = sorted({*results.diverged(winner), *results.diverged(loser)})
    suffix = f" ({len(left_out)} seeds left out: an agent diverged)" if left_out else ""
    return Finding(finding.verdict, finding.evidence + suffix)


def everywhere(findings: Sequence[Finding]) -> Finding:
    """One finding for many comparisons: all must hold. Shows how many do, and the first that does not."""
    verdict = worst_of(findings)
    agreed = sum(finding.verdict == REPRODUCED for finding in findings)
    against = next((finding for finding in findings if finding.verdict == verdict), None)
    shown = (
        f"; {verdict}: {against.evidence}" if against and verdict != REPRODUCED else f"; first: {findings[0].evidence}"
    )
    return Finding(verdict, f"holds in {agreed} of {len(findings)} comparisons{shown}")


def worst_of(findings: Sequence[Finding]) -> str:
    """The worst verdict: not run, not reproduced, undecided, reproduced, in this order."""
    verdicts = {finding.verdict for finding in findings}
    order = (NOT_RUN, NOT_REPRODUCED, UNDECIDED, REPRODUCED)
    return next((verdict for verdict in order if verdict in verdicts), NOT_RUN)


def claim(name: str, text: str, *findings: Finding) -> Claim:
    """A claim that needs all its findings: it gets the worst verdict among them."""
    return Claim(name, text, worst_of(findings), "; ".join(finding.evidence for finding in findings))
