"""The command line from outside: what a person types and what they see."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from remanence import load_results
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.experiments import REGISTRY, get, prediction
from remanence.metrics import METRICS
from remanence.report.numbers import ABOUT_GAINS, PLUS_MINUS
from remanence.results.directory import Directory
from remanence.results.store import load

SMOKE = ("--preset", "smoke")


def remanence(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


# Networks take long to compile: these are run in files of their own, each once and shorter. What has many programs has a long test.
ELSEWHERE = ("image", "rooms", "diameter", "jellybean", "minatar", "items", "decay", "capacity", "recurring")
MANY_PROGRAMS = ("study/lifetime", *(f"appendix/sensitivity-{grid}" for grid in ("linear", "continuous", "control")))
QUICK = [name for name in REGISTRY if not name.endswith(ELSEWHERE) and not name.startswith(MANY_PROGRAMS)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every registered experiment without a network and with few programs, at smoke size."""
    out = tmp_path_factory.mktemp("runs")
    for name in QUICK:
        assert remanence("run", name, *SMOKE, "--out", out) == 0
    return out


@pytest.mark.long
def test_the_other_sensitivities_run_and_are_drawn(tmp_path: Path) -> None:
    names = [name for name in REGISTRY if name.startswith(MANY_PROGRAMS[1:])]
    for name in names:
        assert remanence("run", name, *SMOKE, "--out", tmp_path) == 0
    assert remanence("report", *names, "--out", tmp_path, "--to", tmp_path / "page") == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(f"<h2>{get(name).title}" in page for name in names)


@pytest.mark.long
def test_the_lifetime_studies_run_and_are_drawn(tmp_path: Path) -> None:
    """A program for each interval."""
    names = [name for name in REGISTRY if name.startswith("study/lifetime")]
    for name in names:
        assert remanence("run", name, *SMOKE, "--out", tmp_path) == 0
    assert remanence("report", *names, "--out", tmp_path, "--to", tmp_path / "page") == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(f'id="study-lifetime-{place}-lifetime"' in page for place in ("control", "prediction", "chain"))
    with_numbers = [name for name in names if name != "study/lifetime/exact"]  # it has curves only
    assert page.count(PLUS_MINUS) == len(with_numbers) + page.count(f"{ABOUT_GAINS} {PLUS_MINUS}")


