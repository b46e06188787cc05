"""The archive: finished lanes of runs, small, complete and readable; drawn without running anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from one_group import events
from remanence import load_policy
from remanence.cli import main
from remanence.core.errors import Stopped, UserError
from remanence.experiments import REGISTRY, base, get
from remanence.results.archive import ARCHIVE, origin
from remanence.results.log import lane_seconds
from remanence.results.store import Results, load
from remanence.runs import run as runs
from remanence.runs.checking import check_run, find_all
from remanence.runs.execution import Execution
from remanence.runs.executors import run_all
from remanence.runs.run import execute

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import archive as archiving

NAME = "figure3/tabular"
ALL = ["Q", "Q-reset", "PT-Q"]
MEGABYTES = 12


def run(out: Path, seeds: int, execution: Execution = Execution()) -> Results:
    return execute(NAME, "smoke", get(NAME).plan("smoke"), seeds, out, Console(quiet=True), execution)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run(tmp_path_factory.mktemp("runs"), 3)


@pytest.fixture(scope="module")
def small_archive(finished: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    archiving.archive(finished.path, folder, "abc1234")
    return folder


def test_a_copy_has_everything_but_the_noise(finished: Results, small_archive: Path) -> None:
    (path,) = find_all(small_archive)
    assert check_run(path).problems == []
    copy = load(path)
    assert copy.finished
    assert path.name == finished.path.name
    assert copy.curves.equals(finished.curves)
    assert copy.lanes.equals(finished.lanes)
    assert {file.name for file in path.iterdir()} == {
        *("description.json", "manifest.json", "log.jsonl", "policies"),
        *(f"{name}.parquet" for name in ("lanes", "curves", "maps") if len(getattr(finished, name))),
    }
    assert [event["event"] for event in events(path)] == ["taken", "archived"]
    about = origin(copy)
    assert about.commit == "abc1234"
    assert about.hours == pytest.approx(sum(one.wall for one in lane_seconds(finished.path).values()) / 3600, abs=1e-5)
    assert about.cores >= 1


def test_policies_of_a_copy_have_half_the_precision(finished: Results, small_archive: Path) -> None:
    (path,) = find_all(small_archive)
    lane = finished.lane("PT-Q", 0)
    exact, half = (load_policy(one / "policies" / f"{lane}.npz") for one in (finished.path, path))
    values, rounded = (np.array([policy.values(state)["value"] for state in range(20)]) for policy in (exact, half))
    np.testing.assert_allclose(rounded, values, atol=2e-3)
    assert not np.array_equal(rounded, values)


def test_large_policies_are_left_out(finished: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "MAX_POLICY", 10)
    assert not (archiving.archive(finished.path, tmp_path) / "policies").exists()


def test_a_run_takes_lanes_over_from_the_archive(finished: Results, small_archive: Path, tmp_path: Path) -> None:
    grown = run(tmp_path, 4, Execution(reuse=small_archive))
    started = [lane for event in events(grown.path) if event["event"] == "started" for lane in event["lanes"]]
    assert sorted(started) == [3, 7, 11, 15]  # the new seed of each agent
    for name in ALL:
        there, here = (one.curves.filter(pl.col("lane") == one.lane(name, 2)).drop("lane") for one in (finished, grown))
        assert here.equals(there)


def test_nothing_is_taken_over_from_rounded_curves(finished: Results, tmp_path: Path) -> None:
    copy = load(archiving.archive(finished.path, tmp_path / "archive", digits=3))
    values = [one.curves["value"].to_numpy() for one in (finished, copy)]
    np.testing.assert_allclose(values[1], values[0], rtol=6e-3)
    assert len(set(values[1].tolist())) < len(set(values[0].tolist()))
    again = run(tmp_path / "runs", 3, Execution(reuse=tmp_path / "archive"))
    assert "taken" not in [event["event"] for event in events(again.path)]


def test_a_copy_may_keep_some_metrics_only(finished: Results, tmp_path: Path) -> None:
    copy = load(archiving.archive(finished.path, tmp_path / "archive", metrics=["return"]))
    assert copy.metrics == copy.description["metrics"] == ["return"]
    assert copy.curves.equals(finished.curves.filter(pl.col("metric") == "return"))
    again = run(tmp_path / "runs", 3, Execution(reuse=tmp_path / "archive"))
    assert "taken" not in [event["event"] for event in events(again.path)]
    with pytest.raises(UserError, match="has no reward, only discounted_return, "):
        archiving.archive(finished.path, tmp_path / "archive", metrics=["reward"])


@pytest.mark.parametrize(
    ("groups", "agents", "seeds"), [(1, ["Q"], [0, 1]), (3, ["Q", "Q-reset"], [0, 1]), (4, ALL[:2], [0, 1, 2])]
)
def test_of_an_unfinished_run_the_largest_complete_part_is_archived(
    groups: int, agents: list[str], seeds: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of two lanes: Q 0 and 1, Q 2, Q-reset 0 and 1, Q-reset 2, …; the run stops after some of them."""

    def stopping(jobs, execution, on_done, console) -> None:
        run_all(jobs[:groups], execution, on_done, console)
        raise Stopped(15)

    monkeypatch.setattr(runs, "run_all", stopping)
    with pytest.raises(Stopped):
        run(tmp_path / "runs", 3, Execution(lanes_per_group=2))
    (path,) = find_all(tmp_path / "runs")
    copy = load(archiving.archive(path, tmp_path / "archive"))
    assert copy.finished
    assert (copy.contenders, copy.seeds) == (agents, seeds)
    assert copy.lanes["lane"].to_list() == list(range(len(agents) * len(seeds)))


