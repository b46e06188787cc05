"""Every benchmark runs from end to end at its smallest size. Speeds are not judged here: the machine decides them."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import pytest

from remanence import bench
from remanence.bench import BENCHMARKS, SMOKE_REMARK
from remanence.cli import main

LIFE = ("world", "preset", "agent", "learner", "lanes", "lane_steps_per_second", "cpu_us_per_lane_step")


def smoke(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The rows of a benchmark by their labels, from what the command prints."""
    return smoke_lives(name, capsys)[0]


def smoke_lives(
    name: str, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, str], dict[str, Any]]]:
    """The same, and the lives by agent and learner."""
    assert main(["bench", name, "--smoke", "--json", *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"name", "rows", "remark", "lives"}
    assert (printed["name"], printed["remark"]) == (name, SMOKE_REMARK)
    rows = {row["label"]: row for row in printed["rows"]}
    assert len(rows) == len(printed["rows"]), "two rows have the same label"
    for label, row in rows.items():
        assert set(row) == {"label", "value", "unit", "note"}
        assert math.isfinite(row["value"]), label
        assert row["value"] > 0 or row["unit"] == "return", label
    for life in printed["lives"]:
        assert tuple(life) == LIFE
        who = f"{life['world']}: {life['agent']}, {life['learner']}"
        assert rows[who]["value"] == life["lane_steps_per_second"]
        assert rows[f"{who}: processor time"]["value"] == life["cpu_us_per_lane_step"]
    return rows, {(life["agent"], life["learner"]): life for life in printed["lives"]}


def check_both_learners(
    agent: str, rows: dict[str, dict[str, Any]], lives: dict[tuple[str, str], dict[str, Any]]
) -> None:
    """An agent in Jelly Bean World lives with both learners, and is compared with itself."""
    assert set(lives) == {("Random", "xla"), (agent, "native"), (agent, "xla")}
    native, xla = lives[agent, "native"], lives[agent, "xla"]
    assert native["lanes"] == xla["lanes"] == len(jax.devices())
    speed = native["lane_steps_per_second"] / xla["lane_steps_per_second"]
    assert rows[f"jellybean: {agent}, native / xla: speed"]["value"] == pytest.approx(speed)
    times = xla["cpu_us_per_lane_step"] / native["cpu_us_per_lane_step"]
    assert rows[f"jellybean: {agent}, native / xla: speed per processor time"]["value"] == pytest.approx(times)
    for learner in ("native", "xla"):
        assert rows[f"jellybean: {agent}, {learner}: share of the matrix product"]["unit"] == "%"
        assert rows[f"jellybean: {agent}, {learner}: memory of a lane"]["unit"] == "MiB"


def test_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("prediction", capsys)
    ways = ("engine", "engine, one curve", "Numba", "NumPy, usual", "NumPy, lean")
    assert {rows[f"PT-TD: {way}"]["unit"] for way in ways} == {"steps/s"}
    errors = [rows[f"PT-TD: {way}, error"]["value"] for way in ways]
    assert max(errors) < 1.5 * min(errors), "all ways live the same lives"
    for other in ways[2:]:
        ratio = rows["PT-TD: engine"]["value"] / rows[f"PT-TD: {other}"]["value"]
        assert rows[f"PT-TD: engine / {other}"]["value"] == pytest.approx(ratio)


def test_control(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("control", capsys)
    assert rows["engine: whole grid"]["note"].startswith("96 lanes")  # 48 settings, two seeds
    assert rows["engine"]["value"] == pytest.approx(
        rows["engine: steps"]["value"] / rows["engine: whole grid"]["value"]
    )
    assert rows["engine / usual loop"]["value"] == pytest.approx(rows["engine"]["value"] / rows["usual loop"]["value"])
    for who in ("engine", "usual loop"):
        assert abs(rows[f"{who}: mean discounted return, PT-Q k=10 decay=0.5"]["value"]) < 1  # goals are worth 1 and −1


def test_theory(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("theory", capsys)
    small, large = "7 states × 20 rounds × 10 starts and step sizes", "10 states × 20 rounds"
    for curve in (small, large):
        assert rows[curve]["value"] > rows[f"{curve}, again"]["value"], "only the first call compiles"
    simulated = rows["compiled simulation of one curve to three digits"]["value"]
    assert simulated < 20_000, "the simulation is timed, not its compilation"  # 10 of 2 million runs in 0.1 s
    ratio = simulated / (rows[f"{small}, again"]["value"] / 10)
    assert rows["ratio to one exact curve of the many"]["value"] == pytest.approx(ratio)


@pytest.mark.long
def test_deep(capsys: pytest.CaptureFixture[str]) -> None:
    rows, lives = smoke_lives("deep", capsys)
    peak = rows["matrix product 64×64, all cores"]["value"]
    name = "PT-DQN, two rooms"
    reached = rows[f"{name}: useful work"]["value"] / rows[f"{name}: a step of a lane"]["value"]  # GFLOP/s
    assert rows[f"{name}: share of the matrix product"]["value"] == pytest.approx(100 * reached / peak)
    assert rows[f"{name}: memory of a lane"]["unit"] == "MiB"
    check_both_learners("PT-DQN", rows, lives)
    for learner in ("native", "xla"):  # consolidation is a part of a life
        consolidation = rows[f"jellybean: PT-DQN, {learner}: processor time of consolidation"]["value"]
        assert consolidation < lives["PT-DQN", learner]["cpu_us_per_lane_step"]


@pytest.mark.long
def test_jellybean(capsys: pytest.CaptureFixture[str]) -> None:
    rows, lives = smoke_lives("jellybean", capsys)
    for rules in ("paper", "released"):
        assert rows[f"{rules}: known terrain"]["value"] > rows[f"{rules}: new terrain, a straight walk"]["value"]
    assert rows["one call of 2 lanes over known terrain"]["unit"] == "µs"
    check_both_learners("DQN", rows, lives)
    for learner in ("native", "xla"):
        shared = 100 * lives["Random", "xla"]["cpu_us_per_lane_step"] / lives["DQN", learner]["cpu_us_per_lane_step"]
        assert rows[f"jellybean: DQN, {learner}: share of the world in the time"]["value"] == pytest.approx(shared)
        assert f"jellybean: DQN, {learner}: processor time of consolidation" not in rows


@pytest.mark.long
def test_minatar(capsys: pytest.CaptureFixture[str]) -> None:
    rows, lives = smoke_lives("minatar", capsys)
    ratio = rows["breakout: engine, 8 lanes"]["value"] / rows["breakout: original"]["value"]
    assert rows["breakout: engine / original"]["value"] == pytest.approx(ratio)
    assert rows["the same: engine / original"]["unit"] == "×"
    assert set(lives) == {("Random", "xla")}


def test_live(capsys: pytest.CaptureFixture[str]) -> None:
    """One seed and two, as `live` runs them; four numbers are not bits, so they learn by XLA."""
    rows, lives = smoke_lives("live", capsys)
    each = [f"CartPole, {seeds}: DQN, xla" for seeds in ("2 seeds", "1 seed")]
    assert set(rows) == {*each, *(f"{label}: processor time" for label in each)}
    assert lives["DQN", "xla"]["lanes"] == 1


@pytest.mark.parametrize(("library", "name"), [("torch", "jellybean"), ("sb3", "minatar"), ("sb3", "live")])
def test_a_library_that_is_missing(
    library: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda _: None)
    assert main(["bench", name, "--smoke", "--against", library]) == 2
    message = capsys.readouterr().err
    assert message == f"remanence: --against {library} needs another package: pip install 'remanence[bench]'\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("jellybean", "--against", "pytorch"), "unknown library 'pytorch': did you mean 'torch'?"),
        (("prediction", "--against", "torch"), "--against torch is for the benchmarks deep, jellybean, minatar"),
        (("jellybean", "--against", "sb3"), "--against sb3 is for the benchmarks deep, minatar"),
    ],
)
def test_a_library_that_does_not_fit(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_against_torch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    rows, lives = smoke_lives("jellybean", capsys, "--against", "torch")
    assert lives["DQN", "torch"]["lanes"] == 1
    ratio = lives["DQN", "torch"]["cpu_us_per_lane_step"] / lives["DQN", "native"]["cpu_us_per_lane_step"]
    assert rows["jellybean: DQN, native / torch: speed per processor time"]["value"] == pytest.approx(ratio)


def test_the_table_says_that_the_numbers_mean_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "theory", "--smoke"]) == 0
    assert SMOKE_REMARK in " ".join(capsys.readouterr().out.split())


def test_every_benchmark_is_tested() -> None:
    assert all(f"test_{name}" in globals() for name in BENCHMARKS)
