"""The bench of `live`: what its table says of made-up rows, and that it goes on where it stopped. Nothing is trained here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import live_bench


def rows(agent: str, gain: float, stream: str = "recurring", seeds: int = 10) -> list[dict]:
    """Rewards per step that differ from seed to seed, and gain over DQN's that hardly do."""
    return [
        {"environment": "FrozenLake", "stream": stream, "agent": agent, "steps": 24_000, "seeds": seeds, "seed": seed}
        | {"reward_rate": 0.5 + seed / 10 + gain, "value_ratio": 1.0 + seed / 10}
        for seed in range(seeds)
    ]


def options(to: Path, **more: object) -> argparse.Namespace:
    asked = {
        "environments": ["FrozenLake"],
        "streams": ["recurring"],
        "agents": [],
        "seeds": 10,
        "share": 1.0,
        "to": to,
    }
    return argparse.Namespace(**{**asked, **more})


def test_verdicts_come_from_paired_differences() -> None:
    """The means of seeds scatter by 0.3, the gains of 0.01 are certain all the same; one of 0 is not decided."""
    found = [*rows("DQN", 0.0), *rows("PT-DQN", -0.01), *rows("PT-DQN, half-life", 0.01), *rows("other", 0.0)]
    for row in found:
        row["reward_rate"] += (-1) ** row["seed"] * (0.1 if row["agent"] == "other" else 1e-4 * len(row["agent"]))
    said = {line.split(" | ")[2]: line for line in live_bench.table(pl.DataFrame(found)).splitlines()[2:]}
    assert "| worse |" in said["PT-DQN"]
    assert "-0.01 [" in said["PT-DQN"]
    assert "| better |" in said["PT-DQN, half-life"]
    assert "| undecided |" in said["other"]
    assert said["DQN"].endswith("|  |  | 1.45 (most 1.90) |")


def test_returns_are_compared_where_all_rewards_are_equal() -> None:
    found = [*rows("DQN", 0.0), *rows("PT-DQN", 0.0)]
    for row in found:
        row |= {"environment": "CartPole", "reward_rate": 1.0, "return": 100.0 + row["seed"] + len(row["agent"])}
    said = {line.split(" | ")[2]: line for line in live_bench.table(pl.DataFrame(found)).splitlines()[2:]}
    assert "| 107.5 ± " in said["DQN"]
    assert "| +3 [" in said["PT-DQN"]


def test_only_missing_cells_are_run(tmp_path: Path) -> None:
    to = tmp_path / "bench.csv"
    everything = [one[2] for one in live_bench.missing(options(to))]
    assert everything == [
        "DQN",
        "PT-DQN, the paper's form",
        "PT-DQN",
        "PT-DQN, half-life",
        "PT-DQN, nothing forgotten",
    ]
    pl.DataFrame([*rows("DQN", 0.0), *rows("PT-DQN", 0.0, seeds=4)]).write_csv(to)
    assert [one[2] for one in live_bench.missing(options(to))] == everything[1:]  # a cell with fewer seeds is run again
    assert [
        one[2] for one in live_bench.missing(options(to, share=0.5))
    ] == everything  # of other lengths nothing is there


@pytest.mark.parametrize("name", list(live_bench.CASES))
def test_shares_of_the_benched_agents_add_up(name: str) -> None:
    steps = live_bench.steps_of(name, 1.0)
    assert steps % (20 * live_bench.SEGMENTS) == 0
    found = live_bench.agents(steps, live_bench.CASES[name].fields)
    half_life, nothing = found["PT-DQN, half-life"], found["PT-DQN, nothing forgotten"]
    assert half_life.decay == nothing.decay == pytest.approx(2 ** (-half_life.consolidate_every / (steps // 18)))
    assert half_life.absorb == pytest.approx((1 - half_life.decay) / 10)
    assert nothing.absorb == pytest.approx(1 - nothing.decay)
