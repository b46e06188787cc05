"""Sweeps: what is run, what is chosen, how sure the choice is, and that nothing is done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from charts import spec
from made_up import made_up_sweep
from remanence.agents.base import hypers_of, program_of
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.experiments import get
from remanence.report.panels.sensitivity import against_paper, sensitivity
from remanence.report.tables import selection_table
from remanence.results.store import load
from remanence.runs import executors as crew
from remanence.runs import sweep
from remanence.runs.jobs import settings
from remanence.runs.progress import messages
from remanence.runs.sweep import best_settings, check_disjoint, win_shares
from remanence.runs.worker import GroupJob

GRID = ("--grid", "Q.lr=0.5,0.1", "Q-reset.lr=0.1", "PT-Q.permanent_lr=0.01,0.1", "PT-Q.transient_lr=0.5")


def table(aucs: dict[float, list[float]], diverged: tuple[float, ...] = ()) -> pl.DataFrame:
    """One contender with one hyper-parameter: {setting: area per seed}."""
    return pl.DataFrame(
        [
            {"contender": "A", "seed": seed, "lr": lr, "auc_return": area, "diverged": lr in diverged, "lane": 0}
            for lr, of_setting in aucs.items()
            for seed, area in enumerate(of_setting)
        ]
    )


def test_the_best_mean_wins_and_a_diverged_setting_never_does() -> None:
    aucs = {0.1: [1.0, 2.0], 0.2: [3.0, 1.0], 0.3: [9.0, 9.0]}
    assert best_settings(table(aucs), "return") == {"A": {"lr": 0.3}}
    assert best_settings(table(aucs, diverged=(0.3,)), "return") == {"A": {"lr": 0.2}}
    errors = table(aucs).rename({"auc_return": "auc_regret"})
    assert best_settings(errors, "regret") == {"A": {"lr": 0.1}}  # of an error, the least


def test_a_winner_by_luck_is_seen_as_such() -> None:
    sure = win_shares(table({0.1: [1.0, 1.1, 0.9], 0.2: [5.0, 5.1, 4.9]}), "return")["A"]
    assert sure == [{"hypers": {"lr": 0.2}, "wins": 1.0}]
    rng = np.random.default_rng(0)
    alike = win_shares(table({lr: rng.normal(size=20).tolist() for lr in (0.1, 0.2)}), "return")["A"]
    assert 0.05 < alike[-1]["wins"] < 0.5 <= alike[0]["wins"]
    assert sum(one["wins"] for one in alike) == pytest.approx(1.0)


def test_the_table_shows_the_setting_that_was_chosen_though_another_wins_more_often() -> None:
    """0.1 has the best mean, 4 against 3.98; each of the others beats it wherever its one bad seed is not drawn."""
    others = {0.2 + place / 10: [3.1 if seed == place else 4.2 for seed in range(5)] for place in range(4)}
    aucs = table({0.1: [4.0] * 5, **others})
    chosen, shares = best_settings(aucs, "return"), win_shares(aucs, "return")
    assert chosen == {"A": {"lr": 0.1}}
    assert shares["A"][0]["hypers"] != chosen["A"]
    (wins,) = (one["wins"] for one in shares["A"] if one["hypers"] == chosen["A"])
    cells = {str(column.header): str(next(iter(column.cells))) for column in selection_table(chosen, shares).columns}
    assert (cells["chosen"], cells["wins"]) == ("lr 0.1", f"{wins:.0%}")
    assert "lr 0.1 " not in cells["else"]


def test_win_shares_by_hand() -> None:
    """Two seeds, each preferring another setting: of the four draws (0,0) goes to one, (1,1) and the mixed ones to the other."""
    shares = {
        one["hypers"]["lr"]: one["wins"] for one in win_shares(table({0.1: [1.0, 0.0], 0.2: [0.0, 1.5]}), "return")["A"]
    }
    assert shares[0.2] == pytest.approx(0.75, abs=0.05)
    assert shares[0.1] == pytest.approx(0.25, abs=0.05)


def test_every_combination_is_tried() -> None:
    contender = get("figure3/tabular").plan("paper").contenders["PT-Q"]
    tried = settings(contender)
    assert len(tried) == len({hypers_of(one) for one in tried}) == 8 * 6
    cells = get("figure4").plan("paper").contenders
    assert len(cells) == 51  # Q, 25 cells and their controls
    assert len({program_of(one.config) for one in cells.values()}) == 6  # one program per k, and Q's


def test_one_field_at_a_time_is_a_cross_through_the_agents_own_setting() -> None:
    plan = get("figure5/jellybean").plan("released").one_at_a_time()
    pt = plan.contenders["PT-DQN"]
    found = {(one.permanent_lr, one.transient_lr, one.decay) for one in settings(pt)}
    permanent = {(value, 1e-3, 0.75) for value in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)}
    transient = {(1e-7, value, 0.75) for value in (1e-2, 1e-3, 1e-4, 1e-5)}
    assert found == permanent | transient | {(1e-7, 1e-3, value) for value in (0.55, 0.75, 0.95)}
    assert len(settings(pt)) == len(found) == 10
    assert not plan.contenders["DQN"].one_at_a_time  # it has one field
    assert [one.lr for one in settings(plan.contenders["DQN"])] == [1e-2, 1e-3, 1e-4, 1e-5]
    assert settings(plan.contenders["Random"]) == [plan.contenders["Random"].config]


def test_a_cross_is_a_part_of_the_whole_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sensitivity experiment on the cross; then the whole grid of PT-Q takes its lanes over."""
    grid = ("PT-Q.permanent_lr=0.01,0.1", "PT-Q.transient_lr=0.5,0.1")
    where = ("--preset", "smoke", "--contenders", "PT-Q", "--out", str(tmp_path))
    chosen = ("figure3/tabular", "--tuning-seeds", "2", "--seeds", "1", "--grid", *grid, *where)
    assert main(["sweep", *chosen, "--one-at-a-time", "--json"]) == 0
    cross = load(json.loads(capsys.readouterr().out)["sweep"])
    assert cross.finished
    own = get("figure3/tabular").plan("smoke").contenders["PT-Q"].config
    columns = cross.lanes.select("permanent_lr", "transient_lr").unique().rows()
    single = {(0.01, own.transient_lr), (0.1, own.transient_lr), (own.permanent_lr, 0.5), (own.permanent_lr, 0.1)}
    assert {tuple(np.round(row, 6)) for row in columns} == single
    how = get("appendix/sensitivity-control").provenance(cross)
    assert "one field searched at a time" in how.changed
    assert "--one-at-a-time" in how.command("appendix/sensitivity-control", "smoke", "figure3/tabular")
    assert main(["sweep", *chosen, "--json"]) == 0
    out = capsys.readouterr()
    whole = load(json.loads(out.out)["sweep"])
    assert whole.finished
    shared = {(p, t) for p, t in single if p in (0.01, 0.1) and t in (0.5, 0.1)}
    assert f"{2 * len(shared)} lanes are taken over" in " ".join(out.err.split())


