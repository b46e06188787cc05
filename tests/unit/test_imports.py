"""Imports point one way: which room of the package may know which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "remanence"

BASE = {"core", "updates", "streams", "metrics"}
MODEL = BASE | {"agents", "worlds", "theory"}
OUTPUT = {"results", "report"}
# room: the rooms it may import, besides itself
PLAN: dict[str, set[str]] = {
    "core": set(),
    "updates": {"core"},
    "streams": {"core"},
    "metrics": {"core"},
    "agents": BASE,
    "worlds": BASE | {"theory"},
    "theory": BASE,
    "engine": MODEL,
    "gym": MODEL | {"engine"},
    "runs": MODEL | {"engine", "gym"} | OUTPUT,
    "live_env": MODEL | {"engine", "gym", "runs"} | OUTPUT,
    "experiments": MODEL | {"engine", "gym", "runs"} | OUTPUT,
    "results": {"core", "metrics"},
    "report": {"core", "metrics", "results"},
    "bench": MODEL | {"engine", "gym", "runs", "live_env", "experiments"} | OUTPUT,
    "cli": MODEL | {"engine", "gym", "runs", "live_env", "experiments", "bench"} | OUTPUT,
}
FRONT = {"__init__", "__main__"}  # the package's front door gives names of all rooms to users
KNOWN_VIOLATIONS: list[tuple[str, str]] = []


def room(module: str) -> str:
    """`remanence.agents.dqn` -> `agents`; the package itself (its version) is no room: ``."""
    return module.removeprefix("remanence").removeprefix(".").partition(".")[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of the package's own modules, in functions too, but not for type checkers only."""
    yield from _imported(ast.parse(path.read_text(encoding="utf-8")))


def _imported(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for other in node.orelse:
            yield from _imported(other)
        return
    if isinstance(node, ast.Import):
        found = [name.name for name in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute here"
        whole = node.module == "remanence"  # `from remanence import gym` names a room
        rooms = [f"remanence.{name.name}" for name in node.names if name.name in PLAN]
        found = rooms if whole else [str(node.module)]
    else:
        found = []
    yield from ((node.lineno, name) for name in found if name.split(".")[0] == "remanence")  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        yield from _imported(child)


def arrows() -> dict[tuple[str, str], list[str]]:
    """(room, imported room) -> the places where that happens."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for line, module in [] if own in FRONT else imported(path):
            if room(module) not in ("", own):
                found.setdefault((own, room(module)), []).append(f"{path.relative_to(PACKAGE)}:{line}")
    return found


def test_every_module_has_a_room() -> None:
    there = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - FRONT - {"py.typed", "__pycache__"} <= set(PLAN)


def test_the_drawing_shows_every_room() -> None:
    drawing = (PACKAGE.parents[1] / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")
    assert sorted(re.findall(r'class="name"[^>]*>(\w+)<', drawing)) == sorted(PLAN)


def test_the_plan_has_no_circle() -> None:
    left = dict(PLAN)
    while left:
        free = [name for name, known in left.items() if not known & set(left)]
        assert free, f"these import each other: {sorted(left)}"
        for name in free:
            del left[name]


def test_imports_follow_the_plan() -> None:
    found = arrows()
    for own in PLAN:
        print(f"{own} -> {', '.join(sorted(other for one, other in found if one == own)) or 'nothing'}")
    wrong = {arrow: places for arrow, places in found.items() if arrow[1] not in PLAN.get(arrow[0], set())}
    for (own, other), places in wrong.items():
        print(f"against the plan: {own} -> {other} in {', '.join(places)}")
    assert sorted(wrong) == sorted(KNOWN_VIOLATIONS)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from remanence.agents.dqn import dqn", [(1, "remanence.agents.dqn")]),
        ("def f():\n    import remanence.cli", [(2, "remanence.cli")]),
        ("if TYPE_CHECKING:\n    import remanence.cli\nelse:\n    import remanence.gym", [(4, "remanence.gym")]),
        ("from remanence import __version__, gym\nimport jax", [(1, "remanence.gym")]),
    ],
)
def test_imports_are_read(source: str, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert list(imported(tmp_path / "module.py")) == expected
