"""Runs with more seeds or more agents take over the lanes that other runs have finished, and nothing that is not the same lane."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from one_group import events
from remanence.core.errors import Stopped
from remanence.experiments import get
from remanence.results import load
from remanence.results.description import DESCRIPTION
from remanence.results.directory import Directory
from remanence.results.log import Seconds, lane_seconds
from remanence.results.store import Results, find_runs
from remanence.runs import run as runs
from remanence.runs.execution import Execution
from remanence.runs.executors import run_all
from remanence.runs.plan import Plan
from remanence.runs.run import execute
from remanence.runs.sweep import sweep

NAME = "figure2/tabular"
ALL = ("TD", "PT-TD")


def plan(*agents: str) -> Plan:
    return get(NAME).plan("smoke").shortened(segment_length=3).select(agents or ALL)


def said_and_run(
    out: Path, seeds: int, asked: Plan | None = None, execution: Execution = Execution()
) -> tuple[str, Results]:
    console = Console(file=io.StringIO(), width=1000)
    results = execute(NAME, "smoke", asked or plan(), seeds, out, console, execution)
    return console.file.getvalue(), results  # type: ignore[attr-defined]


def lanes_run(results: Results) -> list[int]:
    """The lanes that the run did itself."""
    return sorted(lane for event in events(results.path) if event["event"] == "started" for lane in event["lanes"])


def of(results: Results, agent: str, seeds: Iterable[int]) -> pl.DataFrame:
    """Curves of an agent, without the numbers of lanes."""
    parts = [results.curves.filter(pl.col("lane") == results.lane(agent, seed)).drop("lane") for seed in seeds]
    return pl.concat(parts)


def change(run: Results, **parts: object) -> None:
    """Changes the description of a run, as if it had been written so."""
    Directory(run.path).replace(DESCRIPTION, {**run.description, "format": 2, **parts})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return said_and_run(tmp_path_factory.mktemp("small"), 2)[1]


@pytest.fixture
def out(small: Results, tmp_path: Path) -> Path:
    """A directory of runs with a copy of the small run."""
    import shutil

    shutil.copytree(small.path.parents[2], tmp_path / "runs")
    return tmp_path / "runs"


def the_small(out: Path) -> Results:
    (path,) = find_runs(out, NAME)
    return load(path)


def test_more_seeds_run_only_the_new_ones(out: Path, small: Results) -> None:
    said, results = said_and_run(out, 4)
    assert f"4 lanes are taken over from {the_small_path(out, results)}" in said
    assert lanes_run(results) == [2, 3, 6, 7]
    assert results.lanes["lane"].to_list() == list(range(8))
    assert results.lanes["seed"].to_list() == [0, 1, 2, 3] * 2
    for agent in ALL:
        assert of(results, agent, (0, 1)).equals(of(small, agent, (0, 1)))
    (taken,) = (event for event in events(results.path) if event["event"] == "taken")
    assert (taken["source"], taken["lanes_there"], taken["lanes"]) == (
        f"{NAME}/{small.path.name}",
        [0, 1, 2, 3],
        [0, 1, 4, 5],
    )
    again, same = said_and_run(out, 4)
    assert "taken over" not in again
    assert same.curves.equals(results.curves)


def the_small_path(out: Path, grown: Results) -> Path:
    (path,) = (path for path in find_runs(out, NAME) if path != grown.path)
    return path


def test_more_agents_run_only_the_new_ones_and_fewer_run_none(tmp_path: Path) -> None:
    _, one = said_and_run(tmp_path, 2, plan("PT-TD"))
    _, both = said_and_run(tmp_path, 2)
    assert lanes_run(both) == [0, 1]
    assert of(both, "PT-TD", (0, 1)).equals(of(one, "PT-TD", (0, 1)))
    said, other = said_and_run(tmp_path, 2, plan("TD"), Execution(jobs=2))
    assert "2 lanes are taken over" in said
    assert lanes_run(other) == []
    assert of(other, "TD", (0, 1)).equals(of(both, "TD", (0, 1)))
    assert other.finished


def test_maps_are_taken_over_too(tmp_path: Path) -> None:
    smoke = get("appendix/prediction-evolution").plan("smoke")
    assert smoke.map_windows
    one = execute("maps", "smoke", smoke, 1, tmp_path, Console(quiet=True))
    two = execute("maps", "smoke", smoke, 2, tmp_path, Console(quiet=True))
    for agent in one.contenders:
        there, here = (results.maps.filter(pl.col("lane") == results.lane(agent, 0)) for results in (one, two))
        assert len(there)
        assert here.drop("lane").equals(there.drop("lane"))


@pytest.mark.parametrize(
    "what", ["hyperparameter", "configuration", "shorter", "learner", "switched learner", "version", "jax", "restart"]
)
def test_what_is_not_the_same_lane_is_not_taken_over(what: str, out: Path) -> None:
    source = the_small(out)
    asked, execution = plan(), Execution(restart=what == "restart")
    everyone = {name: {"learner": "native", "why": ""} for name in ALL}
    match what:
        case "hyperparameter":
            asked = asked.override("TD", "lr", 0.123).override("PT-TD", "permanent_lr", 0.0123)
        case "configuration":
            asked = asked.override("TD", "reset", True).override("PT-TD", "buffer", 7)
        case "shorter":
            asked = asked.shortened(segment_length=2)
        case "learner":
            change(source, learners=everyone)
        case "switched learner":
            Directory(source.path).log("learners", learners=source.learners, before=everyone)
            Directory(source.path).replace(DESCRIPTION, {**source.description})
        case "version":
            change(source, versions={**source.description["versions"], "remanence": "0.0.1"})
        case "jax":
            change(source, versions={**source.description["versions"], "jax": "0.0.1"})
    said, results = said_and_run(out, 3, asked, execution)
    assert "taken over" not in said
    assert lanes_run(results) == list(range(6))


def test_one_changed_agent_does_not_keep_the_other_from_being_taken_over(out: Path) -> None:
    _, results = said_and_run(out, 2, plan().override("TD", "lr", 0.123))
    assert lanes_run(results) == [0, 1]


@pytest.mark.parametrize("file", ["curves.parquet", "description.json"])
def test_a_damaged_run_is_passed_over_with_a_notice(file: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remanence.results.manifest.TRIES", 1)
    path = the_small(out).path / file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    said, results = said_and_run(out, 3)
    assert f"'{path.parent}' is damaged ({file} has changed since it was written): none of its lanes" in said
    assert lanes_run(results) == list(range(6))


def test_another_directory_of_runs_is_named_by_reuse(out: Path, tmp_path: Path) -> None:
    said, results = said_and_run(tmp_path / "new", 3, execution=Execution(reuse=out))
    assert f"4 lanes are taken over from {out}" in said
    assert lanes_run(results) == [2, 5]


def test_lanes_of_another_experiment_are_found_by_reuse_if_they_are_the_same(out: Path, tmp_path: Path) -> None:
    def other(name: str, asked: Plan) -> Results:
        quiet, reuse = Console(quiet=True), Execution(reuse=out)
        return execute(f"other/{name}", "full", asked, 2, tmp_path / "new", quiet, reuse)

    assert lanes_run(other("same", plan())) == []
    assert lanes_run(other("shorter", plan().shortened(segments=1))) == [0, 1, 2, 3]


def test_an_interrupted_run_resumes_with_the_same_groups(
    out: Path, small: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the first of its groups: the others are those that it would have had."""

    def stopping(jobs, execution, on_done, console) -> None:
        run_all(jobs[:1], execution, on_done, console)
        raise Stopped(15)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "run_all", stopping)
        with pytest.raises(Stopped):
            said_and_run(out, 5, execution=Execution(lanes_per_group=2))
    said_and_run(out, 3)  # finished in between: its lanes are not looked for again
    said, results = said_and_run(out, 5)
    assert "taken over" not in said
    groups = [event["lanes"] for event in events(results.path) if event["event"] == "started"]
    assert groups == [[2, 3], [4], [7, 8], [9]]
    assert results.finished
    assert of(results, "TD", (0, 1)).equals(of(small, "TD", (0, 1)))


