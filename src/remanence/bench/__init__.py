"""Benchmarks: how fast the engine is, compared with ordinary scripts, other libraries and the peak of the machine.

A benchmark is a module with `run(progress, sizes) -> Report` and two instances of its own `Sizes`: `FULL`, and `SMOKE` for the same
code in seconds. Those of deep agents take a third argument, `against`: a library of `PEERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

from remanence.bench.measure import Report
from remanence.core.errors import UserError, unknown

BENCHMARKS = ("prediction", "control", "theory", "deep", "jellybean", "minatar", "live")
PEERS = {
    "torch": ("torch", ("deep", "jellybean", "minatar")),
    "sb3": ("stable_baselines3", ("deep", "minatar", "live")),
}
"""other libraries: their packages, and the benchmarks that compare with them"""
SMOKE_REMARK = "smoke test: the sizes are tiny, the numbers mean nothing"


def run(name: str, progress: Callable[[str], None], smoke: bool = False, against: str | None = None) -> Report:
    """Runs one of `BENCHMARKS`, also against one of `PEERS`; `progress` is called with what is being measured."""
    if against is not None:
        _check_peer(name, against)
    benchmark = import_module(f"{__name__}.{name}")
    arguments = (progress, benchmark.SMOKE if smoke else benchmark.FULL, *([against] if against else []))
    report = benchmark.run(*arguments)
    return replace(report, remark=SMOKE_REMARK) if smoke else report


def _check_peer(name: str, against: str) -> None:
    if against not in PEERS:
        raise unknown("library", against, PEERS)
    package, benchmarks = PEERS[against]
    if name not in benchmarks:
        raise UserError(f"--against {against} is for the benchmarks {', '.join(benchmarks)}, not for {name}")
    if find_spec(package) is None:
        raise UserError(f"--against {against} needs another package: pip install 'remanence[bench]'")
