"""What a description of a run must have: each mistake is named, before anything relies on it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from remanence.core.errors import UserError
from remanence.results.description import DESCRIPTION, FORMAT, read_description

VALID: dict[str, Any] = {
    "experiment": "toy",
    "preset": "paper",
    "stream": {"order": [0, None], "segment_length": {"steps": 4}},
    "contenders": {"A": {"hypers": {"lr": 0.1, "decay": 1}}},
    "seeds": [0, 1],
    "versions": {"remanence": "0.1"},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """`VALID` with another value, or without one if it is `...`."""
    about = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    place = about
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return about


def read(tmp_path: Path, about: Any) -> dict[str, Any]:
    (tmp_path / DESCRIPTION).write_text(json.dumps(about))
    return read_description(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("window", 4),  # as long as a segment
        ("window", 1),
        ("stream.segment_length", {"episodes": 1}),
        ("stream.order", [0]),
        ("contenders.A.hypers", {}),
        ("contenders.A.config", {"DQN": {}}),
        ("stream.parameter", None),
        ("seeds", [-1]),
    ],
)
def test_what_is_possible_is_read(tmp_path: Path, path: str, value: Any) -> None:
    about = changed(path, value)
    assert read(tmp_path, about) == about


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("experiment", "", "experiment is missing"),
        ("experiment", ..., "experiment is missing"),
        ("preset", 3, "preset is missing"),
        ("seeds", [], "seeds is missing"),
        ("seeds", [True], "seeds is missing"),
        ("seeds", [0, "1"], "seeds is missing"),
        ("contenders", [], "contenders is missing"),
        ("contenders", {"A": {}}, "contenders is missing"),
        ("contenders", {"A": VALID["contenders"]["A"], "B": {"hypers": {"lr": "0.1"}}}, "contenders is missing"),
        ("contenders.A.hypers", {"lr": 0.1, "decay": True}, "contenders is missing"),
        ("contenders.A.hypers", {"lr": 1e300}, "contenders is missing"),
        ("contenders.A.config", [], "contenders is missing"),
        ("stream.order", [], "stream is missing"),
        ("stream.order", [0.5], "stream is missing"),
        ("stream.segment_length", {"steps": 0}, "stream is missing"),
        ("stream.segment_length", {"steps": 4, "episodes": 4}, "stream is missing"),
        ("stream.parameter", "", "stream.parameter is missing"),
        ("window", 5, "window is longer than a segment"),
        ("experiment", "a\u202eb", "cannot be printed"),
    ],
)
def test_what_is_not_is_named(tmp_path: Path, path: str, value: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read(tmp_path, changed(path, value))


def test_a_window_is_one_unit_if_it_is_not_given(tmp_path: Path) -> None:
    """So a segment of one step is long enough."""
    about = changed("stream.segment_length", {"steps": 1})
    assert read(tmp_path, about) == about


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"experiment": '])
def test_what_is_no_description_is_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / DESCRIPTION).write_text(content)
    with pytest.raises(UserError, match="damaged"):
        read_description(tmp_path)


def test_newer_formats_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"format 3, written by remanence 9\.9; this remanence reads formats up to 2"):
        read(tmp_path, {**VALID, "format": FORMAT + 1, "versions": {"remanence": "9.9"}})
    with pytest.raises(UserError, match=r"manifest\.json is missing"):
        read(tmp_path, {**VALID, "format": FORMAT})
    with pytest.raises(UserError, match=f"it has no {DESCRIPTION}"):
        read_description(tmp_path / "elsewhere")
