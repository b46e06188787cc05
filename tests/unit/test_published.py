"""The authors' curves: the files, where they overlap with ours, and the share of points inside our interval."""

from __future__ import annotations

import dataclasses
from importlib.resources import files

import numpy as np
import polars as pl
import pytest

from charts import spec
from made_up import made_up_run, scattered, with_curves
from remanence.experiments import REGISTRY
from remanence.experiments.base import RELEASED, Experiment
from remanence.report.figures import Line, learning_curves
from remanence.report.panels.published import beside_published
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.published import Published, agreements, overlap
from remanence.results.store import Results
from remanence.runs.describe import describe
from remanence.runs.plan import Plan

WITH_CURVES = {name: one for name, one in REGISTRY.items() if one.published}
TABULAR = Published("figure2-tabular", ("paper", "smoke"), segment_length=50)


def published_mean(panel: str, agent: str, metric: str) -> np.ndarray:
    file = files("remanence.results") / "published_curves" / f"{panel}.csv.gz"
    table = pl.read_csv(file.read_bytes())
    return table.filter((pl.col("agent") == agent) & (pl.col("metric") == metric))["mean"].to_numpy()


def test_a_curve_on_the_published_one_is_inside_and_one_beside_it_is_not() -> None:
    mean = published_mean("figure2-tabular", "TD", "rmsve_current")
    (same,) = agreements(made_up_run({"TD": scattered(mean, 0.02)}), TABULAR)
    assert (same.contender, same.metric, same.preset, same.points) == ("TD", "rmsve_current", "paper", 500)
    assert same.inside == 1.0
    assert same.ours == pytest.approx(same.published)
    assert same.verdict == "published curve inside our interval: 100% of points"
    (other,) = agreements(made_up_run({"TD": scattered(mean + 0.02, 0.02)}), TABULAR)
    assert other.inside == 0.0
    assert other.ours - other.published == pytest.approx(0.02)
    half = mean + np.where(np.arange(500) < 250, 0.0, 0.02)
    (partly,) = agreements(made_up_run({"TD": scattered(half, 0.02)}), TABULAR)
    assert partly.inside == 0.5


def test_a_remark_is_about_all_curves_or_about_that_of_one_agent() -> None:
    panel = dataclasses.replace(TABULAR, remark="on all", remarks={"TD": "on TD"})
    curves = {
        name: published_mean("figure2-tabular", name, "rmsve_current")[None].repeat(3, 0) for name in ("TD", "PT-TD")
    }
    remarks = {one.contender: one.remark for one in agreements(made_up_run(curves), panel)}
    assert remarks == {"TD": "on TD", "PT-TD": "on all"}


def test_the_expected_share_is_what_two_runs_of_one_program_give() -> None:
    """The published mean and ours are both drawn around the same truth: the share inside varies around the expected one."""
    rng = np.random.default_rng(1)
    mean = published_mean("figure2-tabular", "TD", "rmsve_current")
    shares, expected = [], []
    for _ in range(20):  # the published standard error is about 0.003: so is ours
        ours = mean + rng.normal(scale=0.003, size=500) + scattered(np.zeros(500), 0.003 * np.sqrt(30))
        (one,) = agreements(made_up_run({"TD": ours}), TABULAR)
        shares.append(one.inside)
        expected.append(one.expected)
    assert np.mean(expected) < 0.9
    theirs = pl.read_csv((files("remanence.results") / "published_curves" / "figure2-tabular.csv.gz").read_bytes())
    theirs = theirs.filter((pl.col("agent") == "TD") & (pl.col("metric") == "rmsve_current"))["standard_error"]
    assert 0.001 < theirs.median() < 0.006  # type: ignore[operator]
    # Here only our mean was drawn, not theirs, so more lie inside than expected: 90 %, about.
    assert np.mean(expected) < np.mean(shares) == pytest.approx(0.9, abs=0.02)


def test_tasks_agree_in_all_segments_of_the_same_length_or_only_in_the_first() -> None:
    def points(segment_length: int, windows: int) -> int:
        results = made_up_run({"TD": np.zeros((3, windows))}, segment_length={"episodes": segment_length})
        shared = overlap(results, TABULAR, "TD", "rmsve_current")
        return len(shared.windows) if shared else 0

    assert points(segment_length=50, windows=150) == 150
    assert points(segment_length=50, windows=600) == 500
    assert points(segment_length=10, windows=30) == 10
    assert points(segment_length=100, windows=300) == 50


