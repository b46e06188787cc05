"""What users do with results: numbers worked by hand, on curves that are made up."""

from __future__ import annotations

import builtins
import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_up import made_up_sweep, with_curves
from remanence import load_results
from remanence.core.errors import UserError
from remanence.live_env import LiveResults
from remanence.results.archive import ARCHIVE

T4 = 2.131846786  # the 95 % quantile of Student's distribution with 4 degrees of freedom
ORDER = [0, 1, 0]  # segments of 8 steps, in windows of 3, 3 and 2 steps


def run(
    curves: dict[str, np.ndarray], metric: str = "return", diverged: tuple[int, ...] = (), **stream: Any
) -> LiveResults:
    """Results with these curves, [seeds, 9 windows] by agent; `diverged`: lanes."""
    description = {
        "experiment": "own",
        "preset": "own",
        "world": {"environments": ["Toy-v0"]},
        "stream": {"order": ORDER, "tasks": ["low", "high"], "segment_length": {"steps": 8}, **stream},
        "window": 3,
        "contenders": {name: {"hypers": {}} for name in curves},
        "seeds": list(range(len(next(iter(curves.values()))))),
    }
    found = with_curves(description, {metric: curves})
    lanes = found.lanes.with_columns(diverged=pl.col("lane").is_in(diverged))
    return LiveResults(None, description, lanes, found.curves)


def level(*values: float) -> np.ndarray:
    """[seeds, 9] curves that never change."""
    return np.repeat(np.array(values, np.float64)[:, None], 9, axis=1)


FIVE = run({"A": level(1, 2, 3, 4, 10), "B": level(0, 2, 1, 3, 6)})
RAMP = run({"A": np.arange(9.0)[None] + np.array([[0.0], [10.0]])})


def test_windows_know_their_steps() -> None:
    assert FIVE.segment_length == 3
    assert FIVE.windows == 9
    assert FIVE.ends.tolist() == [3, 6, 8, 11, 14, 16, 19, 22, 24]
    assert FIVE.switches == [3, 6]


def test_summary() -> None:
    """A: mean 4, σ² = (9 + 4 + 1 + 0 + 36) / 4 = 12.5; the middle of five values, without one at each end, is (2 + 3 + 4) / 3."""
    row = FIVE.summary().rows()[0]
    margin = T4 * math.sqrt(12.5 / 5)
    assert {name: row[name] for name in ("agent", "metric", "n", "diverged")} == {
        "agent": "A",
        "metric": "return",
        "n": 5,
        "diverged": 0,
    }
    assert row["mean"] == 4
    assert row["iqm"] == 3
    assert (row["low"], row["high"]) == pytest.approx((4 - margin, 4 + margin))


def test_summary_of_the_end() -> None:
    """The last third of 0, …, 8 is 6, 7, 8; the last tenth is one window."""
    assert RAMP.summary(last=1 / 3).rows()[0]["mean"] == 7 + 5
    assert RAMP.summary("return", last=0.1).rows()[0]["mean"] == 8 + 5
    assert "the last 10 % of each seed's curve" in str(RAMP.summary(last=0.1))
    assert "Mean over each seed's curve" in str(RAMP.summary())
    for last in (0, -1, 1.5, True, "x", float("nan")):
        with pytest.raises(UserError, match="above 0 and at most 1"):
            RAMP.summary(last=last)  # type: ignore[arg-type]


def test_intervals_end_where_the_metric_ends() -> None:
    row = run({"A": level(0.0, 1.0)}, "rmsve_current").summary().rows()[0]
    assert row["low"] == 0.0
    assert row["high"] > 1.0


def test_one_seed_has_no_interval() -> None:
    table = run({"A": level(3.0)}).summary()
    assert [table.rows()[0][name] for name in ("mean", "low", "high", "n")] == [3.0, None, None, 1]
    assert re.search(r"A +return +3 +– +3 +1 +0", str(table))
    assert "$3$" in table.to_latex()