def test_json_is_one_object_and_nothing_else(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", runs, "--json") == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    ours = {"published", "gains", "observations"}
    assert set(result) == {"experiment", "preset", "seeds", "contenders", "claims", "seconds", *ours}
    assert (result["experiment"], result["preset"], result["seeds"]) == ("figure2/tabular", "smoke", 3)
    assert list(result["contenders"]) == ["TD", "TD-reset", "PT-TD"]
    facts = result["contenders"]["PT-TD"]
    assert facts["hypers"] == {"permanent_lr": 0.01, "transient_lr": 0.3, "decay": 0.0}
    for metric in ("rmsve_current", "rmsve_others"):
        assert {"auc_mean", "auc_se", "first", "last"} <= set(facts["metrics"][metric])
        assert len(facts["metrics"][metric]["first"]) == 3
    assert {"id", "text", "verdict", "evidence"} == set(result["claims"][0])
    assert [one["id"] for one in result["claims"]] == [one.id for one in prediction.claims(load(_run(runs)))]
    assert {one["verdict"] for one in result["claims"]} == {"shortened run"}  # a trial is never judged
    assert all("relative difference" in one["evidence"] for one in result["claims"])
    assert "already done" in printed.err


def _run(runs: Path) -> Path:
    return next((runs / "figure2/tabular").iterdir())


def test_a_run_of_an_experiment_is_loaded_and_drawn_like_one_of_live(runs: Path) -> None:
    """It has no policies."""
    results = load_results(_run(runs))
    assert results.contenders == ["TD", "TD-reset", "PT-TD"]
    drawn = results.plot("rmsve_others").to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["rule", "area", "line"]
    assert drawn["layer"][2]["encoding"]["y"]["title"] == "RMSVE, other tasks"
    with pytest.raises(UserError, match="there is no policy"):
        results.policy("TD")


def test_every_recorded_metric_is_in_the_table(runs: Path) -> None:
    recorded = {
        metric for found in runs.rglob("curves.parquet") for metric in pl.read_parquet(found)["metric"].unique()
    }
    assert {"rmsve_current", "discounted_return", "return", "regret", "steps"} <= recorded <= set(METRICS)


def test_same_command_again_runs_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")}
    assert remanence("run", "figure2/linear", *SMOKE, "--out", runs) == 0
    assert capsys.readouterr().err.count("already done") == 3
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")} == files


def test_only_the_missing_contender_runs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that lost one contender gets exactly that one back, bit for bit."""
    source = next((runs / "figure2/tabular").iterdir())
    target = tmp_path / "figure2" / "tabular" / source.name
    target.mkdir(parents=True)
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    whole = pl.read_parquet(source / "curves.parquet")
    lanes = pl.read_parquet(target / "lanes.parquet")
    Directory(target).replace("lanes.parquet", lanes.filter(pl.col("contender") != "PT-TD"))
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", tmp_path) == 0
    assert capsys.readouterr().err.count("already done") == 2
    order = ["lane", "metric", "window"]
    assert pl.read_parquet(target / "curves.parquet").sort(order).equals(whole.sort(order))


def test_report_is_self_contained(runs: Path, tmp_path: Path) -> None:
    drawn = [
        name for name in QUICK if name != "appendix/true-values"
    ]  # its true values at full size take half a minute
    assert remanence("report", *drawn, "--out", runs, "--to", tmp_path / "page") == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "src=" not in page.split("<script")[0]
    assert "https://cdn" not in page
    for name in ("figure2-tabular-curves", "figure2-continuous-curves", "appendix-prediction-evolution-evolution"):
        assert f'id="{name}"' in page
        assert (tmp_path / "page" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "page" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in (tmp_path / "page" / f"{name}.svg").read_text()
    assert "remanence run figure2/tabular --preset smoke --seeds 3" in page
    assert "Discrete grid, tabular <span class=changed>shortened run: preset smoke</span></h2>" in page
    assert "shortened run: preset smoke" in (tmp_path / "page" / "figure2-tabular-curves.svg").read_text()
    with_numbers = [one for one in drawn if not REGISTRY[one].sweep_of]
    tables = len(with_numbers) + page.count(f"{ABOUT_GAINS} {PLUS_MINUS}")
    assert page.count(PLUS_MINUS) == tables  # beside every table with numbers


def test_report_lists_runs_that_it_does_not_show(runs: Path, tmp_path: Path) -> None:
    """A later and smaller run of the same preset does not replace the one before."""
    shutil.copytree(runs / "figure2/tabular", tmp_path / "runs/figure2/tabular")
    shorter = ("--segments", "2", "--set", "TD.lr=0.25")
    assert remanence("run", "figure2/tabular", *SMOKE, *shorter, "--out", tmp_path / "runs") == 0
    assert remanence("report", "figure2/tabular", "--out", tmp_path / "runs", "--to", tmp_path / "page") == 0
    shown, _, others = (tmp_path / "page" / "index.html").read_text().partition("Other runs of this experiment")
    assert "shortened run: preset smoke</span>" in shown
    assert "preset smoke, 3 seeds, shortened run: preset smoke, 2 of 3 tasks, TD.lr=0.25" in others


def test_show_before_and_after_a_run(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remanence("show", "figure2/tabular", "--out", tmp_path) == 0
    assert "Not run yet" in capsys.readouterr().out
    assert remanence("show", "figure2/tabular", "--out", runs) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "preset smoke, 3 seeds; shortened run: preset smoke" in shown
    assert shown.count(PLUS_MINUS) == 2
    assert remanence("show", next((runs / "figure2/tabular").iterdir()), "--json") == 0
    assert json.loads(capsys.readouterr().out)["experiment"] == "figure2/tabular"


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert remanence("list") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in REGISTRY)
    assert remanence("list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == len(REGISTRY)


def test_changed_hyper_parameter_is_used_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = ("--set", "TD.lr=0.0", "--contenders", "TD", "--json")
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", tmp_path, *change) == 0
    facts = json.loads(capsys.readouterr().out)["contenders"]["TD"]
    assert facts["hypers"] == {"lr": 0.0}
    assert facts["metrics"]["rmsve_current"]["auc_mean"] == pytest.approx(0.250261, abs=1e-6)  # it never learns


def test_diverging_lanes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = ("--set", "TD.lr=1e30", "--contenders", "TD", "--json")
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", tmp_path, *change) == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)["contenders"]["TD"]
    assert facts["diverged"] == [0, 1, 2]
    assert facts["metrics"]["rmsve_current"]["auc_mean"] is None
    assert "TD diverged in 3 of 3 seeds" in printed.err


def test_a_finite_but_absurd_value_is_divergence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors of 10⁵ and more are numbers, but values cannot exceed 1 / (1 − γ) = 10 here; a poor step size still counts."""
    change = ("--contenders", "TD", "--json", "--out", tmp_path, "--segments", "1", "--segment-length", "4")
    assert remanence("run", "figure2/tabular", *SMOKE, *change, "--set", "TD.lr=3") == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)["contenders"]["TD"]
    curves = pl.read_parquet(next(tmp_path.rglob("curves.parquet")))
    assert curves["value"].is_finite().all()
    errors = curves.filter(pl.col("metric").str.starts_with("rmsve_"))
    absurd = sorted(set(errors.filter(pl.col("value") > 1000)["lane"]))
    assert facts["diverged"] == absurd != []
    assert f"TD diverged in {len(absurd)} of 3 seeds" in printed.err
    assert remanence("run", "figure2/tabular", *SMOKE, *change, "--set", "TD.lr=1.0") == 0
    assert json.loads(capsys.readouterr().out)["contenders"]["TD"]["diverged"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "figure2/tabluar"), "unknown experiment 'figure2/tabluar': did you mean 'figure2/tabular'?"),
        (("run", "figure2/tabular", "--preset", "smok"), "did you mean 'smoke'?"),
        (("run", "figure2/tabular", "--contenders", "PTTD"), "unknown agent 'PTTD': did you mean 'PT-TD'?"),
        (("run", "figure2/tabular", "--seeds", "0"), "--seeds must be at least 1; got 0"),
        (("run", "figure2/tabular", "--seeds", "-3"), "--seeds must be at least 1; got -3"),
        (("run", "figure2/tabular", "--set", "TD.lr=-0.1"), "TD.lr must be a finite number that is not negative"),
        (("run", "figure2/tabular", "--set", "TD.lr=nan"), "TD.lr must be a finite number that is not negative"),
        (("run", "figure2/tabular", "--set", "PT-TD.decay=1.5"), "PT-TD.decay must be between 0 and 1"),
        (("run", "figure2/tabular", "--set", "TD.rate=0.1"), "unknown field of TD 'rate'"),
        (("run", "figure2/tabular", "--set", "nonsense"), "write AGENT.FIELD=VALUE"),
        (("run", "figure2/tabular", "--seeds", "1000000000"), "got 1,000,000,000; at most 1,000,000 are possible"),
        (
            ("show", "figure2/tabular", "\x1b[31m"),
            "an argument has a control character, which no name or option needs: '�[31m'",
        ),
        (
            ("run", "figure2/tabular", "--out", "\ud800"),
            "an argument has a character that no name or option can have: '�'",
        ),
        (("run", "figure2/tabular", "--cores-per-group", "2147483648"), "at most 1,024; got 2,147,483,648"),
        (("run", "figure2/tabular", "--jobs", "1000000000"), "at most 1,024"),
        (("run", "figure2/tabular", "--set", "TD.lr=" + "-" * 100_000), "TD.lr must be float"),
        (("run", "appendix/task-diameter", "--segments", "1", "--seeds", "1"), "leave out --segments"),
        (("sweep", "appendix/true-values"), "has no agents, so there is nothing to sweep"),
        (("sweep", "figure3/tabular", "--tuning-from", "-5", "--seeds", "1"), "integers from 0 to 2³² − 1; got -5"),
        (("show", "figure9"), "unknown experiment 'figure9'"),
        (("show", "/nonexistent"), "there is no directory '/nonexistent', nor an experiment of that name"),
        (("report", "./runs/own"), "there is no directory './runs/own'"),
        (("bench", "predictions"), "did you mean 'prediction'?"),
        (("report", "figure2/tabular"), "no finished run in"),
        (("sweep", "figure3/tabular", "--grid", "Q.lr="), "the grid of Q.lr is empty"),
        (("sweep", "figure3/tabular", "--grid", "Q.lr=0.1,x"), "is not a grid"),
        (("sweep", "figure3/tabular", "--grid", "Q.reset=True,False"), "is not a grid"),
        (("sweep", "figure3/tabular", "--grid", "Q.lr=-1"), "must be a finite number"),
        (("sweep", "figure3/tabular", "--tuning-seeds", "0"), "--tuning-seeds must be at least 1; got 0"),
        (("sweep", "figure3/tabular", "--seeds", "2000"), "overlap"),
        (("sweep", "appendix/sensitivity-control"), "is a sweep already"),
        (("run", "figure4", "--set", "PT-Q k=1 decay=0.1.decay=1.5"), "must be between 0 and 1"),
    ],
)
def test_a_mistake_is_one_clear_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert remanence(*arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"x = 1\ny = (\n", "own.py', line 2: SyntaxError: '(' was never closed"),
        (b"\n\nimport no_such_module\n", "own.py', line 3: ModuleNotFoundError: No module named 'no_such_module'"),
        (b"raise SystemExit(3)", "own.py', line 1: SystemExit: 3"),
        (b"\xff\x00", "own.py': SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_with_its_line(
    text: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_bytes(text)
    for command in ("run", "sweep", "show"):
        assert remanence(command, tmp_path / "own.py") == 2
        assert f"cannot load '{tmp_path}/{says}" in capsys.readouterr().err


def test_unwritable_out_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", tmp_path / "file") == 2
    assert "choose another --out" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "in the way"


def test_full_disk_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert remanence("run", "figure2/tabular", *SMOKE, "--out", tmp_path) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"cannot write to '{tmp_path}" in said
    assert "the disk is full" in said


def test_module_runs_as_a_command_and_bad_usage_exits_with_2() -> None:
    call = [sys.executable, "-m", "remanence", "run"]
    assert subprocess.run(call, capture_output=True, check=False).returncode == 2
