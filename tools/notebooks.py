"""Runs a notebook without Jupyter and keeps what its cells show: `python tools/notebooks.py examples/first_steps.ipynb`."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

MIME_METHODS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with the outputs of all code cells, which run one after the other."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = {**cell, "execution_count": count, "outputs": _outputs("".join(cell["source"]), scope, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, scope: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, and what its last line is."""
    body = ast.parse(source).body
    shows = bool(body) and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = ast.Expression(body.pop().value) if shows else None  # type: ignore[attr-defined]
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(ast.Module(body, []), f"<cell {count}>", "exec"), scope)
        value = eval(compile(last, f"<cell {count}>", "eval"), scope) if last else None
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())})
    if value is not None:
        data = {mime: _lines(text) for mime, text in _shown(value).items()}
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
        outputs.append(result)
    return outputs


def _shown(value: Any) -> dict[str, str]:
    """What a notebook shows of a value."""
    found = {"text/plain": repr(value)}
    if hasattr(value, "_repr_mimebundle_"):
        return {**found, **value._repr_mimebundle_()}
    return found | {mime: getattr(value, name)() for mime, name in MIME_METHODS.items() if hasattr(value, name)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(*paths: str) -> None:
    for path in map(Path, paths):
        done = run(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {sum(cell['cell_type'] == 'code' for cell in done['cells'])} cells")


if __name__ == "__main__":
    main(*sys.argv[1:])
