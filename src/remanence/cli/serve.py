"""`remanence serve`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True)
class Serve:
    """Follow runs in a browser: a page on this machine that shows their curves while they run."""

    out: Positional[Path] = Path("runs")
    """directory of all runs, or of one"""
    port: int = 8000
    """port on the loopback interface; 0: any that is free"""

    def execute(self) -> None:
        from remanence.report.serve import serve
        from remanence.runs.progress import messages

        if not self.out.exists():
            messages().print(f"there is no directory '{self.out}' yet: the page waits for the first run")
        serve(self.out, self.port, lambda address: messages().print(f"open {address} (Ctrl-C ends)"))
