"""A refused command changes nothing, and the command that was refused before it still goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import jax
import pytest

from remanence.cli import main
from remanence.core.errors import Stopped
from remanence.runs import executors

COMMAND = (
    "run",
    "figure2/tabular",
    "--preset",
    "smoke",
    "--seeds",
    "3",
    "--contenders",
    "TD",
    "--lanes-per-group",
    "1",
)


def files(directory: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file below a directory: when it was written, and its content."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of three groups that was stopped after the first one."""
    lived: list[Any] = []
    original = executors.live

    def live_once(*arguments: Any) -> None:
        if lived:
            raise Stopped(signal.SIGTERM)
        lived.append(original(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(executors, "live", live_once)
        assert main([*COMMAND, "--out", str(tmp_path)]) == 128 + signal.SIGTERM
    return tmp_path


def test_other_cores_are_refused_before_anything_runs(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun, other = len(jax.devices()), len(jax.devices()) + 1
    before = files(stopped)
    capsys.readouterr()
    assert main([*COMMAND, "--out", str(stopped), "--jobs", "2", "--cores-per-group", str(other)]) == 2
    said = capsys.readouterr().err
    assert f"started with cores per group {begun}, not with cores per group {other}: " in said
    assert f"give --cores-per-group {begun}, or start over with --restart" in said
    assert files(stopped) == before
    assert main([*COMMAND, "--out", str(stopped)]) == 0


def test_another_cut_is_refused_even_between_two_groups(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(stopped)
    assert main([*COMMAND[:-1], "2", "--out", str(stopped)]) == 2
    assert "give --lanes-per-group 1" in capsys.readouterr().err
    assert files(stopped) == before


def test_a_refused_restart_deletes_nothing(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(stopped)
    assert main([*COMMAND, "--out", str(stopped), "--restart", "--learner", "native"]) == 2
    assert "no native learner" in capsys.readouterr().err
    assert files(stopped) == before


def test_a_refused_first_command_leaves_no_directory(tmp_path: Path) -> None:
    assert main([*COMMAND, "--out", str(tmp_path / "runs"), "--learner", "native"]) == 2
    assert not (tmp_path / "runs").exists()
