"""The notebook of first steps runs, shows what it is stored with, and needs no network."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import notebooks  # noqa: E402

STORED = json.loads((ROOT / "examples" / "first_steps.ipynb").read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(cell: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(output["output_type"], *output.get("data", {})) for output in cell["outputs"]]


def without_numbers(text: str) -> str:
    """Other machines may round otherwise, and a verdict may be close."""
    text = re.sub(r"^[^:\n]*(?=: PT-Q − Q)", "verdict", text)
    return re.sub(r"[-+]?\d[\d.,e-]*", "#", text)


def test_it_runs_as_it_is_stored() -> None:
    cells = code_cells(notebooks.run(STORED))
    assert [kinds(cell) for cell in cells] == [kinds(cell) for cell in code_cells(STORED)]
    printed = ["".join(output["text"]) for cell in cells for output in cell["outputs"] if "text" in output]
    stored = ["".join(output["text"]) for cell in code_cells(STORED) for output in cell["outputs"] if "text" in output]
    assert [without_numbers(text) for text in printed] == [without_numbers(text) for text in stored]
    assert any("PT-Q − Q = " in text for text in printed)


def test_what_is_stored_needs_no_network() -> None:
    assert [cell["execution_count"] for cell in code_cells(STORED)] == list(range(1, len(code_cells(STORED)) + 1))
    shown = json.dumps([cell["outputs"] for cell in code_cells(STORED)])
    assert "data:image/svg+xml;base64," in shown
    assert "<script" not in shown
    assert not re.search(r"(src|href)=\W*https?:", shown)
    assert (STORED["nbformat"], len({cell["id"] for cell in STORED["cells"]})) == (4, len(STORED["cells"]))


def test_a_cell_shows_its_last_line_and_what_it_prints() -> None:
    def cell(source: str) -> dict[str, Any]:
        return {"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": []}

    done = notebooks.run({"cells": [cell("print(1)\nx = 2\nx"), cell("x + 1;"), cell("y = 3"), cell("None")]})["cells"]
    assert done[0]["outputs"][0]["text"] == ["1\n"]
    assert done[0]["outputs"][1]["data"] == {"text/plain": ["2"]}
    assert [one["outputs"] for one in done[1:]] == [[], [], []]
