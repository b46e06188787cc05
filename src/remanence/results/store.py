"""Reads a run: its description and its tables. `directory.py` writes them."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from remanence.core.errors import UserError, printable
from remanence.metrics import metric as metric_of
from remanence.results.description import DESCRIPTION, read_description
from remanence.results.manifest import DamageError, read_checked
from remanence.results.stopped import STOPPED_AFTER, stopped_remark

TABLES = ("lanes", "curves", "maps")
COLUMNS = {"lanes": {"lane", "contender", "seed", "diverged"}, "curves": {"lane", "window", "metric", "value"}}
DIVERGED, FAILED = "diverged", "environment failed"  # why a seed is in no average
POLICIES = "policies"  # subdirectory of a run
OWN = "own"  # the experiment of runs of `remanence.live`
ONE_AT_A_TIME = (
    "one_at_a_time"  # in a description: how many settings agents have whose fields are searched one at a time
)
CHOICE = "choice"  # in a description: by which metric a sweep chose its settings, and which
TASK_CURVES = ("task", "game")  # curves that hold the index of the task of each window


@dataclass(frozen=True, repr=False)
class Results:
    """The tables of a run, read from disk or only in memory. `remanence.live` returns them with a chart and policies."""

    location: Path | None
    """its directory; None if it is only in memory"""
    description: dict[str, Any]
    lanes: pl.DataFrame
    curves: pl.DataFrame
    maps: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __repr__(self) -> str:
        where = f"'{self.location}'" if self.location else "in memory"
        stopped = f"; {remark}" if (remark := stopped_remark(self)) else ""
        agents, metrics = ", ".join(self.contenders), ", ".join(self.metrics)
        return f"<Results {where}: {agents}; {len(self.seeds)} seeds; {metrics}{stopped}>"

    @property
    def path(self) -> Path:
        if self.location is None:
            raise UserError("this run is only in memory: save it first, results.save(path)")
        return self.location

    @property
    def experiment(self) -> str:
        return self.description["experiment"]

    @property
    def preset(self) -> str:
        return self.description["preset"]

    @property
    def learners(self) -> dict[str, dict[str, str]]:
        """The learner of each contender and why it was chosen; empty for runs without a choice."""
        return self.description.get("learners", {})

    @property
    def seeds(self) -> list[int]:
        return self.description["seeds"]

    @property
    def environments(self) -> str:
        """The names of the environments; of an experiment, its own name."""
        return environments_of(self.description)

    @property
    def contenders(self) -> list[str]:
        """Contenders that ran, in the order of the description."""
        ran = set(self.lanes["contender"]) if len(self.lanes) else set()
        return [name for name in self.description["contenders"] if name in ran]

    @property
    def finished(self) -> bool:
        """Whether all lanes of the description are done."""
        if "sweep" not in self.description:
            done = len(self.lanes) - len(self.stopped)
            return done == len(self.seeds) * len(self.description["contenders"])
        searched, crossed = self.description["sweep"], self.description.get(ONE_AT_A_TIME, {})
        sizes = {name: math.prod(len(values) for values in search.values()) for name, search in searched.items()}
        return len(self.lanes) == len(self.seeds) * sum({**sizes, **crossed}.values())

    @cached_property
    def metrics(self) -> list[str]:
        return self.curves["metric"].unique(maintain_order=True).to_list() if len(self.curves) else []

    @property
    def objective(self) -> str | None:
        """The metric by which a sweep chose settings; None if the run is no part of a sweep, or it is not recorded."""
        return self.description.get(CHOICE, {}).get("metric")

    def first_metrics(self, primary_metrics: Sequence[str]) -> list[str]:
        """The metrics to show first: the primary ones that were measured, else all, a sweep's objective before others."""
        asked = [metric for metric in primary_metrics if metric in self.metrics]
        others = [metric for metric in self.metrics if not metric_of(metric).about_parts]
        return asked or sorted(others, key=lambda metric: metric != self.objective)

    @property
    def segment_length(self) -> int:
        """Windows of a curve per segment. The last one is shorter if the window does not divide the segment."""
        return -(-self._segment // self.window)

    @property
    def window(self) -> int:
        """Steps of a window; 1 where a window is an episode."""
        return self.description.get("window", 1)

    @property
    def _segment(self) -> int:
        """Steps or episodes of a segment."""
        return next(iter(self.description["stream"]["segment_length"].values()))

    @cached_property
    def ends(self) -> np.ndarray:
        """[windows] the number of steps, or episodes, at the end of each window."""
        within = np.minimum(np.arange(1, self.segment_length + 1) * self.window, self._segment)
        segments = len(self.description["stream"]["order"])
        return (np.arange(segments)[:, None] * self._segment + within).ravel()

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
        """Windows at which the task switches; where each seed draws its tasks, at which one is drawn."""
        order = self.description["stream"]["order"]
        return [n * self.segment_length for n in range(1, len(order)) if order[n] is None or order[n] != order[n - 1]]

    @property
    def task_names(self) -> list[str]:
        """A name for each task: your own environment's, else its number."""
        stream = self.description["stream"]
        names = stream.get("tasks")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
        order = [task for task in stream["order"] if task is not None]
        recorded = self.curves.filter(pl.col("metric").is_in(TASK_CURVES) & pl.col("value").is_finite())["value"]
        return [str(task) for task in range(int(max([*order, recorded.max() or 0], default=0)) + 1)]  # type: ignore[type-var]

    def diverged(self, contender: str) -> list[int]:
        """Seeds with infinite or NaN values: left out of every average, and listed beside it."""
        return self._lanes_of(contender).filter(pl.col("diverged"))["seed"].to_list()

    def failed(self, contender: str) -> list[int]:
        """Those of the diverged seeds in which the environment failed, not the agent."""
        lanes = self._lanes_of(contender)
        return lanes.filter(pl.col("failed") != "")["seed"].to_list() if "failed" in lanes.columns else []

    def left_out(self, contender: str) -> dict[str, int]:
        """How many seeds are in no average, and why; empty if all are."""
        failed = len(self.failed(contender))
        counts = {DIVERGED: len(self.diverged(contender)) - failed, FAILED: failed}
        return {why: count for why, count in counts.items() if count}

    def sound_seeds(self, contender: str) -> list[int]:
        return self._lanes_of(contender).filter(~pl.col("diverged"))["seed"].to_list()

    @cached_property
    def stopped(self) -> dict[int, int]:
        """The closed windows of each life that a callback stopped, by lane. They are in no run on disk."""
        there = self.lanes.drop_nulls(STOPPED_AFTER) if STOPPED_AFTER in self.lanes.columns else pl.DataFrame()
        return dict(there.select("lane", STOPPED_AFTER).iter_rows()) if len(there) else {}

    def lifetimes(self, contender: str) -> list[int]:
        """The closed windows of each life of a contender that did not diverge, or of all if all did. Its curves end at the
        smallest of them."""
        lanes = self._lanes_of(contender)
        sound = lanes.filter(~pl.col("diverged"))
        return [self.stopped.get(lane, self.windows) for lane in (sound if len(sound) else lanes)["lane"]]

    def matrix(self, contender: str, metric: str) -> np.ndarray:
        """[sound seeds, windows], seeds in the order of `sound_seeds`; raises a `UserError` if a value is missing."""
        curves = self._matrices[contender, metric]
        missing = ~np.isfinite(curves)
        if missing.any():
            raise UserError(
                f"{missing.any(axis=1).sum()} of {len(curves)} curves of {contender} have windows in which {metric} is NaN or "
                "infinite: record a number in every window, or mark these lanes as diverged"
            )
        return curves

    def tasks(self, contender: str) -> np.ndarray:
        """[sound seeds, segments] the task of each segment.

        In old runs whose seeds drew their tasks without recording them, every segment counts as another task.
        """
        order, count = self.description["stream"]["order"], len(self.sound_seeds(contender))
        recorded = next((name for name in TASK_CURVES if name in self.metrics), None)
        if None not in order or recorded is None:
            shared = np.arange(len(order)) if None in order else np.array(order, int)
            return np.tile(shared, (count, 1))
        ends = slice(self.segment_length - 1, None, self.segment_length)
        return self.matrix(contender, recorded)[:, ends].astype(int)

    def switched(self, contender: str) -> np.ndarray:
        """[sound seeds, segments] whether a segment starts with a switch to another task."""
        tasks = self.tasks(contender)
        return np.diff(tasks, axis=1, prepend=tasks[:, :1]) != 0

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], np.ndarray]:
        matrices = {}
        for contender in self.contenders:
            lanes = self._lanes_of(contender).filter(~pl.col("diverged"))["lane"].to_list()
            rows = self.curves.filter(pl.col("lane").is_in(lanes)).sort("lane", "window")
            if self.stopped:
                rows = rows.filter(pl.col("window") <= min(self.lifetimes(contender)))
            for metric in self.metrics:
                values = rows.filter(pl.col("metric") == metric)["value"].to_numpy()
                matrices[contender, metric] = values.reshape(len(lanes), -1) if lanes else np.empty((0, self.windows))
        return matrices

    def lane(self, contender: str, seed: int) -> int:
        """The number of a lane."""
        return self._lanes_of(contender).filter(pl.col("seed") == seed)["lane"].item()

    def _lanes_of(self, contender: str) -> pl.DataFrame:
        return self.lanes.filter(pl.col("contender") == contender).sort("lane")


