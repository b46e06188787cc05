"""Statements of the paper about several experiments, as findings: effect sizes, numbers of weights, step sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from remanence.metrics import lower_is_better
from remanence.results.claims import (
    MIN_SEEDS,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    TOO_FEW,
    UNDECIDED,
    Claim,
    Finding,
    claim,
    is_below,
    is_negative,
    judged,
    paired,
)
from remanence.results.store import Results
from remanence.results.summary import settings_of
from remanence.runs.describe import num_weights
from remanence.runs.plan import Plan
from remanence.runs.rows import AUC
from remanence.runs.sweep import win_shares

LARGE, FAVORABLE = 0.2, 0.05  # what a "large" and a "favourable" boost is, as a share of the baseline's performance
MARGINAL = 0.05  # what "marginally", "catches up" and "without a drop" allow, as a share of the performance
SAME_WEIGHTS = 0.01  # how much the numbers of weights may differ and still be "the same"
HANDFUL = 5  # "a handful of pairs"
SURE = 0.95  # share of resampled sweeps that decides


def gain_of(results: Results, name: str, rival: str, per_seed: Mapping[str, np.ndarray], share: float) -> Finding:
    """Whether `name` earns more than `rival` by a share of what the rival earns, seed by seed."""
    if missing := [one for one in (name, rival) if one not in per_seed]:
        return Finding(NOT_RUN, f"{', '.join(missing)} did not run")
    left, right = paired(results, name, rival, per_seed)
    if not left.size:
        return Finding(NOT_RUN, f"{name} − {rival}: no seeds to compare")
    unit = abs(float(right.mean()))
    gain = f", a gain of {100 * (left.mean() - right.mean()) / unit:+.1f} %" if unit else ""
    label = f"{name} − {rival}{gain}; what a gain of {share:.0%} still needs"
    return is_negative(right + share * unit - left, label)


def not_below(left: np.ndarray, right: np.ndarray, label: str) -> Finding:
    """Whether the mean of left is at most a margin below that of right, one value of each per seed: it may be above."""
    margin = MARGINAL * abs(float(right.mean())) if right.size else 0.0
    return is_negative(right - left - margin, f"{label}, beyond a margin of {margin:.4f}")


def weights(plan: Plan, left: str, right: str, times: float = 1.0) -> Finding:
    """Whether an agent has `times` as many weights as another: a fact of the configurations, the same for all seeds."""
    count = {name: num_weights(plan.contenders[name].config, plan.spec) for name in (left, right)}
    ratio = count[left] / (times * count[right])
    verdict = REPRODUCED if abs(ratio - 1) <= SAME_WEIGHTS else NOT_REPRODUCED
    asked = "" if times == 1 else f"{times:g} × "
    return Finding(verdict, f"{left} {count[left]:,}, {asked}{right} {count[right]:,}: {100 * (ratio - 1):+.1f} %")


def slower_permanent(pairs: Mapping[str, tuple[float, float]]) -> Finding:
    """Whether all (permanent, transient) step sizes have the permanent one smaller."""
    against = {name: pair for name, pair in pairs.items() if not pair[0] < pair[1]}
    shown = "".join(f"; not {name} ({p:g} and {t:g})" for name, (p, t) in against.items())
    verdict = NOT_RUN if not pairs else NOT_REPRODUCED if against else REPRODUCED
    return Finding(verdict, f"ᾱ < α in {len(pairs) - len(against)} of {len(pairs)} pairs{shown}")


def pairs_of(results: Results, names: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The (permanent, transient) step sizes of contenders."""
    hypers = {name: results.description["contenders"][name]["hypers"] for name in names}
    return {name: (one["permanent_lr"], one["transient_lr"]) for name, one in hypers.items()}


def sweep_claims(results: Results, metric: str) -> list[Claim]:
    """What App. C.4 says of the step sizes of PT and of the learner it is built on, from a sweep."""
    settings = dict(settings_of(results))
    texts = {
        "broad-range": "PT performs better than its counterpart for a broad range of step sizes: for a handful of pairs "
        f"(at least {HANDFUL}) it beats the counterpart's best",
        "permanent-slower": "the best permanent step size is smaller than the transient one",
    }
    names = [name for name in settings if name.startswith("PT-") and _counterpart(name, settings)]
    if not names:
        missing = Finding(NOT_RUN, "needs a sweep of PT and of its counterpart")
        return [claim(name, text, missing) for name, text in texts.items()]
    return [
        claim("broad-range", texts["broad-range"], *(_better_pairs(settings, name, metric) for name in names)),
        claim("permanent-slower", texts["permanent-slower"], *(_best_pair(results, name, metric) for name in names)),
    ]


def _counterpart(name: str, settings: Mapping[str, object]) -> str:
    """The learner without a permanent part: TD for PT-TD, DQN-2x or DQN for PT-DQN-1x; empty if it was not swept."""
    family = name.removeprefix("PT-").split("-")[0]
    return next((other for other in (f"{family}-2x", family) if other in settings), "")


def _better_pairs(
    settings: Mapping[str, list[tuple[dict[str, float], pl.DataFrame]]], name: str, metric: str
) -> Finding:
    """How many pairs beat the counterpart's best setting, which is chosen on the same seeds: that favors the counterpart."""
    rival, sign = _counterpart(name, settings), 1.0 if lower_is_better(metric) else -1.0
    sound = {
        one: [
            (hypers, sign * lanes.sort("seed")[AUC + metric].to_numpy())
            for hypers, lanes in settings[one]
            if _sound(lanes)
        ]
        for one in (name, rival)
    }
    if not sound[rival] or not sound[name]:
        return Finding(NOT_RUN, f"every setting of {name} or {rival} diverged")
    hypers, best = min(sound[rival], key=lambda one: one[1].mean())
    if len(best) < MIN_SEEDS:
        return Finding(TOO_FEW, f"{len(best)} seeds for each setting of {name}")
    verdicts = [one.verdict for one in judged([is_below(sample, best, "") for _, sample in sound[name]])]
    better, worse = verdicts.count(REPRODUCED), verdicts.count(NOT_REPRODUCED)
    total = len(settings[name])
    possible = better + verdicts.count(UNDECIDED)
    verdict = REPRODUCED if better >= HANDFUL else NOT_REPRODUCED if possible < HANDFUL else UNDECIDED
    value = ", ".join(f"{key} {one:g}" for key, one in hypers.items())
    return Finding(
        verdict,
        f"{name}: {better} of {total} settings beat the best of {rival} ({value}), {worse} are worse "
        f"(p ≤ 0.1 after Holm), {total - len(verdicts)} diverged",
    )


def _sound(lanes: pl.DataFrame) -> bool:
    return not lanes["diverged"].any()


def _best_pair(results: Results, name: str, metric: str) -> Finding:
    """Whether the winner has the smaller permanent step size, also if seeds are resampled."""
    ranked = win_shares(results.lanes.filter(pl.col("contender") == name), metric)[name]
    share = sum(one["wins"] for one in ranked if one["hypers"]["permanent_lr"] < one["hypers"]["transient_lr"])
    pair = ranked[0]["hypers"]
    verdict = REPRODUCED if share >= SURE else NOT_REPRODUCED if share <= 1 - SURE else UNDECIDED
    return Finding(
        verdict if len(results.seeds) >= MIN_SEEDS else TOO_FEW,
        f"{name}: most often best is permanent {pair['permanent_lr']:g}, transient {pair['transient_lr']:g}; the winner has "
        f"ᾱ < α in {share:.0%} of resampled sweeps",
    )
