"""The results of a run on standard output: tables, or one JSON object."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remanence.experiments.base import Experiment
    from remanence.results.store import Results
    from remanence.runs.plan import Plan

MAX_IN_TABLE = 8  # contenders whose continual metrics fit a terminal


def size(plan: Plan, seeds: int | None = None) -> str:
    if not plan.contenders:
        return "no simulation"
    lasts = plan.stream.segments * plan.stream.segment_length.count
    unit = type(plan.stream.segment_length).__name__.lower()
    agents, seeds = len(plan.contenders), plan.seeds if seeds is None else seeds
    return f"{agents} agent{'s' * (agents > 1)} × {seeds} seed{'s' * (seeds > 1)} × {lasts} {unit}"


def share_of(plan: Plan, seeds: int, full_plan: Plan) -> str:
    """The share of the full experiment (seeds × length) that a shorter run is; empty for a full run."""

    def amount(plan: Plan, seeds: int) -> int:
        return len(plan.contenders) * seeds * plan.stream.segments * plan.stream.segment_length.count

    asked, full = amount(plan, seeds), amount(full_plan, full_plan.seeds)
    return "" if asked >= full or not full else f"; this is {100 * asked / full:.2g} % of it"


def continual_figure(experiment: Experiment, results: Results) -> dict[str, Any]:
    from remanence.report.figures import continual_chart

    if not results.metrics or not results.switches or len(results.contenders) > MAX_IN_TABLE:
        return {}
    return {"continual": continual_chart(results, experiment.continual_metric(results))}


def parts_figure(results: Results) -> dict[str, Any]:
    from remanence.report.panels.parts import parts_panel

    panel = parts_panel(results)
    return {} if panel is None else {"parts": panel}


def gains_figure(experiment: Experiment, results: Results) -> dict[str, Any]:
    from remanence.report.panels.gains import gains_chart

    found = experiment.gains(results)
    return {"gains": gains_chart(found)} if found else {}


def as_json(experiment: Experiment, results: Results, seconds: float | None) -> dict[str, Any]:
    from remanence.results.summary import summarise, summarise_sweep

    return {
        "experiment": experiment.name,
        "preset": results.preset,
        "seeds": len(results.seeds),
        "contenders": summarise_sweep(results) if experiment.sweep_of else summarise(results),
        "claims": [claim.to_json() for claim in experiment.judge(results)],
        "gains": [one.to_json() for one in experiment.gains(results)],
        "observations": [one.to_json() for one in experiment.observations(results)],
        "published": [one.to_json() for one in experiment.agreements(results)],
        "seconds": seconds,
    }


def show_results(experiment: Experiment, results: Results) -> None:
    from rich.markup import escape

    from remanence.report.tables import (
        agreements_table,
        claims_table,
        continual_table,
        gains_table,
        observations_table,
        summary_table,
        sweep_table,
    )

    how = experiment.provenance(results).text
    heading = f"{experiment.title}, preset {results.preset}, {len(results.seeds)} seeds{f'; {how}' if how else ''}"
    print_rich(escape(heading))
    if experiment.sweep_of:
        print_rich(sweep_table(results, experiment.primary_metrics, experiment.paper_values))
    if results.metrics:
        print_rich(summary_table(results, experiment.primary_metrics))
        if len(results.contenders) <= MAX_IN_TABLE:
            print_rich(continual_table(results, experiment.continual_metric(results)))
    claims = experiment.judge(results)
    if claims:
        print_rich(claims_table(claims))
    if found := experiment.gains(results):
        print_rich(gains_table(found))
    if observed := experiment.observations(results):
        print_rich(observations_table(observed))
    agreements = experiment.agreements(results)
    if agreements:
        print_rich(agreements_table(agreements))


def print_rich(what: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(what)


def print_json(what: Any) -> None:
    json.dump(what, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
