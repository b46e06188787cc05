"""The deep experiments from the command line, cut to the bone: every contender, told switches, JSON, figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from charts import spec
from remanence.agents.base import hypers_of
from remanence.cli import main
from remanence.core.prng import make_key
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import Episodes
from remanence.engine.life import ProbeInput
from remanence.experiments import get
from remanence.experiments.figure2 import GRID
from remanence.experiments.figure2_deep import IMAGE_TASKS
from remanence.report.figures import Line, learning_curves
from remanence.report.panels.games import returns_per_game
from remanence.results.claims import SHORTENED
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.published import trailing_mean
from remanence.results.store import Results, find_runs, load
from remanence.worlds.true_values import corner_grid_truth


@pytest.mark.parametrize(
    ("name", "family", "metric"),
    [
        ("figure2/image", "TD", "rmsve_current"),
        pytest.param("figure2/rooms", "TD", "rmsve_others", marks=pytest.mark.long),
        pytest.param("figure3/rooms", "DQN", "discounted_return", marks=pytest.mark.long),
    ],
)
def test_a_run_of_every_deep_experiment(
    name: str, family: str, metric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tasks of one or two episodes, two seeds."""
    short = [
        "--preset",
        "smoke",
        "--segments",
        "2",
        "--segment-length",
        "2",
        "--seeds",
        "2",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert main(["run", name, *short]) == 0
    answer = json.loads(capsys.readouterr().out)
    control = [f"PT-DQN{CONTROL_SUFFIX}"] if name == "figure3/rooms" else []
    assert set(answer["contenders"]) == {family, f"{family}-reset", f"PT-{family}", *control}
    for facts in answer["contenders"].values():
        assert len(facts["metrics"][metric]["first"]) == 2
        assert facts["diverged"] == []
        assert facts["samples_dropped"] == 0
    assert len(answer["claims"]) >= 4
    assert {one["verdict"] for one in answer["claims"]} == {SHORTENED}  # all could be compared, none is judged
    results = load(find_runs(tmp_path, name)[0])
    assert results.finished
    drawn = spec(get(name).figures(results)["curves"])
    published = ["line"] if name == "figure2/image" else []  # the others have no point in common with so short a run
    assert marks(drawn) == ["rule", "area", *published, "line"]
    assert metric_label(drawn) == ("discounted return" if family == "DQN" else "value error (RMSVE)")
    assert {row["contender"] for row in points(drawn)} == set(answer["contenders"])
    lines = len(answer["contenders"]) * (1 if family == "DQN" else 2)  # one for each agent and metric
    windows = len(points(drawn)) / lines
    assert windows == results.windows


def test_the_error_of_the_image_grid_weighs_all_states_alike() -> None:
    """As published: the root of the mean squared error of 25 states, four of which are goals and count as 0."""
    plan = get("figure2/image").plan("released")
    agent = plan.contenders["TD"].config.build(plan.spec)._replace(inspect=lambda *_: {"value": jnp.ones(1)})
    measured = plan.probe(agent)(ProbeInput(None, jnp.int32(1), None))  # type: ignore[arg-type]
    truth = corner_grid_truth(GRID, IMAGE_TASKS)
    error = np.sqrt(((1 - truth.values[1][~truth.final]) ** 2).sum() / 25)
    assert float(measured["rmsve_current"]) == pytest.approx(error, rel=1e-5)
    assert float(measured["rmsve_current"]) == float(measured["rmsve_current_unweighted"])
    by_visits = np.sqrt((truth.weights * (1 - truth.values[1]) ** 2)[~truth.final].sum())
    assert abs(error - by_visits) > 0.01


def test_presets_of_the_deep_panels() -> None:
    """What the released code does otherwise than the text."""
    image, rooms, control = (get(name) for name in ("figure2/image", "figure2/rooms", "figure3/rooms"))
    lengths = [image.plan(preset).stream for preset in ("paper", "released")]
    assert [(stream.segments, stream.segment_length) for stream in lengths] == [(10, Episodes(100)), (5, Episodes(100))]
    for plan, hundred in ((image.plan("released"), True), (rooms.plan("paper"), True), (rooms.plan("released"), False)):
        config: Any = plan.contenders["PT-TD"].config
        assert (config.in_order, config.min_batches, config.max_batches) == (
            (False, 100, 100) if hundred else (True, 0, None)
        )
    for preset, sizes in (("paper", [1e-1, 1e-1, 3e-3, 3e-2]), ("released", [3e-3, 3e-2, 1e-3, 1e-2])):
        contenders = rooms.plan(preset).contenders
        fields = (("TD", "lr"), ("TD-reset", "lr"), ("PT-TD", "permanent_lr"), ("PT-TD", "transient_lr"))
        assert [getattr(contenders[name].config, field) for name, field in fields] == sizes
        assert all(size in contenders[name].search[field] for (name, field), size in zip(fields, sizes, strict=True))
    for experiment in (rooms, control):
        for preset in ("paper", "released"):
            configs: dict[str, Any] = {name: one.config for name, one in experiment.plan(preset).contenders.items()}
            assert {config.repeat_first for config in configs.values()} == {preset == "released"}
            if experiment is control:
                assert configs["DQN"].sync_target == (preset == "released")


def test_a_run_of_the_small_recurring_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two tasks of 400 steps: a network that absorbs a share of another, and the two parts of its values."""
    name, agent = "study/permanent/recurring", "PT-DQN by shares"
    options = ["--preset", "smoke", "--segments", "2", "--seeds", "2", "--parts", "--json", "--out", str(tmp_path)]
    assert main(["run", name, *options, "--contenders", agent]) == 0
    facts = json.loads(capsys.readouterr().out)["contenders"][agent]
    assert facts["diverged"] == []
    results = load(find_runs(tmp_path, name)[0])
    config: Any = get(name).plan("smoke").contenders[agent].config
    np.testing.assert_allclose(results.matrix(agent, "kept")[:, -1], config.decay, rtol=1e-3)
    assert (results.matrix(agent, "absorbed")[:, -1] > 0).all()


def test_a_run_of_minatar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two games of 200 steps, PT-DQN (which consolidates) and two rivals."""
    names = ["PT-DQN", "DQN-multihead", "Random"]
    short = [
        "--preset",
        "smoke",
        "--segments",
        "2",
        "--segment-length",
        "200",
        "--seeds",
        "2",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert main(["run", "figure5/minatar", *short, "--contenders", *names]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["contenders"]) == names
    results = load(find_runs(tmp_path, "figure5/minatar")[0])
    assert set(results.metrics) == {"return_last100", "return_average", "return", "episodes", "reward_rate", "game"}
    assert all(np.isfinite(results.matrix(name, metric)).all() for name in names for metric in results.metrics)
    live = results.matrix("PT-DQN", "game")
    assert set(live.ravel()) <= {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(live, results.matrix("Random", "game"))  # equal seeds meet the same games
    drawn = {name: spec(chart) for name, chart in get("figure5/minatar").figures(results).items()}
    assert {name: metric_label(drawn[name]) for name in ("curves", "average")} == {
        "curves": "return, mean of the last 100 episodes",
        "average": "return, moving average over episodes",
    }
    for name in ("curves", "average"):
        assert marks(drawn[name]) == ["rule", "area", "line"]
        assert len(points(drawn[name])) == len(names) * results.windows
    games = drawn["games"]
    assert games["facet"]["column"]["field"] == "game"
    assert [layer["mark"]["type"] for layer in games["spec"]["layer"]] == ["bar", "rule"]
    assert games["spec"]["layer"][0]["encoding"]["x"] == {
        "field": "return",
        "title": "return per episode",
        "type": "quantitative",
    }


def marks(curves: dict) -> list[str]:
    return [layer["mark"]["type"] for layer in curves["layer"]]


def metric_label(curves: dict) -> str:
    return curves["layer"][-1]["encoding"]["y"]["title"]


def points(curves: dict) -> list[dict]:
    return curves["layer"][-1]["data"]["values"]


def test_memory_of_the_games() -> None:
    """Frames are bits and kept once: 100k transitions in 12 MB, 500k in 60 MB, with a permanent part's values 12 MiB."""
    plan = get("figure5/minatar").plan("paper")
    for name, most in (("DQN", 12e6), ("DQN-multihead", 12e6), ("DQN-large-buffer", 60e6), ("PT-DQN", 12 * 2**20)):
        config = plan.contenders[name].config
        state = jax.eval_shape(config.build(plan.spec).init, make_key(0), hypers_of(config))
        assert tree_nbytes(state.replay) < most


def test_panel_of_games_and_its_words() -> None:
    """Two segments of ten windows, the last two of which count: one episode of 10 and three of 20 in breakout, none in freeway."""
    measured = {
        "return": [9] * 8 + [10, 20] + [25] * 10,  # where no episode ends, the value before is kept
        "episodes": [1] * 8 + [1, 3] + [1] * 8 + [0, 0],
        "game": [0] * 10 + [1] * 10,
    }
    rows = [(0, n + 1, name, float(value)) for name, curve in measured.items() for n, value in enumerate(curve)]
    results = Results(
        None,
        {
            "stream": {"order": [None, None], "segment_length": {"steps": 100}},
            "window": 10,
            "seeds": [0],
            "contenders": {"DQN": {}},
        },
        pl.DataFrame([{"lane": 0, "contender": "DQN", "seed": 0, "diverged": False}]),
        pl.DataFrame(rows, schema=["lane", "window", "metric", "value"], orient="row"),
    )
    panel = spec(returns_per_game(results, ("breakout", "freeway"), "game"))["data"]["values"]
    assert [(one["game"], one["return"]) for one in panel] == [("breakout", 17.5)]
    assert results.unit == "window"
    drawn = spec(learning_curves(results, [Line("return")], "", ""))
    assert drawn["title"]["subtitle"] == ["one seed, no bands; dashed rules: a new task is drawn"]


def test_trailing_mean() -> None:
    np.testing.assert_allclose(trailing_mean(np.array([[1.0, 2, 3, 4, 5]]), 3), [[1, 1.5, 2, 3, 4]])


def test_a_run_cannot_be_made_longer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "figure3/rooms", "--segments", "9"]) == 2
    assert "--segments must be between 1 and 5 here; got 9" in capsys.readouterr().err