def test_lanes_of_a_group_that_is_not_finished_are_archived(finished: Results, tmp_path: Path) -> None:
    """As if the run had stopped in its last group: two of its three lanes are complete, in the group's own tables."""
    import shutil

    from remanence.results.directory import Directory, RunDirectory

    description = {key: value for key, value in finished.description.items() if key != "format"}
    directory = RunDirectory(tmp_path / "runs", description)
    group = Directory(directory.path / "groups" / "0002")
    last = [finished.lane("PT-Q", seed) for seed in (0, 1)]
    with directory.opened():
        group.make()
        for place, keep in ((directory, pl.col("lane") < 6), (group, pl.col("lane").is_in(last))):
            place.add(
                {
                    name: getattr(finished, name).filter(keep)
                    for name in ("lanes", "curves", "maps")
                    if len(getattr(finished, name))
                }
            )
        (group.path / "policies").mkdir()
        shutil.copy(finished.path / "policies" / f"{last[0]}.npz", group.path / "policies")
    copy = load(archiving.archive(directory.path, tmp_path / "archive"))
    assert (copy.contenders, copy.seeds) == (ALL, [0, 1])
    assert (copy.path / "policies" / f"{copy.lane('PT-Q', 0)}.npz").exists()


def test_a_larger_run_replaces_the_smaller_one_and_keeps_its_commits(finished: Results, tmp_path: Path) -> None:
    """Q alone with two seeds, then all agents with three: two lanes come from the archive."""
    to, plan = tmp_path / "archive", get(NAME).plan("smoke").select(["Q"])
    small = execute(NAME, "smoke", plan, 2, tmp_path / "small", Console(quiet=True))
    first = archiving.archive(small.path, to, "abc1234")
    rounded = archiving.archive(finished.path, to, "abc1234", digits=3)
    grown = run(tmp_path / "runs", 3, Execution(reuse=to))
    second = archiving.archive(grown.path, to, "def5678")
    assert set(find_all(to)) == {rounded, second}
    assert first not in find_all(to)
    assert origin(load(second)).commit == "abc1234, def5678"


def test_nothing_to_archive_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(*_: object) -> None:
        raise Stopped(15)

    monkeypatch.setattr(runs, "run_all", stopping)
    with pytest.raises(Stopped):
        run(tmp_path / "runs", 1)
    with pytest.raises(UserError, match="has no finished lane yet"):
        archiving.archive(find_all(tmp_path / "runs")[0], tmp_path / "archive")


def test_the_report_shows_archived_runs_and_ones_own_beside_them(
    small_archive: Path, finished: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "ARCHIVE", small_archive)
    out, to = str(finished.path.parents[2]), tmp_path / "report"
    assert main(["report", NAME, "--archive", "--out", out, "--to", str(to)]) == 0
    page = (to / "index.html").read_text()
    title = get(NAME).title
    archived, own = (
        page.index(f"<h2>{title} (archived, preset smoke)"),
        page.index(f"<h2>{title} (your run, preset smoke)"),
    )
    assert archived < own
    assert main(["report", NAME, "--archive", "--out", str(tmp_path / "none"), "--to", str(to)]) == 0
    assert "your run" not in (to / "index.html").read_text()


def test_show_tells_of_an_archived_run(
    small_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(base, "ARCHIVE", small_archive)
    assert main(["show", NAME, "--archive", "--json", "--out", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["preset"], shown["seeds"]) == ("smoke", 3)
    assert main(["show", "figure2/tabular", "--archive", "--out", str(tmp_path)]) == 0
    assert "Not run yet" in capsys.readouterr().out


def test_the_archive_of_the_package_is_sound_and_small() -> None:
    found = find_all(ARCHIVE)
    assert found
    for path in found:
        checked = check_run(path)
        assert (checked.problems, checked.notices) == ([], []), path
        results = load(path)
        assert results.finished
        assert results.preset in REGISTRY[results.experiment].plans
    assert sum(file.stat().st_size for file in ARCHIVE.rglob("*") if file.is_file()) < MEGABYTES * 1e6
