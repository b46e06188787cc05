"""Tables on disk, summaries, intervals and claims."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from charts import spec
from remanence import __version__
from remanence.core.errors import UserError
from remanence.experiments import figure3, prediction
from remanence.metrics import METRICS
from remanence.report.figures import Line, learning_curves
from remanence.report.tables import _mean_curve
from remanence.results import claims
from remanence.results.directory import RunDirectory
from remanence.results.store import Results, find_runs, load
from remanence.results.summary import at_switches, auc, segment_ends, settings_of, summarise, summarise_sweep

SEGMENT_LENGTH = 2


def description(experiment: str = "toy", version: str = __version__) -> dict:
    return {
        "experiment": experiment,
        "preset": "paper",
        "stream": {"order": [0, 1], "segment_length": {"episodes": SEGMENT_LENGTH}},
        "contenders": {"A": {"hypers": {"lr": 0.1}}, "B": {"hypers": {"lr": 0.2}}},
        "seeds": [0, 1],
        "versions": {"remanence": version},
    }


def tables(contender: str, first_lane: int, curves: np.ndarray) -> dict[str, pl.DataFrame]:
    """[seeds, windows] as the two tables."""
    lanes = first_lane + np.arange(len(curves), dtype=np.int32)
    windows = np.arange(1, curves.shape[1] + 1, dtype=np.int32)
    return {
        "lanes": pl.DataFrame(
            {
                "lane": lanes,
                "contender": contender,
                "seed": np.arange(len(curves), dtype=np.int32),
                "samples_dropped": 0,
                "diverged": ~np.isfinite(curves).all(axis=1),
            }
        ),
        "curves": pl.DataFrame(
            {
                "lane": np.repeat(lanes, len(windows)),
                "window": np.tile(windows, len(lanes)),
                "metric": "error",
                "value": curves.ravel(),
            }
        ),
    }


A = np.array([[4.0, 2.0, 3.0, 1.0], [4.0, 4.0, 5.0, 3.0]])
B = np.array([[5.0, 3.0, 4.0, 2.0], [6.0, 6.0, 6.0, 6.0]])


@pytest.fixture
def toy(tmp_path: Path) -> Results:
    directory = RunDirectory(tmp_path, description())
    directory.open()
    directory.add(tables("A", 0, A))
    directory.add(tables("B", 2, B))
    return load(directory.path)


def test_tables_come_back_as_written(toy: Results) -> None:
    assert toy.contenders == ["A", "B"]
    np.testing.assert_array_equal(toy.matrix("A", "error"), A)
    np.testing.assert_array_equal(toy.matrix("B", "error"), B)
    assert toy.switches == [2]


def test_summary_by_hand(toy: Results) -> None:
    np.testing.assert_allclose(auc(toy, "A", "error"), [2.5, 4.0])
    facts = summarise(toy)["A"]["metrics"]["error"]
    assert facts["auc_mean"] == 3.25
    assert facts["auc_se"] == pytest.approx(0.75)  # σ = 1.5/√2, divided by √2
    assert facts["auc_interval"] == pytest.approx([3.25 - 6.3138 * 0.75, 3.25 + 6.3138 * 0.75], abs=1e-4)
    assert facts["first"] == [4.0, 4.0]
    assert facts["last"] == [3.0, 2.0]
    first, last = segment_ends(toy, "B", "error")
    np.testing.assert_array_equal(first, [[5, 4], [6, 6]])
    np.testing.assert_array_equal(last, [[3, 2], [6, 6]])


def test_dropped_samples_are_counted_for_each_agent(toy: Results) -> None:
    lanes = toy.lanes.with_columns(samples_dropped=pl.Series([1, 2, 10, 20]))
    counted = summarise(dataclasses.replace(toy, lanes=lanes))
    assert [counted[name]["samples_dropped"] for name in ("A", "B")] == [3, 30]


def test_settings_of_a_sweep_are_in_order_and_lanes_by_seed(toy: Results) -> None:
    """Two settings of A with two seeds each, out of order; B has nothing to search."""
    lanes = pl.DataFrame(
        {
            "contender": ["A", "A", "B", "A", "A"],
            "seed": [1001, 1000, 1000, 1000, 1001],
            "lr": [0.5, 0.5, 0.2, 0.1, 0.1],
            "diverged": [False, True, False, False, False],
            "auc_error": [3.0, float("nan"), 7.0, 1.0, 2.0],
        }
    )
    sweep = dataclasses.replace(toy, lanes=lanes, description={**toy.description, "sweep": {"A": ["lr"], "B": []}})
    found = {
        name: [(hypers, table["auc_error"].to_list()) for hypers, table in table] for name, table in settings_of(sweep)
    }
    assert [hypers for hypers, _ in found["A"]] == [{"lr": 0.1}, {"lr": 0.5}]
    assert found["A"][0][1] == [1.0, 2.0]
    assert found["B"] == [({}, [7.0])]
    summary = summarise_sweep(sweep)
    assert list(summary) == ["A lr=0.1", "A lr=0.5", "B"]
    assert summary["A lr=0.1"]["metrics"]["error"]["auc_mean"] == 1.5
    assert (summary["A lr=0.5"]["metrics"]["error"]["auc_mean"], summary["A lr=0.5"]["diverged"]) == (3.0, [1000])


def test_diverged_lane_is_named_and_left_out(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, description())
    directory.open()
    broken = A.copy()
    broken[1, 2] = np.inf
    directory.add(tables("A", 0, broken))
    directory.add(tables("B", 2, B))
    results = load(directory.path)
    assert results.diverged("A") == [1]
    assert summarise(results)["A"]["diverged"] == [1]
    assert summarise(results)["A"]["metrics"]["error"]["auc_mean"] == 2.5
    areas = {name: auc(results, name, "error") for name in ("A", "B")}
    finding = claims.lower(results, "A", "B", areas, "AUC")
    assert finding.verdict == claims.TOO_FEW
    assert finding.evidence == (
        "AUC: A − B = -1.0000, n = 1, relative difference -28.6 %, probability of improvement 1.00 "
        "(1 seeds left out: an agent diverged)"
    )
    json.dumps(summarise(results), allow_nan=False)  # one seed left: no interval, and still valid JSON


def test_all_lanes_diverged_gives_no_number(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, description())
    directory.open()
    directory.add(tables("A", 0, np.full((2, 4), np.nan)))
    facts = summarise(load(directory.path))["A"]
    assert facts["metrics"]["error"]["auc_mean"] is None
    assert facts["diverged"] == [0, 1]


@pytest.mark.parametrize(
    ("sample", "verdict"),
    [
        ([-1.0, -1.1, -0.9, -1.0, -1.0], claims.REPRODUCED),
        ([1.0, 1.1, 0.9, 1.0, 1.0], claims.NOT_REPRODUCED),
        ([-1.0, 1.0, 0.1, 0.2, -0.1], claims.UNDECIDED),
        ([-1.0, -1.1, -0.9, -1.0], claims.TOO_FEW),
        ([-1.0], claims.TOO_FEW),
        ([], claims.NOT_RUN),
    ],
)
def test_verdict_follows_from_the_interval(sample: list[float], verdict: str) -> None:
    assert claims.is_negative(np.array(sample), "x").verdict == verdict


def test_a_claim_needs_all_its_findings() -> None:
    def verdict(*parts: str) -> str:
        return claims.claim("id", "text", *(claims.Finding(part, "") for part in parts)).verdict

    assert verdict(claims.REPRODUCED, claims.REPRODUCED) == claims.REPRODUCED
    assert verdict(claims.REPRODUCED, claims.UNDECIDED) == claims.UNDECIDED
    assert verdict(claims.UNDECIDED, claims.NOT_REPRODUCED) == claims.NOT_REPRODUCED
    assert verdict(claims.REPRODUCED, claims.NOT_RUN) == claims.NOT_RUN


def test_differences_are_paired_by_seed(toy: Results) -> None:
    areas = {name: auc(toy, name, "error") for name in ("A", "B")}
    finding = claims.lower(toy, "A", "B", areas, "AUC")  # (2.5 − 3.5, 4 − 6), standard error 0.5, t = 6.3138
    assert finding == claims.Finding(
        claims.TOO_FEW,
        "AUC: A − B = -1.5000 [-4.6569, +1.6569], n = 2, relative difference -31.6 %, probability of improvement 1.00",
    )
    assert claims.lower(toy, "A", "C", areas, "AUC") == claims.Finding(claims.NOT_RUN, "C did not run")


def run_of(**curves: dict[str, list[list[float]]]) -> Results:
    """A run in memory: metric -> contender -> [seeds, windows], segments of `SPAN` windows."""
    names = list(next(iter(curves.values())))
    seeds, windows = np.shape(next(iter(curves.values()))[names[0]])
    lanes = [
        {"lane": place * seeds + seed, "contender": name, "seed": seed, "diverged": False}
        for place, name in enumerate(names)
        for seed in range(seeds)
    ]
    rows = [
        (place * seeds + seed, window + 1, metric, by_name[name][seed][window])
        for metric, by_name in curves.items()
        for place, name in enumerate(names)
        for seed in range(seeds)
        for window in range(windows)
    ]
    asked = {
        "stream": {"order": [0, 1] * (windows // SEGMENT_LENGTH // 2), "segment_length": {"episodes": SEGMENT_LENGTH}},
        "contenders": dict.fromkeys(names),
        "seeds": list(range(seeds)),
    }
    return Results(
        None, asked, pl.DataFrame(lanes), pl.DataFrame(rows, schema=["lane", "window", "metric", "value"], orient="row")
    )


def verdicts(found: list[claims.Claim]) -> dict[str, str]:
    return {one.id: one.verdict for one in found}


def seeds_of(first: float, last: float, seeds: int = 5) -> list[list[float]]:
    """Five seeds, two segments of two episodes, each seed a little above the one before."""
    return [[first + 0.01 * seed, last + 0.01 * seed] * 2 for seed in range(seeds)]


LOW, MIDDLE, HIGH, GROWING = seeds_of(1, 1), seeds_of(3, 2), seeds_of(5, 4), seeds_of(1.0, 3.0)


def test_verdicts_on_a_prediction_panel() -> None:
    """The paper's picture, and the same with PT-TD and TD exchanged."""
    current = {"TD": MIDDLE, "TD-reset": HIGH, "PT-TD": LOW}
    others = {"TD": GROWING, "TD-reset": HIGH, "PT-TD": LOW}
    as_published = run_of(rmsve_current=current, rmsve_others=others)
    assert verdicts(prediction.claims(as_published)) == dict.fromkeys(
        (
            "current-lowest",
            "others-lowest",
            "reset-poor",
            "td-biased-after-switch",
            "td-forgets-within-task",
            "pt-starts-well",
        ),
        claims.REPRODUCED,
    )
    exchanged = run_of(
        rmsve_current={**current, "TD": LOW, "PT-TD": MIDDLE}, rmsve_others={**others, "TD": LOW, "PT-TD": GROWING}
    )
    assert verdicts(prediction.claims(exchanged)) == {
        "current-lowest": claims.NOT_REPRODUCED,
        "others-lowest": claims.NOT_REPRODUCED,
        "reset-poor": claims.REPRODUCED,
        "td-biased-after-switch": claims.NOT_REPRODUCED,
        "td-forgets-within-task": claims.UNDECIDED,  # it stays as it is
        "pt-starts-well": claims.NOT_REPRODUCED,
    }


