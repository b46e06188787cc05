"""Changes single operators and numbers of a module and runs its unit tests: a change that no test notices survives.

`python tools/mutants.py [--share 0.2] [--module agents/td.py …]`. Each mutant runs in a forked process, which imports the changed
source instead of the file; nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "remanence"
SECONDS = 240
# module: (its unit tests, how many mutants by default)
MODULES: dict[str, tuple[tuple[str, ...], int]] = {
    "updates.py": (("updates",), 12),
    "agents/td.py": (("td", "q"), 6),
    "agents/pt.py": (("pt", "q"), 6),
    "agents/linear.py": (("linear", "pt"), 6),
    "agents/ring.py": (("ring",), 6),
    "agents/behaviour.py": (("behaviour",), 4),
    "agents/replay.py": (("replay",), 8),
    "agents/visits.py": (("q", "pt", "shares"), 4),
    "agents/shares.py": (("shares", "configs"), 6),
    "agents/absorption.py": (("shares",), 6),
    "agents/n_step.py": (("dqn_options",), 4),
    "agents/dqn.py": (("dqn", "dqn_options", "shares"), 8),
    "results/statistics.py": (("statistics", "verdicts"), 10),
    "results/claims.py": (("verdicts", "results"), 8),
    "results/continual.py": (("continual", "live_results"), 8),
    "results/gains.py": (("gains",), 5),
    "results/summary.py": (("live_results", "results"), 6),
    "results/description.py": (("description",), 4),
}
_OTHER: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
}
_NAMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "any": "all", "all": "any"}
_NAMES |= {"mean": "sum", "where": "where", "tree_where": "tree_where"}  # the last two: branches swapped


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of the code itself: no annotations, messages of errors, decorators or strings."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
            continue
        yield child
        yield from places(child)


def skipped(tree: ast.AST) -> set[int]:
    """Annotations and decorators, by identity."""
    found = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):  # X = Callable[…]
            parts.append(node.value)
        found |= {id(one) for part in parts if part is not None for one in ast.walk(part)}
    return found


def change(node: Any) -> str:
    """Changes a node in place and says how; empty if there is nothing to change."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            node.ops = [_OTHER[type(op)]()]
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in _OTHER:
            node.op = _OTHER[type(op)]()
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            node.operand = ast.UnaryOp(node.op, node.operand)  # twice is not at all
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _NAMES:
            if name.endswith("where"):
                if len(node.args) != 3:
                    return ""
                node.args[1], node.args[2] = node.args[2], node.args[1]
            elif isinstance(node.func, ast.Attribute):
                node.func.attr = _NAMES[name]
            else:
                node.func = ast.Name(_NAMES[name], ast.Load())
        case _:
            return ""
    return ast.unparse(node)


def mutants(source: str) -> list[tuple[int, str, str, str]]:
    """(line, before, after, source) of every mutant."""
    tree, found = ast.parse(source), []
    ignored = skipped(tree)
    for number, node in enumerate(places(tree)):
        if id(node) in ignored or not hasattr(node, "lineno"):
            continue
        changed = copy.deepcopy(tree)
        before, other = ast.unparse(node), list(places(changed))[number]
        after = change(other)
        if after and after != before:
            found.append((node.lineno, before, after, ast.unparse(changed)))  # type: ignore[attr-defined]
    return found


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a text."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        if fullname != self.name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=fullname)

    def exec_module(self, module: Any) -> None:
        exec(compile(self.source, self.name, "exec"), module.__dict__)


def survives(module: str, source: str, tests: list[str]) -> bool:
    """Whether all tests pass with this source."""
    child = os.fork()
    if not child:
        os.setsid()
        signal.alarm(SECONDS)  # a mutant may never end
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        name = "remanence." + module.removesuffix(".py").replace("/", ".")
        sys.meta_path.insert(0, Changed(name, source))
        import pytest
        from hypothesis import settings

        class Fixtures:
            """Those of conftest.py that unit tests name. Here programs are always optimized."""

            @pytest.fixture
            def optimized(self) -> None: ...

        settings.register_profile("mutants", deadline=None, max_examples=40, derandomize=True)
        settings.load_profile("mutants")
        # Without conftest.py, unless a test imports it: it starts jax, which takes longer than most of these tests.
        options = ["-x", "-q", "-p", "no:cacheprovider", "--noconftest"]
        os._exit(int(pytest.main([*options, *tests], plugins=[Fixtures()])))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def main() -> int:
    options = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    options.add_argument("--module", nargs="*", choices=MODULES, default=list(MODULES))
    options.add_argument("--share", type=float, default=1.0, help="of the default number of mutants")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    for slow in ("jax", "numpy", "polars", "scipy.stats", "scipy.special", "optax", "hypothesis", "pytest"):
        importlib.import_module(slow)  # once, before the forks; jax does not start by this
    killed = total = 0
    for module in asked.module:
        source = (PACKAGE / module).read_text(encoding="utf-8")
        names, count = MODULES[module]
        tests = [str(path) for name in names if (path := ROOT / "tests" / "unit" / f"test_{name}.py").exists()]
        started = time.monotonic()
        if not survives(module, source, tests):
            print(f"{module}: its tests fail without any change")
            return 1
        all_of_them = mutants(source)
        some = random.Random(f"{asked.seed} {module}").sample(
            all_of_them, min(len(all_of_them), max(1, round(asked.share * count)))
        )
        alive = [one for one in sorted(some) if survives(module, one[3], tests)]
        killed, total = killed + len(some) - len(alive), total + len(some)
        took = time.monotonic() - started
        print(
            f"{module}: {len(some) - len(alive)} of {len(some)} die ({len(all_of_them)} exist), {took:.0f} s",
            flush=True,
        )
        for line, before, after, _ in alive:
            print(f"  line {line} survives: {before[:100]}  ->  {after[:100]}", flush=True)
    print(f"{killed} of {total} mutants die: {killed / total:.0%}")
    return 0 if killed >= 0.95 * total else 1


if __name__ == "__main__":
    sys.exit(main())
