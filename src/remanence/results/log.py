"""Reads the log of a run, one JSON object per event, and how much time its lanes took."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LOG = "log.jsonl"
STARTED, RESUMED, TAKEN = "started", "resumed", "taken"


class Seconds(NamedTuple):
    """Time spent: by the clock, and by all processors together."""

    wall: float = 0.0
    cpu: float = 0.0


def read_log(directory: Path) -> list[dict[str, Any]]:
    """The events of a run or group, without lines that a crash cut off; empty if there is no log."""
    try:
        lines = (directory / LOG).read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [event for event in map(_parsed, lines) if event]


def lane_seconds(run: Path) -> dict[int, Seconds]:
    """The time of each lane: an equal share of what its group took, in all processes that worked on it.

    Of a group that is not finished: what a whole lane takes, by the windows done so far. A lane that was taken over from another
    run has the time that it took there. Lanes of older logs are left out.
    """
    groups, found = _Groups(), {}
    for directory in (run, *sorted(run.glob("groups/*"))):
        for event in read_log(directory):
            with contextlib.suppress(KeyError, TypeError, ValueError, IndexError):  # of another version, or damaged
                if event["event"] == TAKEN:
                    found |= {lane: Seconds(wall, cpu) for lane, wall, cpu in _taken(event) if wall is not None}
                elif "wall_seconds" in event:
                    groups.add(event)
    return found | groups.lanes()


def cores_of(run: Path) -> int:
    """The largest number of cores that a process of the run could use; 0 if its log does not say."""
    logs = (run, *run.glob("groups/*"))
    counts = [event.get("cores", 0) for log in logs for event in read_log(log)]
    return max((count for count in counts if isinstance(count, int)), default=0)


class _Groups:
    """Sums the time of each group: every process logs how much it has spent so far."""

    def __init__(self) -> None:
        self._lanes: dict[int, list[int]] = {}
        self._spent: dict[int, list[Seconds]] = {}  # by process
        self._done: dict[int, float] = {}  # share of the group's windows

    def add(self, event: dict[str, Any]) -> None:
        group = event["group"]
        if event["event"] in (STARTED, RESUMED):
            self._lanes[group] = event["lanes"]
            self._spent.setdefault(group, []).append(Seconds())
        self._spent[group][-1] = Seconds(float(event["wall_seconds"]), float(event["cpu_seconds"]))
        self._done[group] = event["windows"] / event["of"]

    def lanes(self) -> dict[int, Seconds]:
        return {
            lane: Seconds(
                *(sum(part) / len(lanes) / self._done[group] for part in zip(*self._spent[group], strict=True))
            )
            for group, lanes in self._lanes.items()
            for lane in lanes
            if self._done.get(group)
        }


def _taken(event: dict[str, Any]) -> Iterator[tuple[int, float | None, float]]:
    """(lane, wall, cpu); None where the other run did not know"""
    return zip(event["lanes"], event["wall_seconds"], event["cpu_seconds"], strict=True)


def _parsed(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
