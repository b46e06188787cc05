"""Earlier results of a run: `--restart` moves them to `old/<n>/` in the run's directory, `remanence clean` removes them.

Only files that a run writes are moved or removed. Others, and symbolic links, stay: they may be someone's notes.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from remanence.core.files import sync
from remanence.results.description import DESCRIPTION
from remanence.results.log import LOG
from remanence.results.manifest import MANIFEST
from remanence.results.store import POLICIES, TABLES

OLD = "old"
GROUPS, TENSORBOARD = "groups", "tensorboard"
_TABLES = tuple(f"{name}.parquet" for name in TABLES)  # the list of finished lanes first
# In the order of moving. The description is last: a directory that has one is never taken for a new run.
ENTRIES = (*_TABLES, POLICIES, GROUPS, "layout.json", "stop", TENSORBOARD, LOG, MANIFEST, DESCRIPTION)
_IN_GROUP = {*_TABLES, "progress.json", "so-far.parquet", LOG, "lock", MANIFEST}
_BELOW_GROUP = ("checkpoint", POLICIES)
_LEFTOVER = re.compile(r"(.+)\.\d+\.tmp")


@dataclass
class Removed:
    """What `clean` did."""

    files: int = 0
    bytes: int = 0
    kept: list[Path] = field(default_factory=list)
    """unknown files and symbolic links"""


def move_aside(run: Path) -> Path | None:
    """Moves the results of a run to `old/<n>/`; returns where to, or None if there are none."""
    entries = [name for name in ENTRIES if (run / name).exists() or (run / name).is_symlink()]
    if not entries:
        return None
    taken = [int(path.name) for path in (run / OLD).glob("*") if path.name.isdecimal()]
    to = run / OLD / str(max(taken, default=0) + 1)
    to.mkdir(parents=True)
    for name in entries:
        os.rename(run / name, to / name)
    sync(to)
    sync(run)
    return to


def remove_aside(run: Path) -> Removed:
    """Removes what `move_aside` moved."""
    removed = Removed()
    old = run / OLD
    if old.is_symlink() or not old.is_dir():
        return removed
    for folder, folders, names in os.walk(old, topdown=False, followlinks=False):
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file() or not is_known(path.relative_to(old)):
                removed.kept.append(path)
                continue
            removed.bytes += path.stat().st_size
            removed.files += 1
            path.unlink()
        removed.kept += [Path(folder) / name for name in sorted(folders) if (Path(folder) / name).is_symlink()]
        with contextlib.suppress(OSError):  # something was kept
            Path(folder).rmdir()
    return removed


def is_known(path: PurePath) -> bool:
    """Whether a run writes such a file: `path` is relative to `old`, <n>/…"""
    number, *rest = path.parts
    if not number.isdecimal() or not rest:
        return False
    if leftover := _LEFTOVER.fullmatch(rest[-1]):
        rest[-1] = leftover[1]
    match rest:
        case [name]:
            return name in ENTRIES
        case ["policies", name]:
            return name.endswith(".npz")
        case ["groups", group, *inside] if group.isdecimal() and inside:
            return (len(inside) == 1 and inside[0] in _IN_GROUP) or (len(inside) > 1 and inside[0] in _BELOW_GROUP)
        case ["tensorboard", _, name]:
            return name.startswith("events.out.tfevents")
        case _:
            return False