def test_no_overlap_without_a_published_curve_or_in_other_units() -> None:
    results = made_up_run({"mine": np.zeros((3, 50)), "TD": np.zeros((3, 50))})
    assert overlap(results, TABULAR, "mine", "rmsve_current") is None
    assert overlap(results, TABULAR, "TD", "rmsve_current") is not None
    elsewhere = dataclasses.replace(TABULAR, presets=("released",))
    assert overlap(results, elsewhere, "TD", "rmsve_current") is None


def test_windows_are_averaged_to_the_published_ones() -> None:
    """MinAtar's windows are 5 000 steps, the published points 10 000, and each is the mean of two."""
    values = np.tile([1.0, 3.0, 5.0, 7.0], (3, 50))
    results = made_up_run({"DQN": values}, "return_average", {"steps": 500_000}, window=5_000, preset="released")
    published = REGISTRY["figure5/minatar"].published
    assert published is not None
    shared = overlap(results, published, "DQN", "return_average")
    assert shared is not None
    np.testing.assert_array_equal(shared.windows, 2 * np.arange(2, 101))
    np.testing.assert_array_equal(shared.ours, np.full((3, 99), 4.0))
    too_wide = made_up_run(
        {"DQN": values[:, :14]}, "return_average", {"steps": 500_000}, window=250_000, preset="released"
    )
    assert overlap(too_wide, published, "DQN", "return_average") is None


def test_smoothed_curves_are_compared_from_the_first_full_mean_on() -> None:
    results = made_up_run({"DQN": np.tile(np.arange(500.0), (3, 1))}, "discounted_return", {"episodes": 500})
    published = REGISTRY["figure3/rooms"].published
    assert published is not None
    shared = overlap(results, published, "DQN", "discounted_return")
    assert shared is not None
    assert shared.windows[0] == 10
    assert shared.ours[0, 0] == np.arange(10).mean()
    assert not shared.complete


def test_a_moving_average_is_not_judged_around_switches() -> None:
    """The authors' moving average of 10 000 steps, as points of 10 000 steps, against our windows of 10 000 steps.

    Away from switches the mean of two windows is the same number. After a switch, windows do not say when the rewards came.
    """
    steps, switch, width = 600_000, 150_000, 10_000
    rate = np.where(np.arange(steps) % switch < 4_000, -0.5, 0.25)  # all reward is lost for 4 000 steps
    sums = np.concatenate([[0.0], np.cumsum(rate)])
    moving = np.concatenate([rate[: width - 1] / width, (sums[width:] - sums[:-width]) / width])
    theirs = moving.reshape(-1, width).mean(axis=1)
    ours = np.tile(rate.reshape(-1, width).mean(axis=1), (3, 1))
    results = made_up_run({"DQN": ours}, "reward_rate", {"steps": switch}, window=width, preset="released")
    published = REGISTRY["figure5/jellybean"].published
    assert published is not None
    shared = overlap(results, published, "DQN", "reward_rate")
    assert shared is not None
    near = np.isclose(shared.ours[0], theirs[1:], atol=1e-6)
    assert near[shared.judged].all()
    assert not near[~shared.judged].any()
    assert shared.judged.sum() == 4 * 13


@pytest.mark.parametrize("name", list(WITH_CURVES))
def test_the_files_fit_the_experiments(name: str) -> None:
    """Each contender has a curve as long as the reference preset, except where none was published."""
    experiment = WITH_CURVES[name]
    published = experiment.published
    assert published is not None
    assert published.presets[0] == experiment.reference_preset
    assert set(published.presets) <= set(experiment.plans)
    plan = experiment.plan(experiment.reference_preset)
    file = files("remanence.results") / "published_curves" / f"{published.panel}.csv.gz"
    table = pl.read_csv(file.read_bytes())
    along = next(unit for unit in ("episode", "step") if unit in table.columns)
    assert set(table["agent"]) <= set(plan.contenders)
    ours = {name for name in plan.contenders if name.endswith(CONTROL_SUFFIX)}
    assert {"Random", "DQN-large-buffer"} >= set(plan.contenders) - set(table["agent"]) - ours
    for _, curve in table.group_by("agent", "metric"):
        np.testing.assert_array_equal(curve[along], published.window * np.arange(1, len(curve) + 1))
        assert np.isfinite(curve["mean"].to_numpy()).all()
    length = plan.stream.segments * plan.stream.segment_length.count
    assert 0 <= length - table[along].max() <= published.window  # type: ignore[operator]
    assert published.segment_length == plan.stream.segment_length.count
    assert published.window % plan.window == 0


