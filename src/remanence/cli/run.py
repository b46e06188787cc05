"""`remanence run`"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path

from tyro.conf import OmitArgPrefixes, Positional

from remanence.cli.options import TUNING_FROM, count_of, parse_change
from remanence.cli.sweep import sweep_stage
from remanence.core.errors import UserError
from remanence.report.terminal import as_json, print_json, print_rich, share_of, show_results, size
from remanence.runs.execution import Execution


@dataclass(frozen=True)
class Run:
    """Run an experiment, or resume it."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; default: paper, or the first preset of your own experiment"""
    seeds: int | None = None
    """number of seeds; default: as in the preset"""
    out: Path = Path("runs")
    """directory of all runs"""
    segments: int | None = None
    """shorten the run to this number of tasks"""
    segment_length: int | None = None
    """shorten the run to this number of episodes (or steps) per task"""
    steps: int | None = None
    """shorten the run to this number of steps in total, if the experiment counts steps"""
    contenders: tuple[str, ...] = ()
    """run only these agents"""
    set: tuple[str, ...] = ()
    """change any field of an agent's configuration, each as AGENT.FIELD=VALUE"""
    one_at_a_time: bool = False
    """of a sensitivity experiment: search one field at a time, the others keep the agent's own values"""
    parts: bool = False
    """record what becomes of permanent and transient values: shares absorbed and kept, sizes, drift"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where to run"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.progress import messages
        from remanence.runs.run import execute

        started = time.monotonic()
        console = messages()
        self.execution.prepare()
        experiment = get(self.name)
        preset = self.preset or experiment.default_preset
        full = plan = experiment.plan(preset)
        changes: dict[str, dict[str, str]] = {}
        for agent, name, value in (parse_change(change, plan) for change in self.set):
            changes.setdefault(agent, {})[name] = value
        for agent, fields in changes.items():
            plan = plan.override_all(agent, fields)
        if self.contenders:
            plan = plan.select(self.contenders)
        plan = plan.shortened(self.segments, self.segment_length, self.steps)
        if self.one_at_a_time:
            if not experiment.sweep_of:
                raise UserError(
                    f"{self.name} searches nothing: --one-at-a-time is for sweeps and sensitivity experiments"
                )
            plan = plan.one_at_a_time()
        if self.parts:
            if experiment.sweep_of or experiment.run_fn:
                raise UserError(f"{self.name} records no curves of its agents: --parts has nothing to add")
            plan = dataclasses.replace(plan, watch_parts=True)
        seeds = count_of("--seeds", self.seeds, plan.seeds)
        console.print(
            f"{experiment.name} ({preset}): {size(plan, seeds)}; expected {experiment.expected} at full size"
            f"{share_of(plan, seeds, full)}"
        )
        if experiment.sweep_of:
            results = sweep_stage(
                experiment, preset, plan, range(TUNING_FROM, TUNING_FROM + seeds), self.out, self.execution
            )
        elif experiment.run_fn:
            if self.set:
                raise UserError(f"{self.name} chooses its step sizes itself: --set has nothing to change")
            results = experiment.run_fn(plan, preset, seeds, self.out, console, self.execution)
        else:
            name = experiment.run_of or experiment.name
            results = execute(name, preset, plan, seeds, self.out, console, self.execution)
        seconds = time.monotonic() - started
        if self.json:
            print_json(as_json(experiment, results, seconds))
        else:
            show_results(experiment, results)
            print_rich(f"\n{seconds:.1f} s; saved in {results.path}. `remanence report` draws the figures.")
