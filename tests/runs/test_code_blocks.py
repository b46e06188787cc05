"""Every block of Python in the documentation and the README is executed, page by page, as a reader would: the blocks of a page
share their names. Calls of `live` and `live_sweep` are made with shorter streams and fewer seeds.

`<!-- not run: reason -->` before a block leaves it out, `<!-- needs: module, module -->` where one is not installed. Whole files
that a page includes are run by `test_examples.py`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import remanence
from remanence.core.types import Episodes
from remanence.streams import Drift, Stationary, Switches

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?:<!-- (not run|needs): ([^\n]+?) -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
INCLUDE = '--8<-- "'
STEPS, EPISODES, SEGMENTS, SEEDS = 80, 2, 2, 2  # of the shorter calls: agents learn for some steps, after a batch of 64


def blocks(page: str) -> list[tuple[str, str]]:
    """(reason not to run it or "", code) of each block."""
    return [(left_out(mark, said), code) for mark, said, code in BLOCK.findall(page) if INCLUDE not in code]


def left_out(mark: str, said: str) -> str:
    if mark != "needs":
        return said
    missing = [module for module in re.split(r",\s*", said) if importlib.util.find_spec(module) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


WITH_CODE = [page for page in PAGES if any(not reason for reason, _ in blocks(page.read_text("utf-8")))]


def shorter(stream: Any) -> Any:
    """The same kind of stream, so short that a block takes seconds."""
    match stream:
        case int():
            return min(stream, STEPS)
        case Stationary() | Drift():
            return dataclasses.replace(stream, **_less(steps=stream.steps, episodes=stream.episodes))
        case Switches(every=every, segments=segments, order=order):
            few = Episodes(min(every.count, EPISODES)) if isinstance(every, Episodes) else min(every, STEPS // SEGMENTS)
            named = not isinstance(order, str)  # by hand: its length is the number of segments
            return dataclasses.replace(
                stream, every=few, segments=None if named else min(segments or SEGMENTS, SEGMENTS)
            )
    raise AssertionError(stream)


def _less(steps: int | None, episodes: int | None) -> dict[str, int | None]:
    return {"steps": steps and min(steps, STEPS), "episodes": episodes and min(episodes, EPISODES)}


def fewer(seeds: Any) -> Any:
    return min(seeds, SEEDS) if isinstance(seeds, int) else seeds and list(seeds)[:SEEDS]


def shortened(call: Callable[..., Any]) -> Callable[..., Any]:
    def short(agents: Any, env: Any, stream: Any, **options: Any) -> Any:
        for name in ("seeds", "tuning_seeds"):
            if name in options:
                options[name] = fewer(options[name])
        if "window" in options:
            options["window"] = min(options["window"], STEPS // SEGMENTS)
        return call(agents, env, shorter(stream), **{"progress": False, **options})

    return short


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in {"live", "live_sweep"} & {*remanence.__all__}:
        monkeypatch.setattr(remanence, name, shortened(getattr(remanence, name)))
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # agents that learned for some steps have strange values
        for number, (reason, code) in enumerate(blocks(page.read_text("utf-8")), start=1):
            if not reason:
                exec(compile(code, f"{page.name}, block {number}", "exec"), names)


def test_blocks_are_left_out_only_for_a_reason() -> None:
    page = (
        'a\n<!-- not run: on a cluster -->\n```python\n1/0\n```\n```python\nx = 1\n```\n```python\n--8<-- "f.py"\n```\n'
    )
    assert blocks(page) == [("on a cluster", "1/0\n"), ("", "x = 1\n")]
    needs = "<!-- needs: json, no_such_module -->\n```python\nx = 1\n```\n"
    assert blocks(needs) == [("not installed: no_such_module", "x = 1\n")]
    assert blocks(needs.replace(", no_such_module", "")) == [("", "x = 1\n")]


def test_a_shorter_stream_is_of_the_same_kind() -> None:
    assert shorter(50_000) == STEPS
    assert shorter(Stationary(episodes=100)) == Stationary(episodes=EPISODES)
    by_hand = Switches(print, (1, 2), every=500, order=(0, 1, 0), boundaries_known=True)
    assert shorter(by_hand) == dataclasses.replace(by_hand, every=STEPS // SEGMENTS)
    assert shorter(Switches(every=Episodes(9), segments=9)) == Switches(every=Episodes(EPISODES), segments=SEGMENTS)
