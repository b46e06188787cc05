"""Finished lanes of other runs: a run with more seeds or more agents does only what is missing.

A lane is the same lane if everything that decides its result is the same: the description without seeds, agents and the names of
experiment and preset, the configuration of its own agent, its seed, its learner, and the versions of remanence and jax.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from remanence.core.errors import UserError
from remanence.results.archive import origin
from remanence.results.description import DESCRIPTION, read_description
from remanence.results.directory import NOT_HASHED, RunDirectory
from remanence.results.log import TAKEN, cores_of, lane_seconds, read_log
from remanence.results.manifest import DamageError, read_checked
from remanence.results.store import ONE_AT_A_TIME, POLICIES, Results, load
from remanence.runs.checking import find_all
from remanence.runs.describe import describe_agent
from remanence.runs.jobs import Lane
from remanence.runs.rows import AUC

SWEEP = "sweep"
# Parts of a description that may differ between runs that share lanes.
_OF_OTHER_LANES = ("experiment", "preset", "seeds", "contenders", SWEEP, ONE_AT_A_TIME, *NOT_HASHED)
_VERSIONS = ("remanence", "jax")


@dataclass(frozen=True)
class Taken:
    """Lanes of another run."""

    source: Results
    numbers: Mapping[int, int]
    """of each lane: its number there, and the one it gets"""

    def tables(self) -> dict[str, pl.DataFrame]:
        """Its tables with the new numbers."""
        tables = {"lanes": self.source.lanes, "curves": self.source.curves, "maps": self.source.maps}
        there = list(self.numbers)
        return {
            name: table.filter(pl.col("lane").is_in(there)).with_columns(
                pl.col("lane").replace_strict(dict(self.numbers), return_dtype=pl.Int32)
            )
            for name, table in tables.items()
            if len(table)
        }

    def policies(self) -> Iterator[tuple[int, Path]]:
        """(new number, file)"""
        run = self.source.path
        files = [*run.glob(f"{POLICIES}/*.npz"), *run.glob(f"groups/*/{POLICIES}/*.npz")]
        lanes = ((int(file.stem), file) for file in files if file.stem.isdecimal())
        yield from ((self.numbers[lane], file) for lane, file in lanes if lane in self.numbers)


def sources(directory: RunDirectory, other: Path | None) -> list[Path]:
    """Runs that may have lanes of this one: those beside it, and those in another directory of runs, of any experiment."""
    found = sorted(file.parent for file in directory.path.parent.glob(f"*/{DESCRIPTION}"))
    if other is not None:
        of_sweeps = SWEEP in directory.description
        there = find_all(other / SWEEP if of_sweeps else other)
        found += [run for run in there if of_sweeps or run.relative_to(other).parts[0] != SWEEP]
    here = directory.path.absolute()
    return [run for run in dict.fromkeys(found) if run.absolute() != here]


def find_lanes(
    wanted: Iterable[Lane],
    description: Mapping[str, Any],
    learners: Mapping[str, Mapping[str, str]],
    auc_metrics: Sequence[str] | None,
    runs: Sequence[Path],
    notice: Callable[[str], None],
) -> list[Taken]:
    """Where wanted lanes are finished already. A damaged run is passed over with a notice."""
    numbers = {_key(lane.contender, lane.seed, describe_agent(lane.config)): lane.number for lane in wanted}
    shared, taken = shared_by_lanes(description), []
    for run in runs if numbers else ():
        try:
            if shared_by_lanes(read_description(run)) != shared:
                continue
            source = load(run)
            for policy in sorted(run.glob(f"{POLICIES}/*.npz")):
                read_checked(run, f"{POLICIES}/{policy.name}")
        except UserError as error:
            why = f"is damaged ({error.what})" if isinstance(error, DamageError) else f"cannot be read ({error})"
            notice(f"'{run}' {why}: none of its lanes are taken over")
            continue
        found = {}
        for lane, key in _finished(source, learners, auc_metrics):
            if (number := numbers.pop(key, None)) is not None:
                found[lane] = number
        if found:
            taken.append(Taken(source, found))
    return taken


def take(directory: RunDirectory, taken: Taken) -> None:
    """Adds lanes of another run to a run, with a line in its log that says where they come from and how long they took."""
    for lane, policy in taken.policies():
        directory.copy_policy(lane, policy)
    directory.add(taken.tables())
    spent = lane_seconds(taken.source.path)
    seconds = [spent.get(lane) for lane in taken.numbers]
    directory.log(
        TAKEN,
        source=f"{taken.source.experiment}/{taken.source.path.name}",
        version=taken.source.description["versions"]["remanence"],
        commit=origin(taken.source).commit,
        cores=cores_of(taken.source.path),
        lanes=list(taken.numbers.values()),
        lanes_there=list(taken.numbers),
        wall_seconds=[one and round(one.wall, 3) for one in seconds],  # None: not known
        cpu_seconds=[one and round(one.cpu, 3) for one in seconds],
    )


def _finished(
    source: Results, learners: Mapping[str, Mapping[str, str]], auc_metrics: Sequence[str] | None
) -> Iterator[tuple[int, str]]:
    """The finished lanes of a run whose agents learn as here: (number, key)."""
    about, switched = source.description, _switched_learners(source.path)
    needed = [AUC + metric for metric in auc_metrics or ()]
    for row in source.lanes.to_dicts():
        name = row["contender"]
        learner = source.learners.get(name, {}).get("learner")
        if name in about["contenders"] and name not in switched and learner == learners.get(name, {}).get("learner"):
            values = {field: row[field] for field in about.get(SWEEP, {}).get(name, {})}
            if all(row.get(column) is not None for column in needed):
                yield row["lane"], _key(name, row["seed"], _with_values(about["contenders"][name], values))


def _switched_learners(run: Path) -> set[str]:
    """Agents that went on with another learner: which lane has which is not known."""
    return {
        name
        for event in read_log(run)
        if event.get("event") == "learners"
        for name, before in event["before"].items()
        if before["learner"] != event["learners"][name]["learner"]
    }


def _with_values(agent: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """The description of an agent with other values of fields that a sweep searches."""
    hypers = {name: values.get(name, value) for name, value in agent["hypers"].items()}
    return {"config": {**agent.get("config", {}), **values}, "hypers": hypers}


def shared_by_lanes(description: Mapping[str, Any]) -> str:
    """What all lanes of a run share, and what decides their results."""
    about = {key: value for key, value in description.items() if key not in _OF_OTHER_LANES}
    versions = {name: description["versions"].get(name) for name in _VERSIONS}
    return json.dumps([about, versions, SWEEP in description], sort_keys=True)


def _key(contender: str, seed: int, agent: Mapping[str, Any]) -> str:
    return json.dumps([contender, seed, _as_floats(agent)], sort_keys=True)


def _as_floats(value: Any) -> Any:
    """The same with every number as a float: tables of sweeps hold all of them so."""
    if isinstance(value, Mapping):
        return {key: _as_floats(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_floats(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