def test_sweeps_grow_by_seeds_and_by_settings(tmp_path: Path) -> None:
    narrow = plan().with_grid("TD", "lr", (0.1, 0.2)).with_grid("PT-TD", "permanent_lr", (0.1,))
    narrow = narrow.with_grid("PT-TD", "transient_lr", (0.3,))
    wide = narrow.with_grid("TD", "lr", (0.05, 0.2, 0.1))

    def swept(asked: Plan, seeds: int) -> Results:
        metrics = get(NAME).primary_metrics
        return sweep(NAME, "smoke", asked, metrics, range(1000, 1000 + seeds), tmp_path, Console(quiet=True))

    first, second = swept(narrow, 1), swept(wide, 2)
    assert len(lanes_run(first)) == 3
    assert len(second.lanes) == 8
    assert len(lanes_run(second)) == 5
    shared = first.lanes.drop("lane").join(
        second.lanes.drop("lane"), on=first.lanes.drop("lane").columns, nulls_equal=True
    )
    assert len(shared) == 3


def test_time_of_lanes_goes_with_them(out: Path) -> None:
    there = lane_seconds(the_small(out).path)
    assert sorted(there) == [0, 1, 2, 3]
    assert all(one.wall > 0 and one.cpu > 0 for one in there.values())
    _, results = said_and_run(out, 3)
    here = lane_seconds(results.path)
    assert sorted(here) == list(range(6))
    for lane, number in ((0, 0), (1, 1), (2, 3), (3, 4)):
        assert here[number] == pytest.approx(there[lane], abs=1e-3)


def test_time_is_summed_over_processes_and_shared_by_lanes(tmp_path: Path) -> None:
    lines = [
        {
            "event": "started",
            "group": 0,
            "lanes": [4, 5],
            "windows": 0,
            "of": 8,
            "wall_seconds": 0.5,
            "cpu_seconds": 1.0,
        },
        {"event": "progress", "group": 0, "windows": 3, "of": 8, "wall_seconds": 10.0, "cpu_seconds": 18.0},
        {"event": "started", "group": 1, "lanes": [6], "windows": 0, "of": 4, "wall_seconds": 0.0, "cpu_seconds": 0.0},
        {
            "event": "resumed",
            "group": 0,
            "lanes": [4, 5],
            "windows": 2,
            "of": 8,
            "wall_seconds": 1.0,
            "cpu_seconds": 1.0,
        },
        {"event": "done", "group": 0, "windows": 8, "of": 8, "wall_seconds": 20.0, "cpu_seconds": 30.0},
        {"event": "stopped", "group": 1, "windows": 1, "of": 4, "wall_seconds": 7.0, "cpu_seconds": 8.0},
        {"event": "started", "group": 2, "lanes": [7], "windows": 0, "of": 4, "wall_seconds": 9.0, "cpu_seconds": 9.0},
    ]
    directory = Directory(tmp_path)
    for line in lines:
        directory.log(**line)  # type: ignore[arg-type]
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"event": "pro')  # cut off by a crash
    half = Seconds(15.0, 24.0)
    assert lane_seconds(tmp_path) == {4: half, 5: half, 6: Seconds(28.0, 32.0)}