def test_verdicts_on_a_control_panel() -> None:
    """Returns: more is better. PT-Q is at its final level at once, the others when the segment is over."""
    rising = {"Q": seeds_of(1.0, 3.0), "Q-reset": seeds_of(0.0, 4.0)}
    returns = {**rising, "PT-Q": seeds_of(5.0, 5.0)}
    found = verdicts(figure3.control_claims(run_of(discounted_return=returns)))
    assert found == {
        "pt-highest": claims.REPRODUCED,
        "reset-relearns": claims.REPRODUCED,
        "q-readjusts": claims.REPRODUCED,
        "pt-few-samples": claims.UNDECIDED,  # episodes to recover are counted in means of two: 2 for all
    }
    worse = {**returns, "PT-Q": seeds_of(0.5, 0.5)}
    found = verdicts(figure3.control_claims(run_of(discounted_return=worse)))
    assert found["pt-highest"] == found["q-readjusts"] == claims.NOT_REPRODUCED
    assert found["reset-relearns"] == claims.REPRODUCED


def test_learning_curves_show_means_bands_and_switches() -> None:
    """Two seeds, four windows: means, mean ± 6.314 s/√2 (Student's t), a rule where the second segment begins, labels."""
    results = run_of(**{"return": {"Q": [[1.0, 2, 3, 4], [3.0, 2, 5, 4]], "PT-Q": [[0.0] * 4] * 2}})
    drawn = spec(learning_curves(results, [Line("return")], "title", "episode"))
    rules, band, curve = drawn["layer"]
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["rule", "area", "line"]
    assert rules["data"]["values"] == [{"window": 2}]
    assert {(band["encoding"][one]["field"]) for one in ("y", "y2")} == {"low", "high"}
    assert (curve["encoding"]["x"]["field"], curve["encoding"]["x"]["title"]) == ("window", "episode")
    assert (curve["encoding"]["y"]["field"], curve["encoding"]["y"]["title"]) == ("mean", METRICS["return"].label)
    assert curve["encoding"]["color"]["field"] == "contender"
    assert curve["encoding"]["color"]["scale"]["domain"] == ["Q", "PT-Q"]
    rows = [row for row in curve["data"]["values"] if row["contender"] == "Q"]
    assert [(row["window"], row["mean"]) for row in rows] == [(1, 2), (2, 2), (3, 4), (4, 4)]
    np.testing.assert_allclose([row["high"] - row["mean"] for row in rows], [6.313752, 0, 6.313752, 0])
    np.testing.assert_allclose([row["mean"] - row["low"] for row in rows], [6.313752, 0, 6.313752, 0])
    assert {row["measure"] for row in rows} == {METRICS["return"].label}