def environments_of(description: dict[str, Any]) -> str:
    """The names of the environments of a run; of an experiment, its own name."""
    names = description.get("world", {}).get("environments", [description["experiment"]])
    return ", ".join(dict.fromkeys(map(str, names)))


def load(path: str | Path) -> Results:
    """Reads a run; raises a `UserError` if it is damaged or of a newer format."""
    path = Path(path)
    description = read_description(path)
    tables = {}
    for name in TABLES:
        table = _table(path / f"{name}.parquet")
        if missing := COLUMNS.get(name, set()) - set(table.columns) if len(table.columns) else set():
            raise DamageError(path, f"{name}.parquet has no column {', '.join(sorted(missing))}")
        tables[name] = table
    results = Results(path, description, **tables)
    if problem := _unknown_agents(results) or incomplete(results):
        raise DamageError(path, problem)
    return results


def _unknown_agents(results: Results) -> str:
    """Which agents have lanes and no description; empty if none have."""
    unknown = set(results.lanes["contender"]) - set(results.description["contenders"]) if len(results.lanes) else set()
    return (
        f"lanes.parquet has an agent '{printable(min(map(str, unknown)))}' that {DESCRIPTION} has not"
        if unknown
        else ""
    )


def incomplete(results: Results) -> str:
    """Which rows of the curves are missing; empty if none are. Lanes that are not finished have none to miss."""
    if not len(results.lanes) or "sweep" in results.description:
        return ""
    if not len(results.curves):
        return "curves.parquet is missing"
    rows = results.curves.group_by("lane").agg(pl.len().alias("rows"), pl.col("metric").n_unique().alias("metrics"))
    lanes = results.lanes.select("lane", "contender", "seed").join(rows, on="lane", how="left")
    most = lanes.group_by("contender").agg(pl.col("metrics").max().fill_null(1) * results.windows)
    lanes = lanes.drop("metrics").join(most.rename({"metrics": "wanted"}), on="contender")
    short = lanes.filter(pl.col("rows").fill_null(0) != pl.col("wanted")).sort("lane").to_dicts()
    if not short:
        return ""
    return (
        f"curves.parquet has {short[0]['rows'] or 0} instead of {short[0]['wanted']} rows of '{short[0]['contender']}' "
        f"with seed {short[0]['seed']}{f', and {len(short) - 1} other lanes are incomplete' if len(short) > 1 else ''}"
    )


def find_runs(out: Path, experiment: str) -> list[Path]:
    """Runs of an experiment below a directory, the newest first."""
    found = (out / experiment).glob("*/description.json")
    return sorted(
        (file.parent for file in found), key=lambda run: (run / "description.json").stat().st_mtime, reverse=True
    )


def read_table(path: Path) -> pl.DataFrame:
    """A table of a run; raises a `UserError` if it is damaged."""
    return _parsed(path, read_checked(path.parent, path.name) or b"")


def _table(path: Path) -> pl.DataFrame:
    """The same; empty if there is none, and none is expected."""
    content = read_checked(path.parent, path.name)
    return pl.DataFrame() if content is None else _parsed(path, content)


def _parsed(path: Path, content: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DamageError(path.parent, path.name) from error
