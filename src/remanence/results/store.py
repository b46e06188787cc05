"""Reads a run: what was asked and what came out. Who writes it: `directory.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from remanence import __version__
from remanence.core.errors import UserError

TABLES = ("lanes", "curves", "maps")
POLICIES = "policies"  # where those of a run are kept


@dataclass(frozen=True, repr=False)
class Results:
    """The tables of a run, read from disk or only in memory. `remanence.live` returns them with a chart and policies."""

    kept: Path | None
    """where it is on disk"""
    description: dict[str, Any]
    lanes: pl.DataFrame
    curves: pl.DataFrame
    maps: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __repr__(self) -> str:
        where = f"'{self.kept}'" if self.kept else "in memory"
        return f"<Results {where}: {', '.join(self.contenders)}; {len(self.seeds)} seeds; {', '.join(self.metrics)}>"

    @property
    def path(self) -> Path:
        if self.kept is None:
            raise UserError("this run is only in memory: save it first, results.save(path)")
        return self.kept

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
            return len(self.lanes) == len(self.seeds) * len(self.description["contenders"])
        sizes = (math.prod(len(values) for values in search.values()) for search in self.description["sweep"].values())
        return len(self.lanes) == len(self.seeds) * sum(sizes)

    @property
    def metrics(self) -> list[str]:
        return self.curves["metric"].unique(maintain_order=True).to_list() if len(self.curves) else []

    def first_metrics(self, primary_metrics: Sequence[str]) -> list[str]:
        """The metrics to show first: those of the headline that were measured, else all."""
        return [metric for metric in primary_metrics if metric in self.metrics] or self.metrics

    @property
    def segment_length(self) -> int:
        """Windows of a curve per segment."""
        return next(iter(self.description["stream"]["segment_length"].values())) // self.description.get("window", 1)

    @property
    def unit(self) -> str:
        """What a window of a curve is: an episode, or a window of steps."""
        return "episode" if "episodes" in self.description["stream"]["segment_length"] else "window"

    @property
    def windows(self) -> int:
        """How many windows a curve has."""
        return len(self.description["stream"]["order"]) * self.segment_length

    @property
    def switches(self) -> list[int]:
        """Windows at which a new task begins, the first one left out."""
        return [n * self.segment_length for n in range(1, len(self.description["stream"]["order"]))]

    def diverged(self, contender: str) -> list[int]:
        """Seeds whose values became infinite or not a number: kept out of every average, and named wherever one is shown."""
        return self._lanes_of(contender).filter(pl.col("diverged"))["seed"].to_list()

    def sound_seeds(self, contender: str) -> list[int]:
        return self._lanes_of(contender).filter(~pl.col("diverged"))["seed"].to_list()

    def matrix(self, contender: str, metric: str) -> np.ndarray:
        """[sound seeds, windows], seeds in the order of `sound_seeds`."""
        return self._matrices[contender, metric]

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], np.ndarray]:
        made = {}
        for contender in self.contenders:
            lanes = self._lanes_of(contender).filter(~pl.col("diverged"))["lane"].to_list()
            rows = self.curves.filter(pl.col("lane").is_in(lanes)).sort("lane", "window")
            for metric in self.metrics:
                values = rows.filter(pl.col("metric") == metric)["value"].to_numpy()
                made[contender, metric] = values.reshape(len(lanes), -1) if lanes else np.empty((0, self.windows))
        return made

    def lane(self, contender: str, seed: int) -> int:
        """The number of a lane."""
        return self._lanes_of(contender).filter(pl.col("seed") == seed)["lane"].item()

    def _lanes_of(self, contender: str) -> pl.DataFrame:
        return self.lanes.filter(pl.col("contender") == contender).sort("lane")


def load(path: str | Path) -> Results:
    """Reads a run; says what is wrong with one that is damaged or of another version."""
    path = Path(path)
    try:
        description = json.loads((path / "description.json").read_text())
        version = description["versions"]["remanence"]
    except FileNotFoundError as error:
        raise UserError(f"'{path}' is not a run: it has no description.json") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"the run in '{path}' is damaged (description.json): begin anew with --restart, or choose another --out"
        ) from error
    if version != __version__:
        raise UserError(
            f"the run in '{path}' was written by remanence {version}, this is {__version__}: "
            "choose another --out, or begin anew with --restart"
        )
    tables = {name: read_table(path / f"{name}.parquet") for name in TABLES if (path / f"{name}.parquet").exists()}
    for name, columns in (
        ("lanes", {"lane", "contender", "seed", "diverged"}),
        ("curves", {"lane", "window", "metric", "value"}),
    ):
        if name in tables and not columns <= set(tables[name].columns):
            raise UserError(
                f"the run in '{path}' is damaged ({name}.parquet): begin anew with --restart, or choose another --out"
            )
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


def read_table(path: Path) -> pl.DataFrame:
    """A table of a run; says so if it is damaged."""
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(
            f"the run in '{path.parent}' is damaged ({path.name}): begin anew with --restart, or choose another --out"
        ) from error