def test_bands_of_an_error_do_not_go_below_zero() -> None:
    results = run_of(rmsve_current={"TD": [[1.0] * 4, [2.0] * 4]})
    rows = spec(learning_curves(results, [Line("rmsve_current")], "title", "episode"))["layer"][2]["data"]["values"]
    assert {(row["low"], row["mean"]) for row in rows} == {(0.0, 1.5)}
    assert min(row["high"] for row in rows) > 4.6
    assert summarise_auc(results) == [0.0, pytest.approx(4.6569, abs=1e-4)]


def summarise_auc(results: Results) -> list[float]:
    table = results.lanes.with_columns(samples_dropped=pl.lit(0))
    described = {**results.description, "contenders": {"TD": {"hypers": {}}}}
    found = dataclasses.replace(results, lanes=table, description=described)
    return summarise(found)["TD"]["metrics"]["rmsve_current"]["auc_interval"]


def test_drawn_orders_count_only_switches_to_another_task() -> None:
    """Five seeds, tasks 0 0 1: the value of 9 after the switch that keeps the task counts nowhere."""
    curves = {"TD": [[1.0, 2.0, 9.0, 3.0, 5.0, 4.0]] * 5}
    results = run_of(rmsve_current=curves, task={"TD": [[0.0, 0, 0, 0, 1, 1]] * 5})
    drawn = {**results.description, "stream": {**results.description["stream"], "order": [None] * 3}}
    results = dataclasses.replace(results, description=drawn)
    assert [one.tolist() for one in at_switches(results, "TD", "rmsve_current")] == [[3.0] * 5, [5.0] * 5, [4.0] * 5]


