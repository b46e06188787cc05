"""Verdicts: how often they are wrong when there is no effect, when none is given, and the numbers beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from remanence.results import claims
from remanence.results.claims import ALPHA, MIN_SEEDS, Finding, claim, everywhere, is_below, is_same, judged, withheld
from remanence.results.statistics import PAPER_Z, student_margin

NOMINAL = 0.1
DECIDED = (claims.REPRODUCED, claims.NOT_REPRODUCED)


def share_of_false(trials: int, verdict: Callable[[np.random.Generator], str]) -> float:
    """How often something is decided though nothing differs."""
    return sum(verdict(np.random.default_rng([7, trial])) in DECIDED for trial in range(trials)) / trials


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6, 8, 10, 15, 20, 30])
def test_intervals_miss_as_often_as_they_say(seeds: int) -> None:
    """40 000 samples of each size: Student's interval misses the true mean in 10 % of them, the normal one in up to 35 %."""
    samples = np.random.default_rng(seeds).normal(size=(seeds, 40_000))
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(seeds)
    missed = float((np.abs(mean) > student_margin(samples)).mean())
    assert missed == pytest.approx(NOMINAL, abs=4 * np.sqrt(NOMINAL * (1 - NOMINAL) / 40_000))
    assert float((np.abs(mean) > PAPER_Z * error).mean()) > missed + 0.005


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6, 10, 20, 30])
def test_false_verdicts_are_at_most_nominal(seeds: int) -> None:
    """One comparison of two agents that share their seeds' randomness, and the lowest of three."""

    def of_two(rng: np.random.Generator) -> str:
        shared = rng.normal(size=seeds)
        left, right = (shared + rng.normal(size=seeds) for _ in range(2))
        return claim("", "", is_below(left, right, "")).verdict

    def of_three(rng: np.random.Generator) -> str:
        ours, *rivals = rng.normal(size=(3, seeds))
        return claim("", "", *(is_below(ours, rival, "") for rival in rivals)).verdict

    trials = 1500
    for verdict in (of_two, of_three):
        rate = share_of_false(trials, verdict)
        assert rate == 0 if seeds < MIN_SEEDS else rate <= NOMINAL + 3 * np.sqrt(NOMINAL * (1 - NOMINAL) / trials)


def test_false_verdicts_in_a_family_of_25_cells() -> None:
    """Without a correction, some cell is decided in 93 % of the runs; with Holm's, in at most 10 %."""

    def any_cell(rng: np.random.Generator, correct: bool) -> str:
        findings = [is_below(rng.normal(size=10), rng.normal(size=10), "") for _ in range(25)]
        verdicts = [one.verdict for one in (judged(findings) if correct else findings)]
        return next((one for one in verdicts if one in DECIDED), claims.UNDECIDED)

    assert share_of_false(200, lambda rng: any_cell(rng, correct=False)) > 0.8
    assert share_of_false(400, lambda rng: any_cell(rng, correct=True)) <= NOMINAL + 3 * np.sqrt(0.09 / 400)


def test_a_true_effect_is_found() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=30), rng.normal(1.5, size=30)
    assert claim("", "", is_below(left, right, "")).verdict == claims.REPRODUCED
    assert claim("", "", is_below(right, left, "")).verdict == claims.NOT_REPRODUCED


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_below_five_seeds_there_are_only_numbers(seeds: int) -> None:
    found = claim("id", "text", is_below(np.arange(seeds), np.arange(seeds) + 1.0 + 0.01 * np.arange(seeds), "a − b"))
    assert found.verdict == "too few seeds to judge"
    assert found.evidence.startswith("a − b = -1.0")
    assert f"n = {seeds}" in found.evidence
    assert ("[" in found.evidence) == (seeds > 1)
    assert "p " not in found.evidence


def test_evidence_by_hand() -> None:
    """Differences −1, −1, −2, 0, −1: mean −1, σ = √½, σ/√n = 0.3162, t(4, 90 %) = 2.1318; the right mean is 5."""
    left = np.array([4.0, 4, 3, 5, 4])
    finding = is_below(left, np.full(5, 5.0), "a − b")
    assert finding.verdict == claims.REPRODUCED
    assert finding.evidence == (
        "a − b = -1.0000 [-1.6741, -0.3259], n = 5, relative difference -20.0 %, probability of improvement 0.90"
    )
    assert claim("", "", finding).evidence.endswith(", p = 0.034")


