"""Verifies a run: every file against the manifest, the tables against the description, the checkpoints of unfinished groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remanence.core.errors import UserError
from remanence.core.files import leftovers
from remanence.results.aside import OLD
from remanence.results.description import DESCRIPTION, read_description
from remanence.results.directory import GroupDirectory, groups_under_way
from remanence.results.manifest import DamageError, listed_files, read_checked
from remanence.results.store import POLICIES, TABLES, load
from remanence.runs.checkpoints import damage


@dataclass
class Checked:
    """What `remanence check` found."""

    run: Path
    files: int = 0
    """files that are as they were written"""
    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run), "files": self.files, "problems": self.problems, "notices": self.notices}


def check_run(run: Path) -> Checked:
    """Reads all of a run and says what is wrong with it."""
    checked = Checked(run)
    try:
        description = read_description(run)
    except UserError as error:
        checked.problems.append(error.what if isinstance(error, DamageError) else str(error))
        return checked
    _check_files(checked, run)
    if not checked.problems:
        _check_tables(checked, run)
    for group in groups_under_way(run):
        _check_files(checked, group.path)
        _check_checkpoints(checked, group)
    if "format" not in description:
        checked.notices.append("written before there were checksums: only the shape of its tables is checked")
    if left := [*leftovers(run), *leftovers(run / POLICIES)]:
        checked.notices.append(f"{len(left)} half-written files are left: the next command that writes removes them")
    if (run / OLD).is_dir():
        checked.notices.append(f"earlier results are in '{run / OLD}': `remanence clean` removes them")
    return checked


def find_all(out: Path) -> list[Path]:
    """Every run below a directory, but not results that were moved aside."""
    return sorted(file.parent for file in out.glob(f"**/{DESCRIPTION}") if OLD not in file.relative_to(out).parts)


def newest_run(directory: Path) -> Path:
    """The directory itself if it is a run; else the newest run below it, if there is one."""
    if (directory / DESCRIPTION).exists():
        return directory
    runs = _newest_first(directory)
    return runs[0] if runs else directory


def other_runs(directory: Path, run: Path) -> list[Path]:
    """The other runs below a directory, the newest first."""
    return [one for one in _newest_first(directory) if one != run]


def _newest_first(directory: Path) -> list[Path]:
    return sorted(find_all(directory), key=lambda run: (run / DESCRIPTION).stat().st_mtime, reverse=True)


def find_aside(out: Path) -> list[Path]:
    """Every run below a directory that has earlier results."""
    return sorted({file.parents[2] for file in out.glob(f"**/{OLD}/*/{DESCRIPTION}")})


def _check_files(checked: Checked, directory: Path) -> None:
    try:
        names = listed_files(directory)
    except UserError as error:
        checked.problems.append(_within(checked.run, directory, error))
        return
    for name in [f"{table}.parquet" for table in TABLES] if names is None else names:
        try:
            checked.files += read_checked(directory, name) is not None and names is not None
        except DamageError as error:
            checked.problems.append(_within(checked.run, directory, error))


def _check_tables(checked: Checked, run: Path) -> None:
    try:
        results = load(run)
    except DamageError as error:
        checked.problems.append(error.what)
        return
    if not results.finished:
        checked.notices.append(f"not finished: {len(results.lanes)} lanes are done")


def _check_checkpoints(checked: Checked, group: GroupDirectory) -> None:
    for place in sorted(group.checkpoints.glob("*")):
        if place.name.isdecimal() and (wrong := damage(place)):
            checked.problems.append(f"the checkpoint {place.relative_to(checked.run)}: {wrong}")


def _within(run: Path, directory: Path, error: UserError) -> str:
    what = error.what if isinstance(error, DamageError) else str(error)
    return what if run == directory else f"{directory.relative_to(run)}: {what}"
