"""The directory of a run: description, tables, log and checkpoints. No file contains code.

<out>/<experiment>/<hash of the description>/
    description.json   everything needed to run it again, and the versions used
    lanes.parquet      one row per lane: contender, seed, every hyperparameter, steps, whether it diverged
    curves.parquet     lane, window, metric, value
    maps.parquet       lane, window, part, point, value    (only if the experiment records value maps)
    policies/<lane>.npz  learned policies   (of experiments: of the first seed of each agent)
    manifest.json      size and checksum of the description, the tables and, once the run is finished, of all files above
    log.jsonl          one JSON object per event
    lock               the process that is writing
    layout.json        lanes and cores per group, and which lanes are in no group, while the run is not finished
    stop               asks all workers to save a checkpoint and stop
    groups/<n>/        an unfinished group of lanes: the same tables, policies and log, and
        progress.json      its progress
        so-far.parquet     curves of its running lanes
        stopped/           tables and policies of its running lanes, if a callback stopped the run
        checkpoint/        its checkpoints
    old/<n>/           the results before the n-th `--restart`

Files are replaced atomically: a reader never sees a partial one, even after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import resource
import shutil
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

import polars as pl

from remanence.core.errors import UserError, disk_errors
from remanence.core.files import open_to_append, remove_leftovers, replacing, sync
from remanence.results.aside import TENSORBOARD, move_aside
from remanence.results.description import DESCRIPTION, FORMAT
from remanence.results.log import LOG, read_log
from remanence.results.manifest import DamageError, announce, seal
from remanence.results.stopped import STOPPED_AFTER
from remanence.results.store import CHOICE, POLICIES, TABLES, Results, load, read_table

# Files whose checksum is recorded from the start.
RECORDED = (DESCRIPTION, *(f"{name}.parquet" for name in TABLES))
# The highest level of zstd, and one group of rows: this makes the curves of Figure 4 a fifth smaller.
SMALLEST: dict[str, Any] = {"compression_level": 22, "row_group_size": 2**30, "data_page_size": 2**26}
# Parts of a description that do not make it another run.
NOT_HASHED = ("versions", "learners", "format", CHOICE)
SET_APART = "set_apart"
# Columns of `lanes` that all runs have; hyperparameters and AUCs are between them.
FIRST = ("lane", "contender", "seed")
LAST = ("steps", STOPPED_AFTER, "samples_dropped", "failed", "diverged", "version")


class Directory:
    """Tables, a log, and a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.smallest = False
        """whether tables are compressed as much as possible, which takes longer"""

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to '{self.path}': {error.strerror}; choose another --out") from None
        except ValueError:  # a character that no name can have
            raise UserError(
                f"cannot write to '{self.path}': no file can have this name; choose another --out"
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UserError(f"cannot write to '{self.path}': permission denied or read-only; choose another --out")

    @contextlib.contextmanager
    def writing(self, patience: float = 0.0) -> Iterator[str]:
        """Locks the directory for this process. Yields the name of the last holder if it did not exit cleanly, else "".

        Waits up to `patience` seconds for another holder. The kernel releases the lock when its process ends, even in a crash;
        the file then still names the process.
        """
        with open_to_append(self.path / "lock") as lock:
            until = time.monotonic() + patience
            while not (held := _try_lock(lock, self.path)) and time.monotonic() < until:
                time.sleep(0.2)
            lock.seek(0)
            holder = lock.read().strip()
            if not held:
                raise UserError(
                    f"'{self.path}' is being written by {holder or 'another process'}: wait for it, or choose another --out"
                )
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
            lock.flush()
            for directory in (self.path, self.path / POLICIES):
                remove_leftovers(directory)
            try:
                yield holder
            finally:
                lock.truncate(0)

    def add(self, tables: dict[str, pl.DataFrame]) -> None:
        """Adds rows to the tables, sorted by lane. `lanes` is written last, so that a lane listed there is complete."""
        for name in sorted(tables, key=lambda name: name == "lanes"):
            path, old = self.path / f"{name}.parquet", pl.DataFrame()
            if path.exists():
                old = read_table(path)
                if name != "lanes":  # rows of lanes whose writer crashed before listing them
                    old = old.filter(pl.col("lane").is_in(self.lanes()))
            self.replace(path.name, joined(name, old, tables[name]), lasting=True)

    def lanes(self) -> list[int]:
        """Lanes that are complete."""
        path = self.path / "lanes.parquet"
        return read_table(path)["lane"].to_list() if path.exists() else []

    def tables(self) -> dict[str, pl.DataFrame]:
        return {
            name: read_table(self.path / f"{name}.parquet")
            for name in TABLES
            if (self.path / f"{name}.parquet").exists()
        }

    def replace(self, name: str, content: pl.DataFrame | dict[str, Any], lasting: bool = False) -> None:
        """Replaces a file atomically; `lasting`: syncs it to disk, so that it survives a power cut."""
        with replacing(self.path / name, lasting) as partial:
            if isinstance(content, pl.DataFrame):
                content.write_parquet(partial, **(SMALLEST if self.smallest else {}))
            else:
                partial.write_text(json.dumps(content, indent=2))
            if name in RECORDED:
                announce(self.path, name, partial, RECORDED)

    def add_policy(self, lane: int, policy: Savable) -> None:
        """Adds the policy of a lane: before `add` lists the lane, so that a complete lane has its policy."""
        policy.save(self._policy(lane))
        sync(self._policy(lane))

    def copy_policy(self, lane: int, file: Path) -> None:
        """Adds the policy of a lane from a file."""
        with replacing(self._policy(lane), lasting=True) as partial:
            shutil.copyfile(file, partial)

    def _policy(self, lane: int) -> Path:
        (self.path / POLICIES).mkdir(exist_ok=True)
        return self.path / POLICIES / f"{lane}.npz"

    def seal(self) -> None:
        """Records the checksums of all files of a finished run."""
        names = [name for name in (*RECORDED, LOG) if (self.path / name).is_file()]
        inside = [*self.path.glob(f"{POLICIES}/*.npz"), *self.path.glob(f"{TENSORBOARD}/*/*")]
        seal(self.path, names + [str(path.relative_to(self.path)) for path in inside if path.is_file()])

    def log(self, event: str, **fields: Any) -> None:
        """Appends one line of JSON, with the time and the peak memory of this process."""
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields, "memory_mib": memory})
        with open_to_append(self.path / LOG) as log:
            log.write(line + "\n")


