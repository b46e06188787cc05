"""`remanence sweep`"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import OmitArgPrefixes, Positional

from remanence.cli.options import TUNING_FROM, count_of, parse_grid
from remanence.core.errors import UserError
from remanence.report.terminal import as_json, print_json, print_rich, show_results
from remanence.runs.execution import Execution

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment
    from remanence.results.store import Results
    from remanence.runs.plan import Plan


@dataclass(frozen=True)
class Sweep:
    """Run all settings of the paper's grids on tuning seeds, then the best ones on reporting seeds."""

    name: Positional[str]
    """the experiment, as `remanence list` names it; or your own, as FILE.py or FILE.py:NAME"""
    preset: str | None = None
    """paper, released or smoke; default: paper, or the first preset of your own experiment"""
    tuning_seeds: int | None = None
    """number of tuning seeds; default: as many as reporting seeds"""
    tuning_from: int = TUNING_FROM
    """the first tuning seed; they must not overlap the reporting seeds, which count from 0"""
    seeds: int | None = None
    """number of reporting seeds; default: as in the preset"""
    out: Path = Path("runs")
    """directory of all runs"""
    contenders: tuple[str, ...] = ()
    """sweep only these agents"""
    grid: tuple[str, ...] = ()
    """search other values of any number in an agent's configuration, each as AGENT.FIELD=A,B,C"""
    one_at_a_time: bool = False
    """search one field at a time, while the others keep the agent's own values, not every combination"""
    json: bool = False
    """print the result as one JSON object on standard output"""
    execution: OmitArgPrefixes[Execution] = field(default_factory=Execution)
    """how and where to run"""

    def execute(self) -> None:
        from remanence.experiments import get
        from remanence.runs.progress import messages
        from remanence.runs.run import execute
        from remanence.runs.sweep import best_settings, check_disjoint, win_shares, with_settings

        started = time.monotonic()
        console = messages()
        self.execution.prepare()
        experiment = get(self.name)
        if experiment.sweep_of:
            raise UserError(f"{self.name} is a sweep already: `remanence run {self.name}`")
        if experiment.run_fn:
            raise UserError(f"{self.name} chooses its step sizes itself: `remanence run {self.name}`")
        preset = self.preset or experiment.default_preset
        plan = experiment.plan(preset)
        if not plan.contenders:
            raise UserError(f"{self.name} has no agents, so there is nothing to sweep: `remanence run {self.name}`")
        for change in self.grid:
            plan = plan.with_grid(*parse_grid(change, plan))
        if self.contenders:
            plan = plan.select(self.contenders)
        if self.one_at_a_time:
            plan = plan.one_at_a_time()
        seeds = count_of("--seeds", self.seeds, plan.seeds)
        count = count_of("--tuning-seeds", self.tuning_seeds, seeds)
        tuning = range(self.tuning_from, self.tuning_from + count)
        check_disjoint(tuning, range(seeds))
        swept = sweep_stage(experiment, preset, plan, tuning, self.out, self.execution)
        objective = experiment.primary_metrics[0]
        chosen = best_settings(swept.lanes, objective)
        shares = win_shares(swept.lanes, objective)
        best = with_settings(plan, chosen)
        results = execute(experiment.name, preset, best, seeds, self.out, console, self.execution)
        seconds = time.monotonic() - started
        if self.json:
            summary = as_json(experiment, results, seconds)
            for name, values in summary["contenders"].items():
                values["selection"] = shares[name]
            print_json({**summary, "tuning_seeds": list(tuning), "sweep": str(swept.path)})
        else:
            from remanence.report.tables import selection_table

            print_rich(selection_table(chosen, shares))
            show_results(experiment, results)
            print_rich(f"\n{seconds:.1f} s; every setting: {swept.path}; the best ones again: {results.path}")


def sweep_stage(
    experiment: Experiment, preset: str, plan: Plan, seeds: Sequence[int], out: Path, execution: Execution
) -> Results:
    """The sweep of an experiment; a sensitivity figure shares the sweep of its experiment."""
    from remanence.runs.jobs import check_seeds, settings
    from remanence.runs.progress import messages
    from remanence.runs.sweep import sweep

    check_seeds(seeds)
    console = messages()
    total = sum(len(settings(contender)) for contender in plan.contenders.values())
    console.print(f"sweep: {total} settings × {len(seeds)} tuning seeds")
    name = experiment.sweep_of or experiment.name
    return sweep(name, preset, plan, experiment.primary_metrics, seeds, out, console, execution)
