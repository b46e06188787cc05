"""Sweeps in the user's own environment."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import remanence
from remanence import Search
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.live_env import LiveSweep, load_results
from remanence.results.directory import hash_of
from scripted import Corridor

STEPS = 300


def sweep(agents: object, out: Path | None = None) -> LiveSweep:
    given = {"seeds": 2, "tuning_seeds": 3, "window": 50, "metric": "reward_rate", "progress": False}
    return remanence.live_sweep(agents, Corridor, STEPS, out=out, **given)  # type: ignore[arg-type]


def test_the_best_setting_is_chosen_on_tuning_seeds_and_reported_on_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = Search("Q", lr=[0.0, 0.5], epsilon=[0.1])
    agents = {"Q": search, "Random": "Random"}
    found = sweep(agents, tmp_path)
    q = found.table.filter(pl.col("contender") == "Q")
    assert sorted(zip(q["lr"], q["seed"], strict=True)) == [
        (lr, seed) for lr in (0.0, 0.5) for seed in (1000, 1001, 1002)
    ]
    means = dict(q.group_by("lr").agg(pl.col("auc_reward_rate").mean()).iter_rows())
    assert means[0.5] > means[0.0], "an agent that does not learn hardly ever arrives"
    assert found.settings == {"Q": {"lr": 0.5, "epsilon": 0.1}, "Random": {}}
    assert found.selection["Q"][0]["hypers"] == found.settings["Q"]
    assert 0.5 < found.selection["Q"][0]["wins"] <= 1.0
    assert [one["hypers"]["lr"] for one in found.selection["Q"]] == [0.5, 0.0], "also the one that never wins"
    assert found.results.compare("Q", "Random").metric == "reward_rate"
    assert found.results.summary().rows()[0]["metric"] == "reward_rate"
    assert found.results.seeds == [0, 1]
    assert found.results.description["contenders"]["Q"]["config"]["lr"] == 0.5
    assert "Q: lr=0.5, epsilon=0.1; it wins 100% of the resampled tuning seeds" in repr(found)

    again = sweep(agents, tmp_path)
    assert again.results.path == found.results.path
    assert again.table.equals(found.table)
    in_memory = sweep(search)
    assert in_memory.settings == {"Q": found.settings["Q"]}
    rows = found.results.curves.filter(pl.col("lane").is_in([0, 1]))
    assert in_memory.results.curves.equals(rows)
    (run,) = (tmp_path / "sweep" / "own").iterdir()
    assert main(["show", str(run)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "reward_rate (AUC)" in shown[1]
    assert shown[2].split()[:3] == ["Q", "lr=0.5", "epsilon=0.1"]
    assert shown[2].split()[-1] == "chosen"
    assert "chosen" not in shown[3]
    assert main(["check", str(run)]) == 0
    assert hash_of(load_results(run).description) == run.name, "the choice is not in the hash"
    assert main(["report", str(run), "--to", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.index("<td>Q lr=0.5") < page.index("<td>chosen</td>") < page.index("<td>Q lr=0 ")


def test_values_that_are_no_numbers() -> None:
    found = sweep(Search("PT-Q", transient_half_life=[100, None], transient_lr=[0.0, 0.3]))
    chosen = found.settings["PT-Q"]
    assert chosen["transient_lr"] == 0.3
    assert chosen["transient_half_life"] in (100, None)
    assert sorted(found.table["transient_half_life"]) == ["100"] * 6 + ["None"] * 6
    config = found.results.description["contenders"]["PT-Q"]["config"]
    assert config["transient_half_life"] == chosen["transient_half_life"]
    assert "PT-Q: transient_lr=0.3, transient_half_life=" in repr(found)


@pytest.mark.parametrize(
    ("agents", "options", "says"),
    [
        ("Q", {}, "nothing to search"),
        (Search("Q", rate=[0.1]), {}, "unknown field of Q 'rate'"),
        (Search("Q", lr=[0.1]), {"tuning_seeds": [1, 2]}, r"overlap \(seed 1\)"),
        (Search("Q", lr=[0.1]), {"metric": "episodes"}, "the objective of a sweep is return or reward_rate"),
        (Search("Q", lr=[-1.0]), {}, "lr must be"),
    ],
)
def test_mistakes_are_named_before_anything_runs(agents: object, options: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        remanence.live_sweep(agents, Corridor, STEPS, seeds=2, progress=False, **options)


def test_a_search_needs_lists() -> None:
    with pytest.raises(UserError, match="give a list of values to search for lr"):
        Search("Q", lr=0.1)  # type: ignore[arg-type]
