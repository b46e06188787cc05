"""Mutated input, about 1200 times: no traceback, no number that changes without a word, no code that runs.

`make fuzz` tries everything; `tests/runs/test_fuzz.py` a small part of it. The seed is fixed, so a try that fails fails again.
"""

from __future__ import annotations

from fuzz import command_line, descriptions, live_calls, mrp_files, policies, tables
from fuzz.harness import Fuzzer

# Each fuzzer, and its usual number of tries.
FUZZERS: dict[str, tuple[Fuzzer, int]] = {
    "cli": (command_line.fuzz, 325),
    "live": (live_calls.fuzz, 180),
    "policies": (policies.fuzz, 180),
    "descriptions": (descriptions.fuzz, 144),
    "mrp": (mrp_files.fuzz, 192),
    "tables": (tables.fuzz, 300),
}
