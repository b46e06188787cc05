"""What docs/architecture.md says of the way through the code, compared with the calls of a real run."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import remanence.agents.dqn  # noqa: F401
from remanence.cli import main as command
from remanence.core import hostcall
from scripted import Corridor, quiet

ROOT = Path(__file__).parents[2]
CODE = ROOT / "src" / "remanence"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
Call = tuple[str, str]


class Arrived(Exception):
    """The walk has come to its end."""


def walk(name: str) -> list[Call]:
    """The calls that the page lists, as (file, function); a line in parentheses is a lambda in the file of the line before."""
    listed = re.search(rf"<!-- walk: {name} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert listed is not None
    calls: list[Call] = []
    for file, function in re.findall(r"^\d+\. (?:`(\S+): (\w+)`|\()", listed[1], re.MULTILINE):
        calls.append((file, function) if file else (calls[-1][0], "<lambda>"))
    return calls


def stack(frame: FrameType | None = None) -> list[Call]:
    """The calls under way in our code, outermost first."""
    frames = [(Path(one.filename), one.name) for one in traceback.extract_stack(frame)]
    return [(path.relative_to(CODE).as_posix(), name) for path, name in frames if path.is_relative_to(CODE)]


def test_from_a_command_to_the_line_that_changes_a_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Call] = []

    def apply_gradient(*_: Any) -> None:
        found.extend(stack())
        raise Arrived

    monkeypatch.setattr(sys.modules["remanence.agents.dqn"], "apply_gradient", apply_gradient)
    options = [
        "--preset",
        "smoke",
        "--contenders",
        "PT-DQN",
        "--seeds",
        "1",
        "--learner",
        "xla",
        "--out",
        str(tmp_path),
    ]
    with pytest.raises(Arrived):
        command(["run", "figure5/jellybean", *options])
    assert [*found, ("agents/training.py", "apply_gradient")] == walk("run")


def test_from_live_to_a_step_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled program lies between the call that is put into it and the function that it calls."""
    compiled: list[Call] = []
    stepped: list[Call] = []

    def call(name: str, *arguments: Any) -> Any:
        if name == "remanence_gym_step" and not compiled:
            compiled.extend(stack())
        return hostcall_call(name, *arguments)

    class Watched(Corridor):
        def step(self, action: int) -> Any:
            calls, handler = stack(), ("core/hostcall.py", "handle")
            if handler in calls:  # not in the trial at the start
                stepped[:] = calls[calls.index(handler) :]
            return super().step(action)

    hostcall_call = hostcall.call
    monkeypatch.setattr(hostcall, "call", call)
    quiet("Q", Watched, 60)
    assert [*compiled, ("core/hostcall.py", "call"), *stepped] == walk("live")
