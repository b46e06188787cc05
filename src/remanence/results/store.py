"""The directory of a run: what was asked, what came out, and nothing that can run code.

<out>/<experiment>/<hash of the description>/
    description.json   everything needed to run it again, and the versions that ran it
    lanes.parquet      one row per lane: contender, seed, every hyper-parameter, what became of it
    curves.parquet     lane, tick, metric, value
    maps.parquet       lane, tick, part, point, value    (only where an experiment keeps pictures)
    log.jsonl          what happened when
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from remanence import __version__
from remanence.errors import UserError

TABLES = ("lanes", "curves", "maps")


class RunDirectory:
    """One run on disk. Files are replaced whole, so a reader or a crash never sees half of one."""

    def __init__(self, out: Path, description: dict[str, Any]) -> None:
        asked = {key: value for key, value in description.items() if key != "versions"}
        self.hash = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
        self.path = out / description["experiment"] / self.hash
        self.description = description

    def open(self) -> None:
        """Makes the directory, or checks that the one there is ours to continue."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to '{self.path}': {error.strerror}; choose another --out") from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UserError(f"cannot write to '{self.path}': permission denied; choose another --out")
        if (self.path / "description.json").exists():
            load(self.path)  # refuses what is damaged or of another version
        else:
            _replace(self.path / "description.json", json.dumps(self.description, indent=2).encode())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the run for this process alone. The lock goes with the process, however it ends."""
        with (self.path / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                raise UserError(
                    f"'{self.path}' is being written by process {lock.read().strip() or 'unknown'}: "
                    "wait for it, or choose another --out"
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def add(self, tables: dict[str, pl.DataFrame]) -> None:
        """Appends rows to the tables; `lanes` goes last, so that a lane listed there is complete."""
        for name in sorted(tables, key=lambda name: name == "lanes"):
            path = self.path / f"{name}.parquet"
            old = [_read_table(path)] if path.exists() else []
            if old and name != "lanes":  # rows left by a group that was cut off before its lanes were listed
                done = (
                    _read_table(self.path / "lanes.parquet")["lane"] if (self.path / "lanes.parquet").exists() else []
                )
                old = [old[0].filter(pl.col("lane").is_in(list(done)))]
            buffer = path.with_suffix(f".{os.getpid()}.tmp")
            pl.concat([*old, tables[name]], how="diagonal_relaxed").write_parquet(buffer)
            os.replace(buffer, path)

    def log(self, event: str, **facts: Any) -> None:
        with (self.path / "log.jsonl").open("a") as log:
            log.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


@dataclass(frozen=True)
class Results:
    """A run as read from disk."""

    path: Path
    description: dict[str, Any]
    lanes: pl.DataFrame
    curves: pl.DataFrame
    maps: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def experiment(self) -> str:
        return self.description["experiment"]

    @property
    def preset(self) -> str:
        return self.description["preset"]

    @property
    def seeds(self) -> list[int]:
        return self.description["seeds"]

    @property
    def contenders(self) -> list[str]:
        """Contenders that ran, in the order of the description."""
        ran = set(self.lanes["contender"]) if len(self.lanes) else set()
        return [name for name in self.description["contenders"] if name in ran]

    @property
    def finished(self) -> bool:
        """Whether every lane of the description is there."""
        if "sweep" not in self.description:
            return len(self.contenders) == len(self.description["contenders"])
        sizes = (math.prod(len(values) for values in search.values()) for search in self.description["sweep"].values())
        return len(self.lanes) == len(self.seeds) * sum(sizes)

    @property
    def metrics(self) -> list[str]:
        return self.curves["metric"].unique(maintain_order=True).to_list() if len(self.curves) else []

    def first_metrics(self, headline: Sequence[str]) -> list[str]:
        """The metrics to show first: those of the headline that were measured, else all."""
        return [metric for metric in headline if metric in self.metrics] or self.metrics

    @property
    def segment_length(self) -> int:
        """Ticks of a curve per segment."""
        return next(iter(self.description["stream"]["span"].values())) // self.description.get("window", 1)

    @property
    def ticks(self) -> int:
        """How many ticks a curve has."""
        return len(self.description["stream"]["order"]) * self.segment_length

    @property
    def switches(self) -> list[int]:
        """Ticks at which a new task begins, the first one left out."""
        return [n * self.segment_length for n in range(1, len(self.description["stream"]["order"]))]

    def diverged(self, contender: str) -> list[int]:
        """Seeds whose values became infinite or not a number: kept out of every average, and named wherever one is shown."""
        return self._lanes_of(contender).filter(pl.col("diverged"))["seed"].to_list()

    def sound_seeds(self, contender: str) -> list[int]:
        return self._lanes_of(contender).filter(~pl.col("diverged"))["seed"].to_list()

    def matrix(self, contender: str, metric: str) -> np.ndarray:
        """[sound seeds, ticks], seeds in the order of `sound_seeds`."""
        return self._matrices[contender, metric]

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], np.ndarray]:
        made = {}
        for contender in self.contenders:
            lanes = self._lanes_of(contender).filter(~pl.col("diverged"))["lane"].to_list()
            rows = self.curves.filter(pl.col("lane").is_in(lanes)).sort("lane", "tick")
            for metric in self.metrics:
                values = rows.filter(pl.col("metric") == metric)["value"].to_numpy()
                made[contender, metric] = values.reshape(len(lanes), -1) if lanes else np.empty((0, self.ticks))
        return made

    def _lanes_of(self, contender: str) -> pl.DataFrame:
        return self.lanes.filter(pl.col("contender") == contender).sort("lane")


def load(path: Path) -> Results:
    """Reads a run; says what is wrong with one that is damaged or of another version."""
    try:
        description = json.loads((path / "description.json").read_text())
        version = description["versions"]["remanence"]
    except FileNotFoundError as error:
        raise UserError(f"'{path}' is not a run: it has no description.json") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the run in '{path}' is damaged (description.json): move it away and run again") from error
    if version != __version__:
        raise UserError(
            f"the run in '{path}' was written by remanence {version}, this is {__version__}: "
            "move it away or choose another --out"
        )
    tables = {name: _read_table(path / f"{name}.parquet") for name in TABLES if (path / f"{name}.parquet").exists()}
    for name, columns in (
        ("lanes", {"lane", "contender", "seed", "diverged"}),
        ("curves", {"lane", "tick", "metric", "value"}),
    ):
        if name in tables and not columns <= set(tables[name].columns):
            raise UserError(f"the run in '{path}' is damaged ({name}.parquet): move it away and run again")
    return Results(
        path,
        description,
        tables.get("lanes", pl.DataFrame()),
        tables.get("curves", pl.DataFrame()),
        tables.get("maps", pl.DataFrame()),
    )


def find_runs(out: Path, experiment: str) -> list[Path]:
    """Runs of an experiment below a directory, the newest first."""
    found = (out / experiment).glob("*/description.json")
    return sorted(
        (file.parent for file in found), key=lambda run: (run / "description.json").stat().st_mtime, reverse=True
    )


def _read_table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"the run in '{path.parent}' is damaged ({path.name}): move it away and run again") from error


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_bytes(content)
    os.replace(partial, path)
