"""What the paper says of Jelly Bean World, as claims (§6.1, App. C.1.5 and C.3)."""

from __future__ import annotations

import numpy as np

from remanence.experiments.deep import DECAYS, against_rivals
from remanence.experiments.statements import LARGE, not_below, weights
from remanence.results.claims import NOT_RUN, Claim, Finding, claim, is_below, is_negative, lower, paired
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Plan
from remanence.worlds.jellybean import JellyBean
from remanence.worlds.jellybean.groups import share_in_groups

RATE = "reward_rate"


def main_claims(results: Results, plan: Plan, rules: JellyBean) -> list[Claim]:
    """The claims of §6.1 ("Results") about Jelly Bean World."""
    early = {name: _after_switches(results, name) for name in results.contenders if results.switches}
    rivals = against_rivals(results, RATE, "reward per step", plan, "large", LARGE)
    drops = {
        "dqn-drops": "DQN",
        "multihead-drops": "DQN-multihead",
        "large-buffer-drops": "DQN-large-buffer",
    }
    return [
        rivals["pt-best"],
        rivals["boost"],
        *(claim(one, f"{name}'s performance drops over time", _drop(results, name)) for one, name in drops.items()),
        claim("pt-keeps", "PT-DQN's performance does not drop over time", _no_drop(results, "PT-DQN")),
        claim(
            "dqn-slow",
            "DQN needs many samples to overcome the bias in its estimates: in the first fifth of a task it earns less than PT-DQN",
            lower(results, "DQN", "PT-DQN", early, "reward per step soon after a switch"),
        ),
        rivals["multihead-poor"],
        rivals["multihead-upper-bound"],
        rivals["large-buffer-detrimental"],
        rivals["same-weights"],
        claim(
            "groups-of-items",
            "three to four items of a kind form a group: more than half of the blue and red items lie in such groups",
            mostly_groups(share_in_groups(rules)),
        ),
    ]


def mostly_groups(shares: np.ndarray) -> Finding:
    """Whether most items lie in groups of three or four. Args: shares: [worlds] of the items."""
    label = f"share of items in groups of three or four in {len(shares)} worlds, {shares.mean():.2f}: 0.5 − share"
    return is_negative(0.5 - shares, label)


def _after_switches(results: Results, name: str) -> np.ndarray:
    """[seeds] mean rate in the first fifth of the windows after a switch."""
    curves, length = results.matrix(name, RATE), results.segment_length
    return curves.reshape(len(curves), -1, length)[:, 1:, : max(1, length // 5)].mean(axis=(1, 2))


def _drop(results: Results, name: str) -> Finding:
    """Whether reward in the last two tasks (one of each kind) is below that in tasks 3 and 4; tasks 1 and 2 are left out as
    initial learning."""
    early_and_late = _early_and_late(results, name)
    if early_and_late is None:
        return Finding(NOT_RUN, f"{name} did not run for six tasks")
    early, late = early_and_late
    return is_below(late, early, f"{name}: last two tasks − tasks 3 and 4")


def _no_drop(results: Results, name: str) -> Finding:
    """Whether reward in the last two tasks is at most a margin below that in tasks 3 and 4."""
    early_and_late = _early_and_late(results, name)
    if early_and_late is None:
        return Finding(NOT_RUN, f"{name} did not run for six tasks")
    early, late = early_and_late
    return not_below(late, early, f"{name}: tasks 3 and 4 − last two tasks")


def _early_and_late(results: Results, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Each [seeds]: reward per step in tasks 3 and 4, and in the last two."""
    if name not in results.contenders or len(results.description["stream"]["order"]) < 6:
        return None
    tasks = _per_task(results, name)
    return tasks[:, 2:4].mean(axis=1), tasks[:, -2:].mean(axis=1)


def _per_task(results: Results, name: str) -> np.ndarray:
    """[seeds, tasks] reward per step."""
    curves = results.matrix(name, RATE)
    return curves.reshape(len(curves), -1, results.segment_length).mean(axis=2)


def decay_claims(results: Results) -> list[Claim]:
    aucs = {name: auc(results, name, RATE) for name in results.contenders}
    return [
        claim(
            "every-decay-beats-dqn",
            "all choices of λ resulted in a better performance than DQN",
            *(lower(results, "DQN", f"PT-DQN λ={decay:g}", aucs, "reward per step") for decay in DECAYS),
        )
    ]


def capacity_claims(results: Results, plan: Plan) -> list[Claim]:
    """The observations of App. C.3."""
    aucs = {name: auc(results, name, RATE) for name in results.contenders}
    first = {name: _per_task(results, name)[:, 0] for name in results.contenders}
    return [
        claim(
            "same-network",
            "with the same network in all parts, PT-DQN performs better than DQN",
            lower(results, "DQN", "PT-DQN-1x", aucs, "reward per step"),
        ),
        claim(
            "same-weights",
            "PT-DQN also performs better than a DQN with as many weights",
            lower(results, "DQN-2x", "PT-DQN-1x", aucs, "reward per step"),
        ),
        claim(
            "twice-the-weights",
            "with the same network in all parts, PT-DQN has twice as many weights as DQN",
            weights(plan, "PT-DQN-1x", "DQN", times=2),
        ),
        claim("equal-weights", "DQN-2x has as many weights as PT-DQN-1x", weights(plan, "DQN-2x", "PT-DQN-1x")),
        claim(
            "2x-starts-slowly",
            "DQN-2x starts off learning slowly: in the first task it earns less than PT-DQN-1x",
            lower(results, "DQN-2x", "PT-DQN-1x", first, "reward per step in the first task"),
        ),
        claim(
            "2x-catches-up",
            "DQN-2x catches up with PT-DQN-1x after seeing enough data: in the last two tasks it earns as much",
            _catches_up(results, "DQN-2x", "PT-DQN-1x"),
        ),
        claim("2x-keeps", "DQN-2x continues without any drop in performance", _no_drop(results, "DQN-2x")),
    ]


def _catches_up(results: Results, name: str, rival: str) -> Finding:
    """Whether an agent earns at most a margin less than another in the last two tasks."""
    if not {name, rival} <= set(results.contenders) or len(results.description["stream"]["order"]) < 2:
        return Finding(NOT_RUN, f"{name} and {rival} did not run for two tasks")
    ends = {one: _per_task(results, one)[:, -2:].mean(axis=1) for one in (name, rival)}
    return not_below(*paired(results, name, rival, ends), f"last two tasks: {rival} − {name}")