def test_only_what_searches_searches_one_field_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "figure3/tabular", "--one-at-a-time"]) == 2
    assert "searches nothing" in capsys.readouterr().err


def test_seeds_that_choose_do_not_report() -> None:
    check_disjoint(range(1000, 1030), range(30))
    with pytest.raises(UserError, match=r"overlap \(seed 20\)"):
        check_disjoint(range(20, 50), range(30))


def test_sweep_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings run on tuning seeds, winners on reporting seeds; cut off and started again, only what is missing is run."""
    call = [
        "sweep",
        "figure3/tabular",
        "--preset",
        "smoke",
        "--tuning-seeds",
        "4",
        *GRID,
        "--out",
        str(tmp_path),
        "--json",
    ]
    live, lived = crew.live, []

    def interrupted(work: GroupJob, *arguments: Any) -> None:
        if lived:
            raise KeyboardInterrupt
        lived.append(work.group)
        live(work, *arguments)

    monkeypatch.setattr(crew, "live", interrupted)
    assert main([*call, "--lanes-per-group", "8"]) == 130
    kept = load(next((tmp_path / "sweep/figure3/tabular").iterdir()))
    assert len(kept.lanes) == 8
    assert not kept.finished
    monkeypatch.setattr(crew, "live", live)
    capsys.readouterr()
    assert main(call) == 0
    result = json.loads(capsys.readouterr().out)
    whole = load(next((tmp_path / "sweep/figure3/tabular").iterdir()))
    assert whole.finished
    assert (
        whole.lanes["lane"].n_unique() == len(whole.lanes) == 6 * 4
    )  # 5 settings and the control × 4 seeds, none twice
    assert (
        whole.lanes.filter(pl.col("lane").is_in(kept.lanes["lane"].to_list()))
        .select(kept.lanes.columns)
        .equals(kept.lanes)
    )
    assert set(whole.lanes["seed"]) == {1000, 1001, 1002, 1003}
    assert result["seeds"] == 3
    assert result["tuning_seeds"] == [1000, 1001, 1002, 1003]
    means = (
        whole.lanes.filter(pl.col("contender") == "Q")
        .group_by("lr")
        .agg(pl.col("auc_discounted_return").mean())
        .sort("auc_discounted_return")
    )
    assert result["contenders"]["Q"]["hypers"]["lr"] == means["lr"][-1]
    assert result["contenders"]["PT-Q"]["selection"][0]["wins"] >= 0.5

    assert main([*call[:-1], "--tuning-from", "1"]) == 2
    assert "overlap" in capsys.readouterr().err


def test_a_sweep_lane_is_the_same_life_as_in_a_run(tmp_path: Path) -> None:
    plan = get("figure3/tabular").plan("smoke").select(["Q"]).with_grid("Q", "lr", (0.5,))
    swept = sweep.sweep("figure3/tabular", "smoke", plan, ("discounted_return",), range(3), tmp_path, messages())
    assert main(["run", "figure3/tabular", "--preset", "smoke", "--contenders", "Q", "--out", str(tmp_path)]) == 0
    run = load(next((tmp_path / "figure3/tabular").iterdir()))
    np.testing.assert_allclose(
        swept.lanes.sort("seed")["auc_discounted_return"], run.matrix("Q", "discounted_return").mean(axis=1), rtol=1e-6
    )


def test_a_contender_without_a_search_has_no_sensitivity() -> None:
    searched = [({"lr": 0.1}, [1.0, 2.0]), ({"lr": 0.2}, [1.0, 1.5])]
    results = made_up_sweep({"Q": searched, "PT-Q without consolidation": [({}, [1.0, 1.0])]})
    panels = spec(sensitivity(results, "reward_rate", "t"))["hconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["Q"]


def test_every_contender_and_decay_has_its_points_in_the_sensitivity_figure() -> None:
    results = made_up_sweep(
        {
            "DQN": [({"lr": 0.1}, [1.0, 2.0]), ({"lr": 0.2}, [2.0, 3.0])],
            "PT-DQN": [
                ({"permanent_lr": 0.1, "transient_lr": lr, "decay": decay}, [lr, decay])
                for lr in (0.3, 0.4)
                for decay in (0.5, 0.9)
            ],
        }
    )
    chart = spec(sensitivity(results, "reward_rate", "t"))
    points = {panel["title"]["text"]: len(panel["data"]["values"]) for panel in chart["hconcat"]}
    assert points == {"DQN": 2, "PT-DQN, λ = 0.5": 2, "PT-DQN, λ = 0.9": 2}
    assert len(chart["title"]["subtitle"]) == 1, "nothing is left out"


def test_the_paper_s_values_are_on_the_horizontal_axis() -> None:
    results = made_up_sweep({"DQN": [({"lr": 0.1}, [1.0, 2.0])]})
    chart = spec(against_paper(results, "reward_rate", {("DQN", (0.1,)): 1.25}, "t"))
    points = next(layer for layer in chart["layer"] if layer["mark"]["type"] == "point")
    x, y = (points["encoding"][axis]["field"] for axis in ("x", "y"))
    assert [(row[x], row[y]) for row in points["data"]["values"]] == [(1.25, 1.5)]
