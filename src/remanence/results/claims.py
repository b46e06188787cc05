"""The paper's claims, as checks on results. A verdict follows from Student's test; see docs/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from remanence.results.statistics import (
    LEVEL,
    finite,
    holm,
    relative_difference,
    share_below,
    student_interval,
    student_p,
)
from remanence.results.store import Results

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NOT_RUN = "reproduced", "not reproduced", "undecided", "not run"
TOO_FEW, SHORTENED, CHANGED = "too few seeds to judge", "shortened run", "changed run"  # no verdict, only numbers
MIN_SEEDS = 5
ALPHA = 1 - LEVEL + 1e-12  # the largest p-value that decides


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
    """if it were the only comparison; a claim with several of them corrects it (`judged`)"""
    evidence: str
    p: float | None = None
    """two-sided; None where nothing was tested"""


def is_below(left: np.ndarray, right: np.ndarray, label: str) -> Finding:
    """Whether the mean of left is below that of right, one value of each per seed: Student's test of the paired differences.

    A seed without a value (NaN: nothing of the kind happened in it) is left out, and counted in the evidence.
    """
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    there = np.isfinite(left) & np.isfinite(right)
    left, right = left[there], right[there]
    suffix = f" ({int((~there).sum())} seeds left out: no value)" if left.size and not there.all() else ""
    finding = _with_effects(is_negative(left - right, label), left, right)
    return replace(finding, evidence=finding.evidence + suffix)


def is_same(left: np.ndarray, right: np.ndarray, margin: float, label: str) -> Finding:
    """Whether the means of left and right differ by less than a margin, one value of each per seed."""
    if not left.size:
        return is_negative(left, label)
    sample = left - right
    finding = _with_effects(_measured(sample, label, f", margin ±{margin:.4f}"), left, right)
    if finding.verdict == TOO_FEW:
        return finding
    # Two one-sided tests, against both ends of the margin. Their p-values are doubled, as all others are two-sided. The nearer end,
    # whose p-value is the larger one, decides: inside both must be excluded, outside the mean must be beyond it.
    p, inside = max(student_p(sample, -margin), student_p(sample, margin)), abs(float(np.mean(sample))) < margin
    verdict = UNDECIDED if p > ALPHA else REPRODUCED if inside else NOT_REPRODUCED
    return replace(finding, verdict=verdict, p=p)


def _with_effects(finding: Finding, left: np.ndarray, right: np.ndarray) -> Finding:
    """The same finding with its effect sizes beside it. An improvement is what the claim says: left below right."""
    if not left.size:
        return finding
    relative = relative_difference(left, right)
    effect = "" if relative is None else f", relative difference {100 * relative:+.1f} %"
    effect += f", probability of improvement {share_below(left, right):.2f}"
    return replace(finding, evidence=finding.evidence + effect)


def is_negative(sample: np.ndarray, label: str) -> Finding:
    """Whether the mean of a sample (one value per seed) is below zero: decided if the 90 % interval lies on one side."""
    if len(sample) == 0:
        return Finding(NOT_RUN, f"{label}: no seeds to compare")
    finding = _measured(sample, label)
    if finding.verdict == TOO_FEW:
        return finding
    p, mean = student_p(sample), float(np.mean(sample))
    verdict = UNDECIDED if p > ALPHA else REPRODUCED if mean < 0 else NOT_REPRODUCED
    return replace(finding, verdict=verdict, p=p)


def _measured(sample: np.ndarray, label: str, suffix: str = "") -> Finding:
    """The numbers of a sample, not judged yet."""
    mean, low, high = student_interval(finite(sample, label))
    interval = "" if math.isnan(low) else f" [{low:+.4f}, {high:+.4f}]"
    verdict = UNDECIDED if len(sample) >= MIN_SEEDS else TOO_FEW
    return Finding(verdict, f"{label} = {mean:+.4f}{interval}{suffix}, n = {len(sample)}")


def lower(results: Results, winner: str, loser: str, per_seed: dict[str, np.ndarray], what: str) -> Finding:
    """Whether `winner` is below `loser`, seed by seed: lanes of equal seed share random numbers, so differences are paired."""
    missing = [name for name in (winner, loser) if name not in per_seed]
    if missing:
        return Finding(NOT_RUN, f"{', '.join(missing)} did not run")
    left, right = paired(results, winner, loser, per_seed)
    finding = is_below(left, right, f"{what}: {winner} − {loser}")
    left_out = sorted({*results.diverged(winner), *results.diverged(loser)})
    suffix = f" ({len(left_out)} seeds left out: an agent diverged)" if left_out else ""
    return replace(finding, evidence=finding.evidence + suffix)


def paired(
    results: Results, left: str, right: str, per_seed: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The values of two contenders, [sound seeds] each, for the seeds in which neither diverged."""
    seeds = {name: results.sound_seeds(name) for name in (left, right)}
    shared = sorted(set(seeds[left]) & set(seeds[right]))
    one, other = (np.array([per_seed[name][seeds[name].index(seed)] for seed in shared]) for name in (left, right))
    return one, other


def judged(findings: Sequence[Finding]) -> list[Finding]:
    """A family of comparisons: each is decided by its p-value adjusted by Holm's method, which the evidence then shows."""
    tested = [place for place, one in enumerate(findings) if one.p is not None]
    adjusted = dict(zip(tested, holm([findings[place].p or 0.0 for place in tested]), strict=True))
    family = f" (Holm over {len(tested)})" if len(tested) > 1 else ""
    return [
        replace(
            one,
            verdict=one.verdict if adjusted[place] <= ALPHA else UNDECIDED,
            evidence=f"{one.evidence}, {_p_value(adjusted[place])}{family}",
            p=None,
        )
        if place in adjusted
        else one
        for place, one in enumerate(findings)
    ]


def _p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def everywhere(findings: Sequence[Finding]) -> Finding:
    """One finding for many comparisons: all must hold. Shows how many do, and the first that does not."""
    found = judged(findings)
    verdict = worst_of(found)
    agreed = sum(finding.verdict == REPRODUCED for finding in found)
    against = next((finding for finding in found if finding.verdict == verdict), None)
    shown = f"; {verdict}: {against.evidence}" if against and verdict != REPRODUCED else f"; first: {found[0].evidence}"
    return Finding(verdict, f"holds in {agreed} of {len(found)} comparisons{shown}")


def worst_of(findings: Sequence[Finding]) -> str:
    """The worst verdict: not run, not reproduced, too few seeds, undecided, reproduced, in this order."""
    verdicts = {finding.verdict for finding in findings}
    order = (NOT_RUN, NOT_REPRODUCED, TOO_FEW, UNDECIDED, REPRODUCED)
    return next((verdict for verdict in order if verdict in verdicts), NOT_RUN)


def claim(name: str, text: str, *findings: Finding) -> Claim:
    """A claim that needs all its findings: they are one family (`judged`), and it gets the worst verdict among them."""
    found = judged(findings)
    return Claim(name, text, worst_of(found), "; ".join(finding.evidence for finding in found))


def withheld(claims: Sequence[Claim], verdict: str, why: str) -> list[Claim]:
    """The same claims with their numbers but without a verdict, where the run is not the one that they are about."""
    return [
        replace(
            one,
            verdict=one.verdict if one.verdict == NOT_RUN else verdict,
            evidence=f"{verdict} ({why}): {one.evidence}",
        )
        for one in claims
    ]
