"""The final policy of the first seed of each agent that acts is part of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from one_group import PLAN, events, go, stopped, work
from remanence import load_policy, load_results
from remanence.core.archives import read_arrays
from remanence.experiments import get
from remanence.results.aside import move_aside, remove_aside
from remanence.results.log import lane_seconds
from remanence.results.store import Results
from remanence.runs.jobs import lanes_of_run
from remanence.runs.policies import keeps_policy
from remanence.runs.run import execute


def run(name: str, seeds: int, out: Path) -> Results:
    return execute(name, "smoke", get(name).plan("smoke"), seeds, out, Console(quiet=True))


def arrays(file: Path) -> dict[str, np.ndarray]:
    return {name: array for name, array in read_arrays(file, 2**30).items() if name != "about"}


def test_a_run_keeps_one_policy_of_each_agent_that_acts(tmp_path: Path) -> None:
    results = run("figure3/tabular", 2, tmp_path)
    kept = sorted(int(file.stem) for file in (results.path / "policies").glob("*.npz"))
    assert kept == [results.lane(name, 0) for name in results.contenders]
    assert {f"policies/{lane}.npz" for lane in kept} <= set(
        json.loads((results.path / "manifest.json").read_text())["files"]
    )
    for name in results.contenders:
        policy = load_results(results.path).policy(name)
        assert policy.about["seed"] == 0
        values = policy.values(np.arange(policy.spaces.states))["value"]
        visited = int(np.abs(values).sum(axis=1).argmax())
        assert values[visited].any()
        assert policy.act(visited) == values[visited].argmax()
    grown = run("figure3/tabular", 3, tmp_path)
    for name in results.contenders:
        old, new = (one.path / "policies" / f"{one.lane(name, 0)}.npz" for one in (results, grown))
        assert new.read_bytes() == old.read_bytes()


def test_agents_that_predict_or_learn_nothing_have_none(tmp_path: Path) -> None:
    assert not (run("figure2/tabular", 1, tmp_path).path / "policies").exists()
    for name in ("figure2/image", "figure2/rooms", "figure5/jellybean", "figure5/minatar", "figure3/rooms"):
        plan = get(name).plan("smoke")
        lanes = [lane for lanes in lanes_of_run(plan, [0, 1]) for lane in lanes]
        kept = {lane.contender for lane in lanes if keeps_policy(lane, plan)}
        assert kept == ({agent for agent in plan.contenders if agent != "Random"} if "figure2" not in name else set())
        assert {lane.seed for lane in lanes if keeps_policy(lane, plan)} <= {0}


@pytest.mark.parametrize("chunks", [2, 10_000])
def test_a_policy_survives_an_interruption_and_has_no_replay(chunks: int, tmp_path: Path) -> None:
    """Stopped on the way; or done, with its last checkpoint."""
    go(work(tmp_path / "calm"))
    one = stopped(tmp_path / "rough", chunks) if chunks < 10_000 else work(tmp_path / "rough")
    go(one)
    files = [path / "policies" / "0.npz" for path in (work(tmp_path / "calm").path, one.path)]
    calm, rough = map(arrays, files)
    assert calm.keys() == rough.keys()
    assert all(np.array_equal(calm[name], rough[name]) for name in calm)
    assert not any(part in name for name in calm for part in ("replay", "target", "opt_state"))
    weights = sum(array.size for array in calm.values())
    policy = load_policy(files[0])
    assert weights < 1_000
    assert policy.act(np.eye(6, dtype=bool)[2]) in range(PLAN.world.num_actions)


def test_time_of_an_interrupted_group_is_that_of_both_processes(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    first = events(one.path)[-1]
    go(one)
    log = events(one.path)
    resumed = next(event for event in log if event["event"] == "resumed")
    assert (resumed["lanes"], resumed["version"]) == ([0, 1], load_version())
    assert resumed["cores"] >= 1
    assert resumed["wall_seconds"] < first["wall_seconds"] + log[-1]["wall_seconds"]
    found = lane_seconds(tmp_path)
    assert found[0] == found[1]
    assert found[0].wall == pytest.approx((first["wall_seconds"] + log[-1]["wall_seconds"]) / 2)
    assert found[0].cpu == pytest.approx((first["cpu_seconds"] + log[-1]["cpu_seconds"]) / 2)


def load_version() -> str:
    from remanence import __version__

    return __version__


def test_clean_removes_policies_of_groups_too(tmp_path: Path) -> None:
    go(work(tmp_path))
    assert (tmp_path / "groups" / "0000" / "policies" / "0.npz").exists()
    move_aside(tmp_path)
    assert not remove_aside(tmp_path).kept
