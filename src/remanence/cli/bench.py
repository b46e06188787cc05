"""`remanence bench`"""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from remanence.core.errors import unknown
from remanence.report.terminal import print_json, print_rich


@dataclass(frozen=True)
class BenchCommand:
    """Measure how fast the engine is, against other ways of doing the same."""

    what: Positional[str] = "prediction"
    """which benchmark: prediction, control, theory, deep, jellybean, minatar or live"""
    smoke: bool = False
    """only try that it works: tiny sizes, a few seconds, numbers that mean nothing"""
    against: str | None = None
    """also time the same agents in another library: torch (for deep, jellybean, minatar) or sb3 (for deep, minatar, live)"""
    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from remanence.bench import BENCHMARKS, run
        from remanence.bench.measure import render
        from remanence.runs.progress import messages

        if self.what not in BENCHMARKS:
            raise unknown("benchmark", self.what, BENCHMARKS)
        report = run(self.what, messages().print, self.smoke, self.against)
        if self.json:
            print_json(report.to_json())
        else:
            print_rich(render(report))
