"""How a run differs from its preset, and the command that repeats it. Read from its description, so old runs have it too."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from remanence.core.describe import KIND, typed
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.store import ONE_AT_A_TIME, Results
from remanence.runs.describe import describe_agent
from remanence.runs.plan import Plan

CROSS = "one field searched at a time"


@dataclass(frozen=True)
class Provenance:
    """What of a run is not as its preset says, in words; all empty for a full run of a preset."""

    shortened: tuple[str, ...] = ()
    """less of the same: fewer or shorter tasks, or a preset that is only a trial"""
    changed: tuple[str, ...] = ()
    """other agents, or agents with another configuration"""
    agents: str = ""
    """that only some of the agents ran: what they did is as in a full run"""
    seeds: str = ""
    """another number of seeds"""
    options: tuple[str, ...] = ()
    """of `remanence run`, to repeat it"""
    grids: tuple[str, ...] = ()
    """of a sweep: the values it searched where they are not the preset's, each as AGENT.FIELD=A,B,C"""

    def command(self, name: str, preset: str, sweep_of: str = "") -> str:
        """The command that repeats the run. `sweep_of`: the experiment whose sweep it is."""
        if not self.grids:
            return " ".join(["remanence run", shlex.quote(name), "--preset", preset, *self.options])
        options = ["--tuning-seeds" if option == "--seeds" else option for option in self.options]
        grids = ["--grid", *map(shlex.quote, self.grids)]
        return " ".join(["remanence sweep", shlex.quote(sweep_of), "--preset", preset, *options, *grids])

    @property
    def full(self) -> bool:
        return not self.text

    @property
    def text(self) -> str:
        """For titles; empty for a full run."""
        kind = "shortened run: " if self.shortened else "changed run: " if self.changed else ""
        return kind + ", ".join(filter(None, (*self.shortened, *self.changed, self.agents, self.seeds)))

    @property
    def rank(self) -> tuple[bool, int]:
        """Full runs come first, runs with another number of seeds next, then those with fewer changes."""
        return (not self.full, len(self.shortened) + len(self.changed) + bool(self.agents))


def provenance(results: Results, plan: Plan, trial: bool) -> Provenance:
    """Compares a run with the plan of its preset. `trial`: whether the preset itself is one (`smoke`)."""
    asked = results.description
    stream = asked.get("before", asked["stream"])  # of the tasks before the one that is recorded, where there are such
    unit, length = next(iter(stream["segment_length"].items()))
    segments, count = len(stream["order"]), len(asked["seeds"])
    shortened, changed, options = ["preset smoke"] if trial else [], [], ["--seeds", str(count)]
    for what, option, found, wanted in (
        ("tasks", "--segments", segments, plan.stream.segments),
        (f"{unit} per task", "--segment-length", length, plan.stream.segment_length.count),
    ):
        if found < wanted:
            shortened.append(f"{found:,} of {wanted:,} {what}")
            options += [option, str(found)]
        elif found > wanted:
            changed.append(f"{found:,} {what} instead of {wanted:,}")
    agents, only = list(dict.fromkeys(_agent(name, plan) for name in asked["contenders"])), ""
    if differing := set(agents) ^ set(plan.contenders):
        # Controls of ours have no part in the paper's claims.
        of_paper = {name for name in differing if not name.endswith(CONTROL_SUFFIX)}
        if of_paper - set(plan.contenders):
            changed.append("other agents")
        elif of_paper:
            only = f"only {', '.join(agents)}"
        options += ["--contenders", *map(shlex.quote, agents)]
    if fields := list(_changed_fields(asked, plan)):
        changed += fields
        options += ["--set", *map(shlex.quote, fields)]
    if "absorbed" in asked.get("metrics", ()) and not plan.watch_parts:
        options.append("--parts")
    if ONE_AT_A_TIME in asked:
        changed.append(CROSS)
        options.append("--one-at-a-time")
    grids = tuple(_changed_grids(asked, plan))
    changed += [f"grid {grid}" for grid in grids]
    seeds = f"{count} seeds instead of {plan.seeds}" if count != plan.seeds else ""
    return Provenance(tuple(shortened), tuple(changed), only, seeds, tuple(options), grids)


def _agent(name: str, plan: Plan) -> str:
    """The agent of a contender. Where an agent has several cells, each is named by it and its place: "TD ε=1 n=2"."""
    return name if name in plan.contenders else name.split(" ")[0]


def _changed_grids(asked: dict[str, Any], plan: Plan) -> Iterator[str]:
    """Values of a sweep that are not the preset's."""
    for name, search in asked.get("sweep", {}).items():
        preset = plan.contenders[_agent(name, plan)].search if _agent(name, plan) in plan.contenders else {}
        yield from (
            f"{name}.{field}={','.join(map(typed, values))}"
            for field, values in search.items()
            if list(values) != list(preset.get(field, ()))
        )


def _changed_fields(asked: dict[str, Any], plan: Plan) -> Iterator[str]:
    """Fields in which agents differ from the preset's, each as AGENT.FIELD=VALUE."""
    for name, contender in plan.contenders.items():
        config = asked["contenders"].get(name, {}).get("config", {})
        preset = json.loads(json.dumps(describe_agent(contender.config)["config"]))
        yield from (
            f"{name}.{field}={typed(value)}"
            for field, value in config.items()
            if field != KIND and value != preset.get(field)
        )
