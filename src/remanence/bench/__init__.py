"""Benchmarks: how fast the engine is, next to the usual way of doing the same and next to what the machine can do.

A benchmark is a module with `run(progress, sizes) -> Report` and two instances of its own `Sizes`: `FULL`, and `SMOKE` for the same
path in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from remanence.bench.measure import Report

BENCHMARKS = ("prediction", "control", "theory", "deep", "jellybean", "minatar")
SMOKE_REMARK = "smoke test: the sizes are tiny, the numbers mean nothing"


def run(name: str, progress: Callable[[str], None], smoke: bool = False) -> Report:
    """Runs one of `BENCHMARKS`; `progress` is called with what is being measured."""
    benchmark = import_module(f"{__name__}.{name}")
    if smoke:
        return replace(benchmark.run(progress, benchmark.SMOKE), remark=SMOKE_REMARK)
    return benchmark.run(progress, benchmark.FULL)
