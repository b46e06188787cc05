"""Tables on disk, summaries, intervals and claims."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from remanence import __version__
from remanence.core.errors import UserError
from remanence.results import claims
from remanence.results.directory import RunDirectory
from remanence.results.store import Results, find_runs, load
from remanence.results.summary import auc, segment_ends, summarise

SPAN = 2


def description(experiment: str = "toy", version: str = __version__) -> dict:
    return {
        "experiment": experiment,
        "preset": "paper",
        "stream": {"order": [0, 1], "segment_length": {"episodes": SPAN}},
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
    assert facts["auc_interval"] == pytest.approx([3.25 - 1.645 * 0.75, 3.25 + 1.645 * 0.75])
    assert facts["first"] == [4.0, 4.0]
    assert facts["last"] == [3.0, 2.0]
    first, last = segment_ends(toy, "B", "error")
    np.testing.assert_array_equal(first, [[5, 4], [6, 6]])
    np.testing.assert_array_equal(last, [[3, 2], [6, 6]])


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
    aucs = {name: auc(results, name, "error") for name in ("A", "B")}
    finding = claims.lower(results, "A", "B", aucs, "AUC")
    assert "n = 1" in finding.evidence or "one seed" in finding.evidence
    assert "1 seeds left out" in finding.evidence
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
        ([-1.0, -1.1, -0.9], claims.REPRODUCED),
        ([1.0, 1.1, 0.9], claims.NOT_REPRODUCED),
        ([-1.0, 1.0, 0.1], claims.UNDECIDED),
        ([-1.0], claims.UNDECIDED),
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
    aucs = {name: auc(toy, name, "error") for name in ("A", "B")}
    finding = claims.lower(toy, "A", "B", aucs, "AUC")
    assert "= -1.5000" in finding.evidence  # (2.5 − 3.5, 4 − 6)
    assert claims.lower(toy, "A", "C", aucs, "AUC").verdict == claims.NOT_RUN


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