def test_diverged_seeds_are_counted_and_left_out() -> None:
    curves = level(1, 2, 3, 4, 10)
    curves[4] = np.nan
    results = run({"A": curves, "B": level(0, 2, 1, 3, 6)}, diverged=(4,))
    row = results.summary().rows()[0]
    assert (row["mean"], row["n"], row["diverged"]) == (2.5, 4, 1)
    assert results.compare("A", "B").left_out == 1
    assert set(results.frame()["seed"].unique()) == {0, 1, 2, 3, 4}
    assert results.frame().filter(pl.col("agent") == "A")["seed"].max() == 3
    everything = results.frame(diverged=True)
    assert everything.filter("diverged")["value"].null_count() == 9
    assert not everything["value"].is_nan().any()
    assert "1 of 5 seeds diverged, not shown" in str(results.plot().to_dict())
    assert "1 of 5 seeds diverged" in results.plot(backend="matplotlib").axes[0].get_title(loc="left")


def test_failed_environments_are_told_apart_from_divergence() -> None:
    """Of A, seed 3 diverged and the environment of seed 4 failed."""
    plain = run({"A": level(1, 2, 3, 4, 10), "B": level(0, 2, 1, 3, 6)}, diverged=(3, 4))
    lanes = plain.lanes.with_columns(failed=pl.when(pl.col("lane") == 4).then(pl.lit("it broke")).otherwise(pl.lit("")))
    results = dataclasses.replace(plain, lanes=lanes)
    assert results.left_out("A") == {"diverged": 1, "environment failed": 1}
    assert results.left_out("B") == {}
    title = results.plot(backend="matplotlib").axes[0].get_title(loc="left")
    assert "mean of 3 to 5 seeds" in title
    assert "A: 1 of 5 seeds diverged, not shown" in title
    assert "A: the environment failed in 1 of 5 seeds, not shown" in title
    assert "2 seeds left out: 1 diverged, 1 environment failed" in str(results.compare("A", "B"))
    assert "In 1 of them the environment failed." in str(results.summary())
    only = dataclasses.replace(results, lanes=lanes.with_columns(diverged=pl.col("lane") == 4))
    assert "1 seed left out: environment failed" in str(only.compare("A", "B"))
    assert "diverged" not in only.plot(backend="matplotlib").axes[0].get_title(loc="left")


def test_an_agent_of_which_every_seed_diverged() -> None:
    results = run({"A": level(1, 2), "B": level(3, 4)}, diverged=(2, 3))
    row = results.summary().rows()[1]
    assert [row[name] for name in ("agent", "mean", "low", "iqm", "n", "diverged")] == ["B", None, None, None, 0, 2]
    assert "-- \\\\" in results.to_latex()
    with pytest.raises(UserError, match="no seed in which neither A nor B diverged"):
        results.compare("A", "B")
    assert "<img" in results._repr_html_()


def test_compare() -> None:
    """Differences 1, 0, 2, 1, 4: mean 1.6, σ² = (0.36 + 2.56 + 0.16 + 0.36 + 5.76) / 4 = 2.3; four are above zero, one is a tie."""
    found = FIVE.compare("A", "B")
    margin = T4 * math.sqrt(2.3 / 5)
    assert (found.mean_a, found.mean_b, found.difference, found.n) == pytest.approx((4, 2.4, 1.6, 5))
    assert (found.low, found.high) == pytest.approx((1.6 - margin, 1.6 + margin))
    assert found.improvement == 0.9
    assert found.relative == pytest.approx(1.6 / 2.4)
    assert found.effect_size == pytest.approx(1.6 / math.sqrt(2.3))
    assert found.verdict == "better"
    assert found.p is not None
    assert found.p < 0.1
    other = FIVE.compare("B", "A")
    assert (other.difference, other.improvement, other.verdict) == pytest.approx((-1.6, 0.1, "worse"))
    assert str(found).startswith(
        "A is better: A − B = +1.6 [0.1541, 3.046] in return, 4 against 2.4, +66.7 %, effect size"
    )


def test_less_error_is_better() -> None:
    found = run({"A": level(1, 2, 3, 4, 10), "B": level(0, 2, 1, 3, 6)}, "rmsve_current").compare("A", "B")
    assert (found.verdict, found.improvement) == ("worse", pytest.approx(0.1))


def test_a_metric_without_a_direction() -> None:
    assert (
        run({"A": level(1, 2, 3, 4, 10), "B": level(0, 2, 1, 3, 6)}, "episodes").compare("A", "B").verdict == "higher"
    )