def test_same_description_same_directory_other_description_another(tmp_path: Path) -> None:
    one, again = RunDirectory(tmp_path, description()), RunDirectory(tmp_path, description(version="other"))
    other = RunDirectory(tmp_path, {**description(), "seeds": [0]})
    assert one.path == again.path != other.path


def test_run_of_another_version_is_refused_and_kept(tmp_path: Path) -> None:
    old = RunDirectory(tmp_path, description(version="0.0.1"))
    old.path.mkdir(parents=True)
    (old.path / "description.json").write_text(json.dumps(old.description))
    with pytest.raises(UserError, match=r"written by remanence 0\.0\.1"):
        RunDirectory(tmp_path, description()).open()
    assert json.loads((old.path / "description.json").read_text()) == old.description


@pytest.mark.parametrize("name", ["description.json", "lanes.parquet", "curves.parquet"])
def test_damaged_file_is_named_and_left_alone(toy: Results, name: str) -> None:
    (toy.path / name).write_bytes(b"{nonsense")
    with pytest.raises(UserError, match=f"damaged .{name}"):
        load(toy.path)
    assert (toy.path / name).read_bytes() == b"{nonsense"


def test_rows_of_a_group_cut_off_before_its_lanes_were_listed_are_dropped(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, description())
    directory.open()
    directory.add(tables("A", 0, A))
    directory.add({"curves": tables("B", 2, B)["curves"]})  # the process died here
    assert load(directory.path).contenders == ["A"]
    directory.add(tables("B", 2, B + 1))
    np.testing.assert_array_equal(load(directory.path).matrix("B", "error"), B + 1)


def test_second_writer_is_told_who_holds_the_run(toy: Results) -> None:
    directory = RunDirectory(toy.path.parent.parent, description())
    with directory.writing(), pytest.raises(UserError, match="is being written by process"), directory.writing():
        pass
    with directory.writing():
        pass  # the lock was given back


def test_runs_are_found_newest_first(tmp_path: Path) -> None:
    for seeds in ([0], [0, 1]):
        RunDirectory(tmp_path, {**description("figure2/tabular"), "seeds": seeds}).open()
    assert len(find_runs(tmp_path, "figure2/tabular")) == 2
    assert find_runs(tmp_path, "figure2/linear") == []


def test_progress_of_a_diverging_lane_is_drawn_without_it() -> None:
    """Curves so far may hold NaN: the lane will count as diverged when it is finished."""
    rows = [(lane, window, "error", value) for lane, value in ((0, 2.0), (1, np.nan)) for window in (1, 2)]
    curves = pl.DataFrame(rows, schema=["lane", "window", "metric", "value"], orient="row")
    assert _mean_curve(curves, ("error",)) == "error ▁▁ 2"
    assert _mean_curve(curves.filter(pl.col("lane") == 1), ("error",)) == "error: no finite value yet"
