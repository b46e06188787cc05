"""Directories of runs from strangers: nothing in them is executed, neither by a command nor by a page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from remanence.cli import main

SAMPLES = Path(__file__).parents[1] / "data" / "runs"


def edited(to: Path, kind: str = "live", **changes: Any) -> Path:
    """A kept run without checksums, with changes in its description."""
    shutil.copytree(SAMPLES / "format1" / kind, to)
    file = to / "description.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return to


@pytest.mark.parametrize("form", ["{}", "{}:EXPERIMENT"])
def test_a_description_cannot_name_code(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copied run whose description names a file: `show` and `report` work from its data, and the file does not run."""
    planted, trace = tmp_path / "planted.py", tmp_path / "trace"
    planted.write_text(f"open({str(trace)!r}, 'w').close()")
    run = edited(tmp_path / "run", experiment=form.format(planted))
    assert main(["show", str(run)]) == 0
    assert "a DQN" in capsys.readouterr().out
    assert main(["show", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["contenders"]["a DQN"]["metrics"]["return"]["auc_mean"] > 0
    assert main(["report", str(run), "--to", str(tmp_path / "page")]) == 0
    assert not trace.exists()


def test_a_users_file_runs_when_the_user_names_it(tmp_path: Path) -> None:
    planted, trace = tmp_path / "mine.py", tmp_path / "trace"
    planted.write_text(f"open({str(trace)!r}, 'w').close()")
    assert main(["show", str(planted)]) == 2  # it defines no experiment
    assert trace.exists()


@pytest.mark.parametrize("kind", ["run", "sweep", "live"])
def test_any_run_is_shown_and_reported_from_its_data(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = edited(tmp_path / "run", kind, experiment="own/thing")
    assert main(["show", str(run)]) == 0
    assert {"run": "PT-TD", "sweep": "TD lr=0.2", "live": "a DQN"}[kind] in capsys.readouterr().out
    assert main(["report", str(run), str(run), "--to", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "Repeat:" not in page  # no command of ours repeats it
    curves = {"run": 4, "sweep": 0, "live": 4}[kind]
    assert len(list((tmp_path / "page").glob("own-thing-curve-*.svg"))) == curves
    assert len(list((tmp_path / "page").glob("own-thing-2-curve-*.svg"))) == curves  # of the second one


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metrics": float("nan")}, "metrics is missing or not as expected"),
        ({"contenders": {"x": {"hypers": {}}}}, "lanes.parquet has an agent 'PT-TD' that description.json has not"),
    ],
)
def test_a_description_that_does_not_fit_is_named(
    changes: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = edited(tmp_path / "run", "run", **changes)
    for command in (
        ["show", str(run)],
        ["show", str(run), "--json"],
        ["report", str(run), "--to", str(tmp_path / "page")],
    ):
        assert main(command) == 2
        assert says in " ".join(capsys.readouterr().err.split())


def test_a_sweep_of_a_registered_experiment_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(SAMPLES / "format1" / "sweep")]) == 0
    assert "TD lr=0.2" in capsys.readouterr().out


def test_an_unfinished_run_is_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = edited(tmp_path / "run", "run", seeds=[0, 1, 2])
    assert main(["report", str(run), "--to", str(tmp_path / "page")]) == 2
    assert "is not finished" in capsys.readouterr().err
