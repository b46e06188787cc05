"""A small part of `make fuzz`: mutated input gives no traceback, no silent change, and runs no code."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest

from fuzz import FUZZERS
from fuzz.harness import ACCEPTED, REFUSED, TRACEBACK, Answer, Tally, attempt, command
from fuzz.mutations import pickled_array

TRIES = {"cli": 26, "live": 18, "policies": 24, "descriptions": 8, "mrp": 8, "tables": 30}


@pytest.mark.parametrize("name", FUZZERS)
def test_mutated_input_does_no_harm(name: str, tmp_path: Path) -> None:
    fuzz, usual = FUZZERS[name]
    assert TRIES[name] < usual
    tally = fuzz(TRIES[name], random.Random(name), tmp_path)
    assert not tally.defects, "\n".join(tally.defects)
    assert tally.tries == TRIES[name]
    assert tally.counts[REFUSED] > 0  # something was mutated so that it matters


def test_the_canary_sings(tmp_path: Path) -> None:
    """What is planted would run if it were loaded, and it is counted then."""
    tally = Tally("test", tmp_path / "canary")
    np.load(io.BytesIO(pickled_array(tally.canary)), allow_pickle=True)
    tally.add("planted", Answer(ACCEPTED))
    assert len(tally.defects) == tally.counts["code"] == 1
    assert not tally.canary.exists()


def test_errors_and_odd_exit_codes_count_as_tracebacks() -> None:
    assert attempt(lambda: 1 / 0).kind == TRACEBACK
    assert command("check", "nosuch").kind == REFUSED
    assert command("--help").kind == ACCEPTED
