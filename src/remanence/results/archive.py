"""The archive: full runs that come with the package, as a directory of runs (`tools/archive.py` writes it)."""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from remanence.results.log import Seconds, cores_of, lane_seconds, read_log
from remanence.results.store import Results

ARCHIVE = Path(str(files("remanence.results"))) / "archive"
ARCHIVED = "archived"  # the event in the log of an archived run that says where it comes from


class Origin(NamedTuple):
    """How a run came about."""

    hours: float
    """by the clock, summed over groups; NaN if a log does not say"""
    processor_hours: float
    cores: int
    version: str
    commit: str
    """empty if it is not known"""


def origin(results: Results) -> Origin:
    """Time, version and commit of a run, from its log."""
    spent, run = lane_seconds(results.path), results.path
    lanes = results.lanes["lane"].to_list() if len(results.lanes) else []
    timed = bool(lanes) and spent.keys() >= set(lanes)
    times = [spent[lane] for lane in lanes] if timed else [Seconds(math.nan, math.nan)]
    wall, cpu = (sum(part) / 3600 for part in zip(*times, strict=True))
    commits = [event["commit"] for event in read_log(run) if event.get("event") == ARCHIVED]
    version = results.description["versions"]["remanence"]
    return Origin(wall, cpu, cores_of(run), version, str(commits[-1]) if commits else "")
