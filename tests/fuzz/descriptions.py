"""Mutated descriptions of runs: whoever reads them, damage is named, nothing in them runs, and pages and terminals show text."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.harness import ACCEPTED, Answer, Tally, attempt, command, copied, files
from fuzz.mutations import JSON_VALUES, SCRIPT, mutated_bytes, mutated_json
from remanence import load_results
from remanence.results import manifest
from remanence.results.description import DESCRIPTION
from remanence.results.directory import NOT_HASHED, RunDirectory
from remanence.results.store import find_runs

KINDS = ("run", "sweep", "live")
SIZES = ("--preset", "smoke", "--seeds", "2", "--segment-length", "3", "--contenders", "TD", "PT-TD")
STEERS = "\x1b[31m"  # a terminal


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("descriptions", place / "canary")
    planted = place / "planted.py"
    planted.write_text(f"open({str(tally.canary)!r}, 'w').close()")
    values = (*JSON_VALUES, str(planted), f"{planted}:EXPERIMENT", f"<img src=x onerror={SCRIPT}>")
    assert command("run", "figure2/tabular", *SIZES, "--out", place / "made").kind == ACCEPTED
    (made,) = find_runs(place / "made", "figure2/tabular")
    patience, manifest.TRIES = manifest.TRIES, 1  # no other process writes here
    try:
        for number in range(tries):
            protected, kind = number % 2 == 0, KINDS[number // 2 % len(KINDS)]
            run = _at_home(_copy(made, kind, protected, place / "run"), place / "runs")
            content = (run / DESCRIPTION).read_bytes()
            forged = protected and number % 4 == 0
            mutant = _mutant(content, number, values, rng)
            (run / DESCRIPTION).write_bytes(mutant)
            if forged:
                _forge(run, mutant)
            readers = _readers(run, place, kind)
            for reader, read in readers.items():
                before = files(run)
                answer = read()
                silent = _silent(reader, answer, run, before, content, mutant, protected and not forged)
                tally.add((number, kind, reader, mutant), answer, silent, _code(answer, place / "page"))
                tally.tries -= reader != next(iter(readers))  # a mutation is one try, whoever reads it
    finally:
        manifest.TRIES = patience
    return tally


def _copy(made: Path, kind: str, protected: bool, to: Path) -> Path:
    """A run with or without checksums: of this version where it is resumed, else a kept one."""
    if kind != "run":
        return copied(f"format{2 if protected else 1}/{kind}", to)
    shutil.rmtree(to, ignore_errors=True)
    run = Path(shutil.copytree(made, to))
    if not protected:
        (run / manifest.MANIFEST).unlink()
    return run


def _at_home(run: Path, out: Path) -> Path:
    """The run where the command that began it looks for it."""
    shutil.rmtree(out, ignore_errors=True)
    home = RunDirectory(out, json.loads((run / DESCRIPTION).read_text())).path
    home.parent.mkdir(parents=True)
    return Path(shutil.move(run, home))


def _mutant(content: bytes, number: int, values: tuple[Any, ...], rng: random.Random) -> bytes:
    if number % 8 == 7:
        return mutated_bytes(content, rng)
    if number % 8 == 6:  # what names an experiment is what code could hide behind
        return json.dumps({**json.loads(content), "experiment": rng.choice(values)}).encode()
    return json.dumps(mutated_json(json.loads(content), rng, values)).encode()


def _forge(run: Path, mutant: bytes) -> None:
    """The manifest of somebody who wants the change to be believed."""
    told = json.loads((run / manifest.MANIFEST).read_text())
    told["files"][DESCRIPTION] = [manifest.checksum(mutant)]
    del told["checksum"]
    told["checksum"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    (run / manifest.MANIFEST).write_text(json.dumps(told))


def _readers(run: Path, place: Path, kind: str) -> dict[str, Callable[[], Answer]]:
    shutil.rmtree(place / "page", ignore_errors=True)
    readers = {
        "load_results": lambda: attempt(lambda: load_results(run)),
        "show": lambda: command("show", run),
        "show --json": lambda: command("show", run, "--json"),
        "check": lambda: command("check", run),
        "report": lambda: command("report", run, "--to", place / "page"),
    }
    if kind == "run":
        readers["resume"] = lambda: command("run", "figure2/tabular", *SIZES, "--out", place / "runs")
    return readers


def _silent(
    reader: str, answer: Answer, run: Path, before: dict[str, bytes], content: bytes, mutant: bytes, protected: bool
) -> str:
    """What changed without a word: files of the run, or a description that checksums or its own hash contradict."""
    if files(run) != before:
        return f"{reader} changed the files of the run: {answer.said}"
    if answer.kind != ACCEPTED or mutant == content:
        return ""
    if protected:
        return f"{reader} takes a description that the manifest contradicts"
    if reader == "resume" and _hashed(mutant) != _hashed(content):
        return "resume takes a description of another run"
    return ""


def _hashed(content: bytes) -> str:
    """What makes a description that of this run, as text."""
    return json.dumps({key: value for key, value in json.loads(content).items() if key not in NOT_HASHED})


def _code(answer: Answer, page: Path) -> str:
    if STEERS in answer.said:
        return "the terminal gets a control character"
    pages = [*page.glob("*.html"), *page.glob("*.svg")] if page.exists() else []
    return next((f"{file.name} has a script" for file in pages if SCRIPT in file.read_text()), "")
