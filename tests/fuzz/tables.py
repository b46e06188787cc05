"""Result tables with one flipped bit: every one is named, whoever reads it."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz.harness import ACCEPTED, Answer, Tally, attempt, command, copied
from fuzz.mutations import flipped
from remanence import load_results
from remanence.results import manifest

READERS = ("load_results", "show", "check", "report", "load_results")


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("tables, one bit", place / "canary")
    samples = [copied(f"format2/{kind}", place / kind) for kind in ("run", "sweep", "live")]
    tables = [path for sample in samples for path in sorted(sample.glob("*.parquet"))]
    patience, manifest.TRIES = manifest.TRIES, 1  # no other process writes here
    try:
        for number in range(tries):
            table, reader = tables[number % len(tables)], READERS[number % len(READERS)]
            content = table.read_bytes()
            bit = rng.randrange(8 * len(content))
            table.write_bytes(flipped(content, bit))
            answer = _read(reader, table.parent, place)
            named = table.name in "".join(answer.said.split())
            silent = "" if answer.kind != ACCEPTED and named else f"{reader} does not name it: {answer.said}"
            tally.add((str(table.relative_to(place)), bit, reader), answer, silent)
            table.write_bytes(content)
    finally:
        manifest.TRIES = patience
    return tally


def _read(reader: str, run: Path, place: Path) -> Answer:
    if reader == "load_results":
        return attempt(lambda: load_results(run))
    return command(reader, run, *(["--to", place / "page"] if reader == "report" else []))
