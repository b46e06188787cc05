"""Mistakes of users, 300 on the command line and 60 in calls of `live`: one sentence each, exit code 2, nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz.mistakes import command_lines, live_calls
from remanence.cli import main
from remanence.core.errors import UserError

SEED = 21


def is_sentence(text: str) -> bool:
    return len(text) > 10 and "\n" not in text and "Traceback" not in text


def test_300_mistakes_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for words in command_lines(random.Random(SEED), 300):
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = f"exit {ended.code}"
        out, err = capsys.readouterr()
        line = err.removesuffix("\n")
        if (code, out) != (2, "") or not line.startswith("remanence: ") or not is_sentence(line):
            wrong.append((words, code, out, err))
    assert not wrong
    assert not list(tmp_path.iterdir())  # a refused command changes nothing


def test_60_mistakes_in_calls_of_live() -> None:
    wrong = []
    for label, call in live_calls(random.Random(SEED), 60):
        try:
            call()
        except UserError as error:
            if is_sentence(str(error)):
                continue
            label += f": {error}"
        except Exception as error:
            label += f": {error!r}"
        wrong.append(label)
    assert not wrong