def test_no_verdict_without_evidence() -> None:
    few = run({"A": level(1, 2, 3, 4), "B": level(0, 0, 0, 0)}).compare("A", "B")
    assert few.verdict == "too few seeds to judge (fewer than 5)"
    assert few.p is not None  # the numbers are there
    assert run({"A": level(1, -1, 1, -1, 1), "B": level(0, 0, 0, 0, 0)}).compare("A", "B").verdict == "undecided"
    one = run({"A": level(1), "B": level(0)}).compare("A", "B")
    assert (one.low, one.high, one.p, one.effect_size, one.relative) == (None,) * 5
    same = run({"A": level(1, 2, 3, 4, 5), "B": level(1, 2, 3, 4, 5)}).compare("A", "B")
    assert (same.difference, same.improvement, same.verdict, same.effect_size) == (0, 0.5, "undecided", None)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: FIVE.compare("A", "A"), "cannot be compared with itself"),
        (lambda: FIVE.compare("A", "C"), "unknown agent 'C'"),
        (lambda: FIVE.compare("A", "B", "retrun"), "did you mean 'return'"),
        (lambda: FIVE.summary("retrun"), "did you mean 'return'"),
        (lambda: FIVE.continual("retrun"), "did you mean 'return'"),
        (lambda: FIVE.continual().matrix("C"), "unknown agent 'C'"),
        (lambda: FIVE.plot(backend="mathplotlib"), "did you mean 'matplotlib'"),
        (lambda: FIVE.plot(smooth=10), "from 1 to 9"),
        (lambda: run({"A": level(1.0)}, order=[0, 0, 0]).continual(), "never switches to another task"),
    ],
)
def test_mistakes(call: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        call()


def test_continual() -> None:
    """One curve 0, 1, 2 | 3, 4, 5 | 6, 7, 8: after the switches it is at 3 and 6, and the first task comes back at 6, left at 2."""
    rows = {row["measure"]: row for row in RAMP.continual().rows()}
    assert rows["performance"]["mean"] == 4 + 5
    assert rows["jumpstart"]["mean"] == 4.5 + 5
    assert rows["forgetting"]["mean"] == -4
    assert (rows["transfer"]["mean"], rows["transfer"]["n"]) == (None, 0)
    assert (rows["recovery"]["unit"], rows["jumpstart"]["n"]) == ("windows", 2)


def test_task_matrix() -> None:
    """ "low" ends at 2 and 8, "high" at 5; high after low starts at 3, low after high at 6; the other seed has 10 more."""
    matrix = RAMP.continual().matrix("A")
    assert matrix.rows() == [("low", 5 + 5, 3 + 5), ("high", 6 + 5, 5 + 5)]
    assert matrix.columns == ["after", "low", "high"]


def test_task_matrix_where_a_task_never_follows_another() -> None:
    three = run({"A": np.arange(9.0)[None]}, order=[0, 1, 2], tasks=["a", "b", "a"]).continual().matrix("A")
    assert three.columns == ["after", "0: a", "1: b", "2: a"]
    assert three.rows() == [("0: a", 2, 3, None), ("1: b", None, 5, 6), ("2: a", None, None, 8)]


def test_frame() -> None:
    frame = RAMP.frame()
    assert frame.columns == ["agent", "seed", "step", "task", "metric", "value"]
    assert frame.height == 18
    assert frame.row(3) == ("A", 0, 11, "high", "return", 3.0)
    assert frame["task"].to_list()[:9] == ["low"] * 3 + ["high"] * 3 + ["low"] * 3
    pandas = RAMP.to_pandas()
    assert list(pandas.columns) == frame.columns
    assert pandas["value"].tolist() == frame["value"].to_list()


def test_frame_where_each_seed_draws_its_tasks() -> None:
    """Its own curve tells the task of each window."""
    drawn = np.array([[1.0] * 6 + [0.0] * 3, [0.0] * 3 + [1.0] * 6])
    description = {**FIVE.description, "stream": {**FIVE.description["stream"], "order": [None] * 3}, "seeds": [0, 1]}
    description["contenders"] = {"A": {"hypers": {}}}
    found = with_curves(description, {"return": {"A": level(3, 4)}, "task": {"A": drawn}})
    frame = LiveResults(None, description, found.lanes, found.curves).frame()
    assert frame["metric"].unique().to_list() == ["return"]
    assert frame.filter(pl.col("seed") == 0)["task"].to_list() == ["high"] * 6 + ["low"] * 3
    assert frame.filter(pl.col("seed") == 1)["task"].to_list() == ["low"] * 3 + ["high"] * 6


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.split(".")[0] in ("pandas", "matplotlib", "pyarrow"):
            raise ImportError(name)
        return really(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="needs pandas: pip install pandas"):
        RAMP.to_pandas()
    with pytest.raises(UserError, match="needs it: pip install matplotlib"):
        RAMP.plot(backend="matplotlib")
    assert RAMP.frame().height == 18


def test_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)
        return really(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert RAMP.to_pandas().shape == (18, 6)
    assert FIVE.summary().to_pandas()["mean"].tolist() == [4.0, 2.4]


def test_latex() -> None:
    margin = T4 * math.sqrt(12.5 / 5)
    table = run({"A_1 & λ": level(1, 2, 3, 4, 10)}).to_latex()
    assert rf"A\_1 \& $\lambda$ & $4 \pm {margin:.2g}$ \\" in table
    assert table.count("\\begin{tabular}{lr}") == table.count("\\end{tabular}") == 1


def test_smoothing_stays_within_a_task() -> None:
    """0, 1, 2 | 3, 4, 5 | 6, 7, 8 with means of two: the first window of a task stands for itself."""
    drawn = RAMP.plot(smooth=2).to_dict()
    data = next(layer["data"] for layer in drawn["layer"] if layer["mark"]["type"] == "line")
    points = data["values"] if "values" in data else drawn["datasets"][data["name"]]
    assert [point["mean"] - 5 for point in points] == [0, 0.5, 1.5, 3, 3.5, 4.5, 6, 6.5, 7.5]
    assert [point["window"] for point in points] == RAMP.ends.tolist()
    line = RAMP.plot(smooth=2, backend="matplotlib").axes[0].lines[0]
    assert (line.get_ydata() - 5).tolist() == [0, 0.5, 1.5, 3, 3.5, 4.5, 6, 6.5, 7.5]
    assert line.get_xdata().tolist() == RAMP.ends.tolist()


def test_notebooks_need_no_network() -> None:
    results = run({"A<script>alert(1)</script>": level(1, 2), "B": level(2, 3)})
    shown = results._repr_html_() + results.summary()._repr_html_() + results.continual()._repr_html_()
    assert 'src="data:image/svg+xml;base64,' in shown
    assert "<script" not in shown
    assert not re.search(r"(src|href)=.?https?:", shown)
    picture = results.plot()._repr_mimebundle_()
    assert list(picture) == ["image/svg+xml"]
    assert picture["image/svg+xml"].startswith("<svg")
    assert "<script" not in picture["image/svg+xml"]


def test_printed() -> None:
    assert str(FIVE).splitlines()[0] == "Toy-v0: 24 steps in 3 tasks, 5 seeds"
    assert str(FIVE).splitlines()[1].split() == [
        "agent",
        "metric",
        "mean",
        "90",
        "%",
        "interval",
        "iqm",
        "n",
        "diverged",
    ]
    assert "\n" not in repr(FIVE)


def test_sweeps() -> None:
    found = made_up_sweep({"Q": [({"lr": 0.1}, [1.0, 3.0]), ({"lr": 0.5}, [5.0, 5.0])]})
    results = LiveResults(None, found.description, found.lanes, found.curves)
    assert [(row["agent"], row["mean"], row["n"]) for row in results.summary().rows()] == [
        ("Q lr=0.1", 2.0, 2),
        ("Q lr=0.5", 5.0, 2),
    ]
    for call in (results.frame, results.plot, results.continual):
        with pytest.raises(UserError, match=r"no curves: use summary\(\)"):
            call()


def test_runs_of_experiments_from_disk() -> None:
    path = next(path.parent for path in sorted(Path(ARCHIVE).glob("figure3/tabular/*/description.json")))
    results = load_results(path)
    assert results.compare("PT-Q", "Q").verdict == "better"
    assert results.continual().matrix("PT-Q").shape == (2, 3)
    assert results.frame().columns == ["agent", "seed", "episode", "task", "metric", "value"]
    assert results.frame().height == results.curves.height
    assert str(results).startswith("figure3/tabular: 500 episodes in 10 tasks, 30 seeds\nagent")
