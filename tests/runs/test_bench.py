"""Every benchmark runs from end to end at its smallest size. Speeds are not judged here: the machine decides them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from remanence.bench import BENCHMARKS, SMOKE_REMARK
from remanence.cli import main


def smoke(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The rows of a benchmark by their labels, from what the command prints."""
    assert main(["bench", name, "--smoke", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"name", "rows", "remark"}
    assert (printed["name"], printed["remark"]) == (name, SMOKE_REMARK)
    rows = {row["label"]: row for row in printed["rows"]}
    assert len(rows) == len(printed["rows"]), "two rows have the same label"
    for label, row in rows.items():
        assert set(row) == {"label", "value", "unit", "note"}
        assert math.isfinite(row["value"]), label
        assert row["value"] > 0 or row["unit"] == "return", label
    return rows


def test_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("prediction", capsys)
    ways = ("engine", "engine, one curve", "Numba", "NumPy, usual", "NumPy, lean")
    for agent in ("TD", "PT-TD"):
        assert {rows[f"{agent}: {way}"]["unit"] for way in ways} == {"steps/s"}
        errors = [rows[f"{agent}: {way}, error"]["value"] for way in ways]
        assert max(errors) < 1.5 * min(errors), "all ways live the same lives"
        for other in ways[2:]:
            ratio = rows[f"{agent}: engine"]["value"] / rows[f"{agent}: {other}"]["value"]
            assert rows[f"{agent}: engine / {other}"]["value"] == pytest.approx(ratio)


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


def test_deep(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("deep", capsys)
    peak = rows["matrix product 64×64, all cores"]["value"]
    for name in ("DQN, Jelly Bean size", "PT-DQN, two rooms"):
        reached = rows[f"{name}: useful work"]["value"] / rows[f"{name}: a step of a lane"]["value"]  # GFLOP/s
        assert rows[f"{name}: share of the matrix product"]["value"] == pytest.approx(100 * reached / peak)
        assert rows[f"{name}: memory of a lane"]["unit"] == "MiB"


def test_jellybean(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("jellybean", capsys)
    for rules in ("paper", "released"):
        assert rows[f"{rules}: known terrain"]["value"] > rows[f"{rules}: new terrain, a straight walk"]["value"]
    assert rows["one call of 2 lanes over known terrain"]["unit"] == "µs"
    shared = 100 * rows["DQN, 2 lanes, all cores"]["value"] / rows["Random, 2 lanes, all cores"]["value"]
    assert rows["DQN: share of the world in the time"]["value"] == pytest.approx(shared)
    assert rows["DQN: replay buffer of a lane"]["unit"] == "MiB"


def test_minatar(capsys: pytest.CaptureFixture[str]) -> None:
    rows = smoke("minatar", capsys)
    ratio = rows["breakout: engine, 8 lanes"]["value"] / rows["breakout: original"]["value"]
    assert rows["breakout: engine / original"]["value"] == pytest.approx(ratio)
    assert rows["the same: engine / original"]["unit"] == "×"
    assert rows["Random, 2 lanes, all cores"]["unit"] == "lane-steps/s"


def test_the_table_says_that_the_numbers_mean_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "theory", "--smoke"]) == 0
    assert SMOKE_REMARK in " ".join(capsys.readouterr().out.split())


def test_every_benchmark_is_tested() -> None:
    assert all(f"test_{name}" in globals() for name in BENCHMARKS)