def full_run(experiment: Experiment, plan: Plan, preset: str) -> Results:
    """The run of a plan whose curves are the published ones."""
    published = experiment.published
    assert published is not None
    described = describe(experiment.name, preset, plan, list(range(plan.seeds)))
    windows = plan.stream.segments * plan.stream.segment_length.count // plan.window
    curves = {}
    for name in plan.contenders:
        mean = np.resize(published_mean(published.panel, name, experiment.primary_metrics[0]), windows)
        curves[name] = scattered(mean, 0.02, plan.seeds)
    return with_curves(described, {experiment.primary_metrics[0]: curves})


def test_only_whole_runs_of_the_reference_preset_get_a_verdict() -> None:
    experiment = REGISTRY["figure3/tabular"]
    plan = experiment.plan(RELEASED)
    for seeds in (plan.seeds, 5):
        whole = full_run(experiment, dataclasses.replace(plan, seeds=seeds), RELEASED)
        assert [one.inside for one in experiment.agreements(whole)] == [1.0, 1.0, 1.0]
    alone = full_run(experiment, plan.select(["Q"]), RELEASED)  # an agent's curve is the same without the others
    assert [(one.contender, one.inside) for one in experiment.agreements(alone)] == [("Q", 1.0)]
    another_agent = plan.override("PT-Q", "permanent_lr", 0.5)
    others = [(one, RELEASED) for one in (plan.shortened(segments=3), another_agent)]
    for other, preset in [*others, (experiment.plan("paper"), "paper")]:
        results = full_run(experiment, other, preset)
        assert experiment.agreements(results) == []
        chart = learning_curves(results, [Line("discounted_return")], "t", "episode", published=experiment.published)
        assert drawn(spec(chart), "published"), "the curve is drawn all the same"


def drawn(chart: dict, field: str) -> list[dict]:
    """The layers of a figure that encode a field on the vertical axis."""
    layers = [chart, *(layer for part in chart.get("vconcat", [chart]) for layer in part.get("layer", []))]
    return [layer for layer in layers if layer.get("encoding", {}).get("y", {}).get("field") == field]


def test_the_published_curve_is_thin_gray_and_dashed_and_the_figure_says_where_it_ends() -> None:
    mean = published_mean("figure2-tabular", "TD", "rmsve_current")
    whole = made_up_run({"TD": scattered(mean, 0.02), "mine": scattered(mean, 0.02)})
    chart = spec(learning_curves(whole, [Line("rmsve_current")], "t", "episode", published=TABULAR))
    (layer,) = drawn(chart, "published")
    assert layer["mark"] == {"type": "line", "strokeWidth": 0.9, "strokeDash": [5, 2], "color": "#666666"}
    np.testing.assert_allclose([row["published"] for row in layer["data"]["values"]], mean, atol=1e-6)
    assert chart["title"]["subtitle"][-1] == "gray, dashed: the published curves"
    short = made_up_run({"TD": scattered(mean[:30], 0.02)}, segment_length={"episodes": 10}, preset="smoke")
    chart = spec(learning_curves(short, [Line("rmsve_current")], "t", "episode", published=TABULAR))
    (layer,) = drawn(chart, "published")
    assert [row["window"] for row in layer["data"]["values"]] == list(range(1, 11))
    assert chart["title"]["subtitle"][-1] == (
        "gray, dashed: the published curves up to episode 10, where both have the same tasks; they belong to the preset paper"
    )
    beside = spec(beside_published(whole, [Line("rmsve_current")], TABULAR, "t", "episode")["published"])
    assert [panel["title"]["text"] for panel in beside["vconcat"]] == ["TD"]
    assert len(drawn(beside, "published")) == 1
    assert (
        beside_published(made_up_run({"mine": np.zeros((3, 50))}), [Line("rmsve_current")], TABULAR, "t", "episode")
        == {}
    )


def test_reference_presets() -> None:
    released = {name for name, one in REGISTRY.items() if one.reference_preset == RELEASED}
    assert {"figure2/image", "figure2/rooms", "figure3/tabular", "figure4", "figure5/jellybean"} <= released
    assert {"figure5/minatar", "appendix/jbw-items", "appendix/jbw-decay", "appendix/capacity"} <= released
    for name, experiment in REGISTRY.items():
        assert experiment.reference_preset in experiment.plans
        if experiment.sweep_of:
            assert experiment.default_preset == REGISTRY[experiment.sweep_of].reference_preset, name