def test_holm_turns_a_weak_comparison_beside_others() -> None:
    """p = 0.06 decides alone, but not as the smallest of two: 2 · 0.06 > 0.1."""
    weak, none = claims.Finding(claims.REPRODUCED, "weak", 0.06), claims.Finding(claims.UNDECIDED, "none", 0.5)
    assert judged([weak])[0].verdict == claims.REPRODUCED
    assert [one.verdict for one in judged([weak, none])] == [claims.UNDECIDED, claims.UNDECIDED]
    assert judged([weak, none])[0].evidence == "weak, p = 0.120 (Holm over 2)"
    strong = claims.Finding(claims.REPRODUCED, "strong", 0.01)
    assert [one.verdict for one in judged([weak, strong])] == [claims.REPRODUCED, claims.REPRODUCED]
    assert everywhere([weak, none]).verdict == claims.UNDECIDED
    assert everywhere([weak, none]).evidence.startswith("holds in 0 of 2 comparisons; undecided: weak")
    assert judged([]) == []


def test_the_same_within_a_margin() -> None:
    rng = np.random.default_rng(1)
    left = rng.normal(10, 1, size=30)
    near, far = left + 0.1 * rng.normal(size=30), left + 1 + 0.1 * rng.normal(size=30)
    assert is_same(left, near, 0.5, "").verdict == claims.REPRODUCED
    assert is_same(left, far, 0.5, "").verdict == claims.NOT_REPRODUCED
    assert is_same(left, near, 0.02, "").verdict == claims.UNDECIDED
    assert (is_same(left, near, 0.02, "").p or 0.0) > ALPHA
    # The nearer end of the margin decides, inside and outside of it. The mean is 1 ± 0.12.
    sample, nothing = np.array([1.0, 1.2, 0.8, 1.1, 0.9, 1.0]), np.zeros(6)
    for margin, verdict in (
        (1.5, claims.REPRODUCED),
        (1.05, claims.UNDECIDED),
        (0.95, claims.UNDECIDED),
        (0.6, claims.NOT_REPRODUCED),
    ):
        for sign in (1, -1):
            found = is_same(sign * sample, nothing, margin, "")
            assert found.verdict == verdict, margin
            assert found.p == pytest.approx(stats.ttest_1samp(sample, margin)[1])
    assert is_same(left[:4], near[:4], 0.5, "").verdict == claims.TOO_FEW
    assert is_same(left[:0], near[:0], 0.5, "").verdict == claims.NOT_RUN


def test_a_seed_without_a_value_is_left_out_and_counted() -> None:
    left, right = np.array([1.0, np.nan, 1.1, 0.9, 1.0, 1.2]), np.array([2.0, 2.1, 2.2, 2.0, 2.1, 2.0])
    finding = is_below(left, right, "a − b")
    assert finding.verdict == claims.REPRODUCED
    assert "n = 5" in finding.evidence
    assert finding.evidence.endswith("(1 seeds left out: no value)")
    assert is_below(np.array([np.nan]), np.array([1.0]), "a − b").verdict == claims.NOT_RUN


def test_equal_values_in_every_seed_are_undecided() -> None:
    assert is_below(np.full(6, 2.0), np.full(6, 2.0), "").verdict == claims.UNDECIDED
    assert is_below(np.full(6, 1.0), np.full(6, 2.0), "").verdict == claims.REPRODUCED


def test_withheld_claims_keep_their_numbers() -> None:
    ran = claims.Claim("a", "text", claims.REPRODUCED, "numbers")
    missing = dataclasses.replace(ran, verdict=claims.NOT_RUN)
    assert [one.verdict for one in withheld([ran, missing], claims.SHORTENED, "3 of 10 tasks")] == [
        "shortened run",
        "not run",
    ]
    assert withheld([ran], claims.CHANGED, "TD.lr=0.1")[0].evidence == "changed run (TD.lr=0.1): numbers"


def test_the_largest_p_value_that_decides() -> None:
    decided, not_quite = (
        judged([Finding(claims.REPRODUCED, "a", ALPHA)]),
        judged([Finding(claims.REPRODUCED, "a", 0.1001)]),
    )
    assert [decided[0].verdict, not_quite[0].verdict] == [claims.REPRODUCED, claims.UNDECIDED]


def test_many_comparisons_show_the_first_or_the_first_that_fails() -> None:
    a, b = (Finding(claims.REPRODUCED, name, 0.001) for name in "ab")
    assert everywhere([a, b]) == Finding(
        claims.REPRODUCED, "holds in 2 of 2 comparisons; first: a, p = 0.002 (Holm over 2)"
    )
    weak = Finding(claims.REPRODUCED, "c", 0.5)
    assert everywhere([a, weak]) == Finding(
        claims.UNDECIDED, "holds in 1 of 2 comparisons; undecided: c, p = 0.500 (Holm over 2)"
    )
