"""What an experiment is: plans by preset, figures, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import altair as alt
from rich.console import Console

from remanence.core.errors import unknown
from remanence.results.claims import Claim
from remanence.results.store import Results
from remanence.runs.execution import Execution
from remanence.runs.plan import Plan

PAPER, RELEASED, SMOKE = "paper", "released", "smoke"


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str
    figure: str
    """where it stands in the paper"""
    title: str
    plans: Mapping[str, Callable[[], Plan]]
    """by preset, the usual one first; made when needed"""
    figures: Callable[[Results], dict[str, alt.TopLevelMixin]]
    claims: Callable[[Results], list[Claim]]
    expected: str
    """how long the paper preset takes on two cores"""
    primary_metrics: tuple[str, ...] = ()
    """the metrics a reader looks at first"""
    continual: str = ""
    """the metric that jumpstart and its kin are computed from; the first of the headline if not given"""
    remarks: tuple[str, ...] = ()
    """what a reader must know to judge the result"""
    sweep_of: str = ""
    """for a sensitivity figure: the experiment whose settings are all run"""
    run_of: str = ""
    """for another look at the runs of an experiment: its name"""
    paper_values: Mapping[tuple[str, tuple[float, ...]], float] = field(default_factory=dict)
    """for a sensitivity table: what the paper prints for (contender, its searched values)"""
    run_fn: Callable[[Plan, str, int, Path, Console, Execution], Results] | None = None
    """for an experiment that is more than its plan's lanes: (plan, preset, seeds, out, console, execution) -> all of its results"""

    @property
    def default_preset(self) -> str:
        return next(iter(self.plans))

    def plan(self, preset: str) -> Plan:
        if preset not in self.plans:
            raise unknown(f"preset of {self.name}", preset, self.plans)
        return self.plans[preset]()
