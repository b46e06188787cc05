"""The deep experiments from the command line, cut to the bone: every contender, told switches, JSON, figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from remanence.cli import main
from remanence.experiments import get
from remanence.report.figures import trailing_mean
from remanence.results.store import find_runs, load


@pytest.mark.parametrize(
    ("name", "family", "metric"),
    [
        ("figure2/image", "TD", "rmsve_current"),
        ("figure2/rooms", "TD", "rmsve_others"),
        ("figure3/rooms", "DQN", "return"),
    ],
)
def test_a_run_of_every_deep_experiment(
    name: str, family: str, metric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tasks of one or two episodes, two seeds."""
    short = ["--preset", "smoke", "--segments", "2", "--span", "2", "--seeds", "2", "--out", str(tmp_path), "--json"]
    assert main(["run", name, *short]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["contenders"]) == {family, f"{family}-reset", f"PT-{family}"}
    for facts in answer["contenders"].values():
        assert len(facts["metrics"][metric]["first"]) == 2
        assert facts["diverged"] == []
        assert facts["samples_lost"] == 0
    assert all(one["verdict"] for one in answer["claims"])
    results = load(find_runs(tmp_path, name)[0])
    assert results.finished
    chart = get(name).figures(results)["curves"]
    assert "vega-lite" in chart.to_json()


def test_trailing_mean() -> None:
    np.testing.assert_allclose(trailing_mean(np.array([[1.0, 2, 3, 4, 5]]), 3), [[1, 1.5, 2, 3, 4]])


def test_a_run_cannot_be_made_longer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "figure3/rooms", "--segments", "9"]) == 2
    assert "--segments must be between 1 and 5 here; got 9" in capsys.readouterr().err
