"""Experiments: contenders in a world, what is measured, and the paper's claims."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
from rich.console import Console

from remanence.agents.base import Agent, check_hyper
from remanence.core.errors import UserError, unknown
from remanence.core.types import Hypers, Steps
from remanence.engine.life import Probe
from remanence.results.claims import Claim
from remanence.results.store import Results
from remanence.runs.execution import Execution
from remanence.streams import Stream
from remanence.worlds.base import World

PAPER, RELEASED, SMOKE = "paper", "released", "smoke"


@dataclass(frozen=True)
class Contender:
    """An agent with its hyperparameters."""

    agent: Agent
    hypers: Hypers
    form: Mapping[str, Any]
    """what shapes the agent's program, in words and numbers: goes into the description of a run"""
    search: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """the values the paper searched, per hyperparameter"""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of an experiment, except seeds."""

    world: World
    stream: Stream
    contenders: Mapping[str, Contender]
    probe: Callable[[Agent], Probe]
    truth: str
    """how true values are computed: part of the description of a run"""
    seeds: int = 30
    round_steps: int = 8
    meet_at: float = 1.0
    """the share of lanes that must rest before those that are due consolidate"""
    max_steps: int | None = None
    """a lane that needs more steps is stopped and counts as diverged"""
    lanes_at_once: int = 1500
    """lanes of a sweep that run at the same time: enough to fill vector units, few enough for their buffers to fit memory"""
    window: int = 1
    """steps per point of a curve, if the stream counts steps"""
    maps: Callable[[Agent], Probe] | None = None
    """value maps to record: estimates at every evaluation point"""
    map_windows: tuple[int, ...] = ()
    """episodes after which value maps are recorded"""

    def select(self, names: Iterable[str]) -> Plan:
        """The same plan with some of its contenders."""
        wanted = list(names)
        for name in wanted:
            if name not in self.contenders:
                raise unknown("contender", name, self.contenders)
        return dataclasses.replace(self, contenders={name: self.contenders[name] for name in wanted})

    def shortened(
        self, segments: int | None = None, segment_length: int | None = None, steps: int | None = None
    ) -> Plan:
        """The same plan with fewer or shorter segments, or fewer steps in total; value maps beyond the end are dropped."""
        if steps is not None:
            segments, segment_length = self._of_steps(steps, segments, segment_length)
        for what, asked, most in (
            ("segments", segments, self.stream.segments),
            ("segment_length", segment_length, self.stream.segment_length.count),
        ):
            if asked is not None and not 1 <= asked <= most:
                raise UserError(f"--{what} must be between 1 and {most} here; got {asked}")
        stream = self.stream.shortened(
            segments or self.stream.segments, segment_length or self.stream.segment_length.count
        )
        window = math.gcd(self.window, stream.segment_length.count)
        last = stream.segments * stream.segment_length.count // window
        return dataclasses.replace(
            self,
            stream=stream,
            window=window,
            map_windows=tuple(sorted({min(window, last) for window in self.map_windows})),
        )

    def _of_steps(self, steps: int, segments: int | None, segment_length: int | None) -> tuple[int, int]:
        """A total number of steps, as segments and their length."""
        if not isinstance(self.stream.segment_length, Steps):
            raise UserError(
                "--steps is for experiments that count steps; this one counts episodes: use --segments and --segment-length"
            )
        if segments is not None or segment_length is not None:
            raise UserError("give either --steps, or --segments and --segment-length")
        segment_length = min(self.stream.segment_length.count, max(steps, 1))
        if steps < 1 or steps % segment_length or steps // segment_length > self.stream.segments:
            raise UserError(
                f"--steps must be at most {segment_length}, or a multiple of it up to "
                f"{segment_length * self.stream.segments}; got {steps}"
            )
        return steps // segment_length, segment_length

    def override(self, contender: str, hyper: str, value: float) -> Plan:
        """The same plan with one hyperparameter changed."""
        if contender not in self.contenders:
            raise unknown("contender", contender, self.contenders)
        old = self.contenders[contender]
        names = [item.name for item in dataclasses.fields(old.hypers)]
        if hyper not in names:
            raise unknown(f"hyperparameter of {contender}", hyper, names)
        check_hyper(f"{contender}.{hyper}", value)
        new = dataclasses.replace(old, hypers=dataclasses.replace(old.hypers, **{hyper: value}))
        return dataclasses.replace(self, contenders={**self.contenders, contender: new})

    def with_grid(self, contender: str, hyper: str, values: tuple[float, ...]) -> Plan:
        """The same plan with another grid for one hyperparameter."""
        if not values:
            raise UserError(f"the grid of {contender}.{hyper} is empty: give at least one value")
        for value in values:
            self.override(contender, hyper, value)  # checks names and value
        old = self.contenders[contender]
        new = dataclasses.replace(old, search={**old.search, hyper: values})
        return dataclasses.replace(self, contenders={**self.contenders, contender: new})


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str
    figure: str
    """figure or section of the paper"""
    title: str
    plans: Mapping[str, Callable[[], Plan]]
    """functions that make the plan of each preset, the default one first"""
    figures: Callable[[Results], dict[str, alt.TopLevelMixin]]
    claims: Callable[[Results], list[Claim]]
    expected: str
    """how long the paper preset takes on two cores"""
    primary_metrics: tuple[str, ...] = ()
    """the primary metrics"""
    continual: str = ""
    """the metric for jumpstart, recovery, forgetting and transfer; default: the first primary metric"""
    remarks: tuple[str, ...] = ()
    """notes for the reader of the results"""
    sweep_of: str = ""
    """for a sensitivity figure: the experiment whose sweep it shows"""
    run_of: str = ""
    """for another figure from the runs of an experiment: its name"""
    paper_values: Mapping[tuple[str, tuple[float, ...]], float] = field(default_factory=dict)
    """for a sensitivity table: the paper's value for (contender, its searched values)"""
    run_fn: Callable[[Plan, str, int, Path, Console, Execution], Results] | None = None
    """for an experiment with its own way to run: (plan, preset, seeds, out, console, execution) -> its results"""

    @property
    def default_preset(self) -> str:
        return next(iter(self.plans))

    def plan(self, preset: str) -> Plan:
        if preset not in self.plans:
            raise unknown(f"preset of {self.name}", preset, self.plans)
        return self.plans[preset]()


def shrink(plan: Plan, segments: int, segment_length: int, seeds: int) -> Plan:
    """A small version that runs in seconds: fewer and shorter segments, fewer seeds."""
    return dataclasses.replace(plan.shortened(segments, segment_length), seeds=seeds)
