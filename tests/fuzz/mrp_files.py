"""Mutated files for `remanence theory --mrp`: refused with a sentence, or read as they are."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.harness import ACCEPTED, Answer, Tally, command
from fuzz.mutations import mutated_bytes, mutated_json, mutated_npz

CHAIN = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]]
PROCESSES: tuple[dict[str, Any], ...] = (
    {"P": CHAIN, "r": [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]], "gamma": 0.6, "c": 0.1},
    {"P": [CHAIN, CHAIN], "r": [[1, 0, 0], [0, 0, 2]], "gamma": 0.5, "p": [0.25, 0.75], "c": [0.0, 0.1, 0.2]},
    {"P": [[0.5, 0.5], [0.5, 0.5]], "r": [[[1, 0], [0, 1]]], "gamma": 0.0},
)
NUMBERS: tuple[Any, ...] = (
    *(None, True, "0.5", "x", "", -0.5, 1.5, 1, 0, float("nan"), float("inf"), 1e308, 1e-308, 10**400, 2**70),
    *([], {}, [[]], [[1.0]], [0.5, 0.5], [[0.5, 0.5]], {"a": 1}),
)


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("MRP files", place / "canary")
    intact = place / "intact.json"
    intact.write_text(json.dumps(PROCESSES[0]))
    assert command("theory", "--mrp", intact, "--json").kind == ACCEPTED
    for number in range(tries):
        process = PROCESSES[number % len(PROCESSES)]
        file, content, loaded = _mutant(process, number, rng, tally.canary)
        path = place / file
        path.write_bytes(content)
        answer = command("theory", "--mrp", path, "--json")
        tally.add((file, content), answer, _silent(answer, loaded))
        path.unlink()
    return tally


def _mutant(process: dict[str, Any], number: int, rng: random.Random, canary: Path) -> tuple[str, bytes, Any]:
    """A name, its content, and what is in it if it is intact; None if it is damaged."""
    arrays = {name: np.asarray(value, np.float64) for name, value in process.items()}
    if number % 4 == 0:
        return "a.npz", mutated_npz(arrays, rng, canary), None
    if number % 4 == 1:
        saved = io.BytesIO()
        np.savez(saved, **arrays)  # type: ignore[arg-type]
        return "a.npz", mutated_bytes(saved.getvalue(), rng), process
    if number % 16 == 2:
        return "a.json", mutated_bytes(json.dumps(process).encode(), rng), None
    if number % 16 == 6:  # a key twice: which one counts?
        text = json.dumps(process)
        return "a.json", (text[:-1] + f', "gamma": {rng.choice([0.1, 0.9])}}}').encode(), process
    name = rng.choice(["a.json"] * 12 + ["a.txt", "a", "a.JSON", "é☃.json"])
    return name, json.dumps(mutated_json(process, rng, NUMBERS)).encode("utf-8", "surrogatepass"), None


def _silent(answer: Answer, intact: dict[str, Any] | None) -> str:
    """A damaged copy of `intact` must not be read as other numbers; text is no number."""
    if answer.kind != ACCEPTED:
        return ""
    found = json.loads(answer.value)
    if intact is not None:
        return "" if found["summary"] == _summary(intact) else f"read as {found['summary']}"
    numbers = json.dumps(found)
    return f"not a number in {numbers}" if "NaN" in numbers or "Infinity" in numbers else ""


def _summary(process: dict[str, Any]) -> Any:
    from remanence.theory import RewardProcess
    from remanence.theory.checks import summary

    given = RewardProcess(process["P"], process["r"], process["gamma"], process.get("p"), process.get("c", 0.0))
    return json.loads(json.dumps(summary(given)))
