"""The results of a run that its callback stops: finished lives, and what lives under way have so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from remanence.gym.policy import Policy, load_policy
from remanence.live_env.results import LiveResults
from remanence.results.directory import Directory, GroupDirectory, joined
from remanence.results.memory import MemoryGroup
from remanence.results.stopped import stopped_agents
from remanence.results.store import POLICIES
from remanence.runs.plan import Plan


def with_groups(results: LiveResults, groups: Sequence[GroupDirectory], plan: Plan) -> LiveResults:
    """Results with the lives of groups that are not part of a run on disk: finished ones, and those that were stopped."""
    found, policies = {"lanes": results.lanes, "curves": results.curves}, dict(results.policies)
    for part in (part for group in groups for part in (group, group.stopped)):
        tables = part.tables()
        if "lanes" in tables:
            found = {name: joined(name, found[name], tables[name]) for name in found}
            policies |= _policies(part, tables["lanes"], plan)
    return replace(results, **found, policies=policies)


def _policies(part: Directory, lanes: pl.DataFrame, plan: Plan) -> dict[tuple[str, int], Policy]:
    """By contender and seed. Files of lives that diverged may hold no numbers, and are not read."""
    if isinstance(part, MemoryGroup):
        return {(policy.name, policy.about["seed"]): policy for policy in part.policies.values()}
    sound = lanes.filter(~pl.col("diverged")).select("lane", "contender", "seed")
    return {
        (name, seed): load_policy(part.path / POLICIES / f"{lane}.npz", plan.contenders[name].config)
        for lane, name, seed in sound.iter_rows()
    }


def warning_of_stop(results: LiveResults) -> str:
    """What the results have, and what they have not."""
    missing = [name for name in results.description["contenders"] if name not in results.contenders]
    lives = len(results.seeds) * len(results.description["contenders"])
    parts = [
        stopped_agents(results),
        f"nothing yet of {', '.join(missing)}" if missing else "",
        f"{len(results.lanes) - len(results.stopped)} of {lives} lives are finished",
        "the same call goes on" if results.location else "with out=DIR the same call would go on",
    ]
    return f"stopped by the callback: {'; '.join(filter(None, parts))}"