class GroupDirectory(Directory):
    """An unfinished group of lanes."""

    lasting = True
    """whether it outlasts its process"""

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoint"

    def progress(self) -> dict[str, Any]:
        """The last status of the group; empty if it has not started."""
        return read_json(self.path / "progress.json") or {}

    def so_far(self) -> pl.DataFrame:
        try:
            return pl.read_parquet(self.path / "so-far.parquet")
        except (
            OSError,
            pl.exceptions.PolarsError,
        ):  # not written yet, or already removed: the group may finish in between
            return pl.DataFrame()

    @property
    def stopped(self) -> Directory:
        """Lives that were under way when a callback stopped the run: none of them is finished."""
        return Directory(self.path / "stopped")

    def forget_stopped(self) -> None:
        """They go on."""
        shutil.rmtree(self.stopped.path, ignore_errors=True)

    def warnings(self) -> list[str]:
        """The warnings in the group's log."""
        return [event["text"] for event in read_log(self.path) if event["event"] == "warning"]


class RunDirectory(Directory):
    """One run."""

    def __init__(self, out: Path, description: dict[str, Any]) -> None:
        self.hash = hash_of(description)
        super().__init__(out / description["experiment"] / self.hash)
        self.description = description
        self.moved_to: Path | None = None
        """where `opened` moved earlier results"""

    @contextlib.contextmanager
    def opened(self, restart: bool = False) -> Iterator[str]:
        """Opens the run and locks it, like `writing`; with `restart`, moves earlier results aside first."""
        self.make()
        with self.writing() as holder:
            if restart:
                self.moved_to = move_aside(self.path)
            self.open()
            yield holder

    def open(self) -> None:
        """Creates the directory, or checks that the existing one can be resumed."""
        self.make()
        if (self.path / DESCRIPTION).exists():
            found = load(self.path)  # raises if it is damaged or of a newer format
            if hash_of(found.description) != self.hash:
                raise DamageError(self.path, f"{DESCRIPTION} is that of another run")
            for name in () if found.finished else ("remanence", "jax"):
                before, now = (one.get("versions", {}).get(name) for one in (found.description, self.description))
                if before != now:
                    raise UserError(
                        f"the run in '{self.path}' is not finished and was written by {name} {before}, this is {now}: "
                        f"install {name} {before} to resume it, choose another --out, or start over with --restart"
                    )
        else:
            self.replace(DESCRIPTION, {**self.description, "format": FORMAT}, lasting=True)

    def group(self, number: int) -> GroupDirectory:
        return GroupDirectory(self.path / "groups" / f"{number:04d}")

    def merge_group(self, group: GroupDirectory) -> None:
        """Adds the tables, policies and log of a finished group to the run's."""
        for policy in group.path.glob(f"{POLICIES}/*.npz"):
            self.copy_policy(int(policy.stem), policy)
        self.add(group.tables())
        with open_to_append(self.path / LOG) as log:
            log.write((group.path / LOG).read_text())
        shutil.rmtree(group.path)

    def layout(self) -> dict[str, int]:
        """What decides the last bits of the groups, from when the run started; empty if it has not started or is finished."""
        found = read_json(self.path / "layout.json")
        return {name: n for name, n in found.items() if isinstance(n, int)} if isinstance(found, dict) else {}

    def check_layout(self, layout: dict[str, int]) -> None:
        """Raises if the run was started with another layout: its checkpoints would be lost, or its groups would differ."""
        found = self.layout()
        other = [name for name in layout if found.get(name) != layout[name] and (name in found or not found)]
        started = any(self.path.glob("groups/*/checkpoint/*")) or any(self.path.glob("groups/*/lanes.parquet"))
        if other and (started or (found and self.lanes())):
            before = ", ".join(f"{name.replace('_', ' ')} {found[name]}" for name in other if name in found)
            now = ", ".join(f"{name.replace('_', ' ')} {layout[name]}" for name in other)
            options = " ".join(f"--{name.replace('_', '-')} {found[name]}" for name in other if name in found)
            raise UserError(
                f"'{self.path}' was started with {before or 'an unknown layout'}, not with {now}: "
                f"{f'give {options}' if options else 'restore layout.json'}, or start over with --restart"
            )

    def set_layout(self, layout: dict[str, int], set_apart: Collection[int] = ()) -> None:
        """Writes the layout, before anything runs, and which lanes are in no group."""
        self.check_layout(layout)
        found = self.layout()
        if not found or not found.items() <= layout.items():
            shutil.rmtree(self.path / "groups", ignore_errors=True)
        if found != layout:
            self.replace("layout.json", {**layout, SET_APART: sorted(set_apart)}, lasting=True)

    def set_apart(self) -> list[int]:
        """The lanes that were complete before the first group started, so that none has them."""
        found = read_json(self.path / "layout.json")
        lanes = found.get(SET_APART, []) if isinstance(found, dict) else []
        return [lane for lane in lanes if isinstance(lane, int)] if isinstance(lanes, list) else []

    def learners(self) -> dict[str, dict[str, str]]:
        """The learner of each contender, and why it was chosen; not part of the hash."""
        return (read_json(self.path / DESCRIPTION) or {}).get("learners", {})

    def set_learners(self, learners: dict[str, dict[str, str]]) -> None:
        """Records them in the description, and a change of them in the log."""
        before = self.learners()
        if learners == before:
            return
        description = read_json(self.path / DESCRIPTION) or self.description
        self.replace(DESCRIPTION, {**description, "learners": learners}, lasting=True)
        self.log("learners", learners=learners, before=before)

    def set_choice(self, metric: str, settings: Mapping[str, Mapping[str, float]]) -> None:
        """Records in the description of a sweep its objective, and the settings that were chosen by it; not part of the hash."""
        choice = {"metric": metric, "settings": {name: dict(values) for name, values in settings.items()}}
        description = read_json(self.path / DESCRIPTION) or self.description
        if description.get(CHOICE) != choice:
            with disk_errors(self.path), self.writing():
                self.replace(DESCRIPTION, {**description, CHOICE: choice}, lasting=True)
                self.seal()

    def tidy(self) -> None:
        """Removes files that a finished run no longer needs."""
        shutil.rmtree(self.path / "groups", ignore_errors=True)
        for name in ("layout.json", "stop"):
            (self.path / name).unlink(missing_ok=True)


