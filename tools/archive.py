"""Copies finished lanes of runs into the archive that comes with the package.

`python tools/archive.py RUN… [--to DIR] [--commit TEXT] [--digits N] [--metrics NAME…]`

A copy has only complete lanes, also of a run that is not finished: the largest set of agents that share seeds. Checkpoints and
progress are left out; of the log, only where lanes come from and how long they took. Policies are stored in half precision, and
left out above a megabyte. `--digits` rounds values and `--metrics` keeps only some curves, for quick runs that take much room: no
run takes lanes over from such a copy.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from remanence import load_policy
from remanence.core.errors import UserError
from remanence.results.archive import ARCHIVE, ARCHIVED, origin
from remanence.results.directory import RunDirectory, groups_under_way
from remanence.results.log import TAKEN, read_log
from remanence.results.store import POLICIES, Results, find_runs, load
from remanence.runs.reuse import SWEEP, Taken, shared_by_lanes, take

MAX_POLICY = 2**20
ROOT = Path(__file__).parent.parent


def archive(
    run: Path, to: Path, commit: str = "", digits: int | None = None, metrics: Sequence[str] | None = None
) -> Path:
    """Archives one run; returns the copy, which replaces earlier ones that have no other lanes.

    `commit`: of the lanes that were run there; those that were archived before keep theirs.
    """
    source = complete_lanes(run)
    description, chosen = without_gaps(source)
    if digits is not None:
        description["rounded"] = digits
    if metrics is not None:
        description["metrics"] = known_metrics(source, metrics)
        curves = source.curves.filter(pl.col("metric").is_in(description["metrics"]))
        source = dataclasses.replace(source, curves=curves)
    numbers = {lane: number for number, lane in enumerate(chosen)}
    directory = RunDirectory(to / SWEEP if SWEEP in description else to, description)
    directory.smallest = True
    smaller = parts_of(directory, to)
    commits = [*(origin(one).commit for one in smaller), *commits_of_taken(run), commit]
    shutil.rmtree(directory.path, ignore_errors=True)
    with directory.opened():
        take(directory, Taken(rounded(source, digits), numbers))
        directory.log(ARCHIVED, commit=", ".join(dict.fromkeys(", ".join(filter(None, commits)).split(", "))))
        shrink_policies(directory.path / POLICIES)
        directory.seal()
    (directory.path / "lock").unlink()
    load(directory.path)  # raises if it is not as it should be
    for one in smaller:
        shutil.rmtree(one.path)
    return directory.path


def parts_of(directory: RunDirectory, to: Path) -> list[Results]:
    """The other archived runs of an experiment that have no lane which this one has not; none for a sweep."""
    larger = directory.description
    found = [] if SWEEP in larger else map(load, find_runs(to, larger["experiment"]))
    return [one for one in found if one.path != directory.path and is_part(one.description, larger)]


def commits_of_taken(run: Path) -> list[str]:
    """The commits of lanes that a run took over from archived ones."""
    return [str(event["commit"]) for event in read_log(run) if event.get("event") == TAKEN and event.get("commit")]


def is_part(smaller: Mapping[str, Any], larger: Mapping[str, Any]) -> bool:
    """Whether a run has no lane that the other has not, by their descriptions."""
    return (
        smaller["preset"] == larger["preset"]
        and shared_by_lanes(smaller) == shared_by_lanes(larger)
        and set(smaller["seeds"]) <= set(larger["seeds"])
        and all(larger["contenders"].get(name) == one for name, one in smaller["contenders"].items())
    )


def complete_lanes(run: Path) -> Results:
    """A run with the lanes that its unfinished groups have completed."""
    results = load(run)
    tables = {"lanes": [results.lanes], "curves": [results.curves], "maps": [results.maps]}
    done = set(results.lanes["lane"]) if len(results.lanes) else set()
    for group in groups_under_way(run):
        for name, table in group.tables().items():
            tables[name].append(table.filter(~pl.col("lane").is_in(list(done))))
    joined = {
        name: pl.concat([one for one in some if len(one)] or [pl.DataFrame()], how="diagonal_relaxed")
        for name, some in tables.items()
    }
    if not len(joined["lanes"]) and results.description["contenders"]:
        raise UserError(f"'{run}' has no finished lane yet")
    return dataclasses.replace(results, **joined)


def without_gaps(results: Results) -> tuple[dict[str, Any], list[int]]:
    """The description of the largest part of a run in which every agent has every seed, and its lanes in their order."""
    about = {key: value for key, value in results.description.items() if key != "format"}
    if SWEEP in about and not results.finished:
        raise UserError(f"the sweep in '{results.path}' is not finished")
    if SWEEP in about or not about["contenders"]:
        return about, results.lanes["lane"].sort().to_list() if len(results.lanes) else []
    done = {name: set(results.lanes.filter(pl.col("contender") == name)["seed"]) for name in results.contenders}
    complete = {frozenset(seeds): [name for name in done if done[name] >= seeds] for seeds in done.values()}
    seeds, names = max(complete.items(), key=lambda one: (len(one[0]) * len(one[1]), len(one[1])))
    about["seeds"] = [seed for seed in about["seeds"] if seed in seeds]
    for part in {"contenders", "learners"} & about.keys():
        about[part] = {name: one for name, one in about[part].items() if name in names}
    return about, [results.lane(name, seed) for name in about["contenders"] for seed in about["seeds"]]


def known_metrics(results: Results, asked: Sequence[str]) -> list[str]:
    """The metrics asked for; raises if one was not recorded."""
    if unknown := [name for name in asked if name not in results.metrics]:
        raise UserError(f"'{results.path}' has no {unknown[0]}, only {', '.join(results.metrics)}")
    return list(asked)


def rounded(results: Results, digits: int | None) -> Results:
    if digits is None:
        return results
    value = pl.col("value").round_sig_figs(digits).cast(pl.Float32)
    tables = {name: getattr(results, name) for name in ("curves", "maps")}
    return dataclasses.replace(
        results, **{name: table.with_columns(value) for name, table in tables.items() if len(table)}
    )


def shrink_policies(folder: Path) -> None:
    """Halves the precision of policies; removes those that are still too large."""
    for file in folder.glob("*.npz"):
        policy = load_policy(file)
        half = jax.tree.map(lambda leaf: leaf.astype(np.float16) if leaf.dtype == np.float32 else leaf, policy.state)
        dataclasses.replace(policy, state=half).save(file)
        if file.stat().st_size > MAX_POLICY:
            file.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def commit_here() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, check=False, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else ""


def total(files: Iterable[Path]) -> float:
    """In MB."""
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="directories of runs")
    parser.add_argument("--to", type=Path, default=ARCHIVE, help="the archive; default: that of the package")
    parser.add_argument("--commit", default=commit_here(), help="the commit that ran them; default: the current one")
    parser.add_argument("--digits", type=int, help="round values to this many significant digits")
    parser.add_argument("--metrics", nargs="+", help="keep only the curves of these metrics")
    asked = parser.parse_args()
    for run in asked.runs:
        try:
            copy = archive(run, asked.to, asked.commit, asked.digits, asked.metrics)
        except UserError as error:
            parser.exit(1, f"{error}\n")
        results = load(copy)
        print(f"{copy}: {len(results.contenders)} agents, {len(results.seeds)} seeds, {total(copy.rglob('*')):.2f} MB")
    print(f"{asked.to}: {total(asked.to.rglob('*')):.1f} MB in all")


if __name__ == "__main__":
    main()