def joined(name: str, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table and new ones, sorted by lane; new rows replace those of the same lane."""
    if len(old):
        old = old.filter(~pl.col("lane").is_in(new["lane"].unique().to_list()))
        new = pl.concat([old, new], how="diagonal_relaxed")
    if name == "lanes":  # groups finish in any order, and agents differ in their hyperparameters
        between = sorted(set(new.columns) - {*FIRST, *LAST})
        new = new.select(column for column in (*FIRST, *between, *LAST) if column in new.columns)
    return new.sort("lane", maintain_order=True)


class Savable(Protocol):
    """A policy, as far as a run's directory needs to know it."""

    def save(self, path: Path, /) -> object: ...


def save(results: Results, path: Path, policies: Mapping[int, Savable] | None = None) -> Path:
    """Writes a run that is only in memory. `policies`: by lane."""
    directory = Directory(path)
    directory.make()
    if (path / DESCRIPTION).exists():
        raise UserError(f"'{path}' already holds a run: choose another directory")
    tables = {"lanes": results.lanes, "curves": results.curves, "maps": results.maps}
    with disk_errors(path), directory.writing():
        directory.add({name: table for name, table in tables.items() if len(table)})
        for lane, policy in (policies or {}).items():
            policy.save(path / POLICIES / f"{lane}.npz")
        directory.replace(DESCRIPTION, {**results.description, "format": FORMAT}, lasting=True)
        directory.seal()
    return path


def hash_of(description: dict[str, Any]) -> str:
    """What names the directory of a run."""
    asked = {key: value for key, value in description.items() if key not in NOT_HASHED}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def groups_under_way(run: Path) -> list[GroupDirectory]:
    """The groups of a run that have started and are not finished."""
    return [GroupDirectory(path) for path in sorted(run.glob("groups/*"))]


def read_json(path: Path) -> Any:
    """The content of a file; None if it is missing or incomplete."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _try_lock(lock: TextIO, path: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"cannot lock '{path}' ({error.strerror}): its file system must support locks; choose another --out"
        ) from error
    return True
