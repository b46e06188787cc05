"""A run says how it differs from its preset: in its title, beside its verdicts, and in the command that repeats it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Any

import altair as alt
import polars as pl
import pytest
import tyro

from remanence.agents.networks import Dense
from remanence.cli.options import parse_change
from remanence.cli.run import Run
from remanence.core.describe import parse, to_json, typed
from remanence.experiments import REGISTRY, get
from remanence.report.page import marked
from remanence.results.claims import Claim
from remanence.results.store import Results
from remanence.runs.describe import describe
from remanence.runs.plan import Plan

TABULAR = get("figure2/tabular")


def run_of(plan: Plan, seeds: int = 30, preset: str = "paper", name: str = "figure2/tabular") -> Results:
    """A run of a plan as its directory describes it, without lanes."""
    description = json.loads(json.dumps(describe(name, preset, plan, list(range(seeds)))))
    return Results(None, description, pl.DataFrame(), pl.DataFrame())


PAPER = TABULAR.plan("paper")
CHANGES = {
    "seeds": (run_of(PAPER, seeds=6), "6 seeds instead of 30"),
    "segments": (run_of(PAPER.shortened(segments=3)), "shortened run: 3 of 10 tasks"),
    "length": (run_of(PAPER.shortened(segment_length=20)), "shortened run: 20 of 50 episodes per task"),
    "agents": (run_of(PAPER.select(["PT-TD", "TD"])), "only PT-TD, TD"),
    "field": (run_of(PAPER.override("TD", "lr", 0.12345678901)), "changed run: TD.lr=0.12345678901"),
    "all": (
        run_of(PAPER.override("PT-TD", "buffer", 100).select(["PT-TD"]).shortened(2, 10), seeds=7),
        "shortened run: 2 of 10 tasks, 10 of 50 episodes per task, PT-TD.buffer=100, only PT-TD, 7 seeds instead of 30",
    ),
}


def test_a_full_run_says_nothing() -> None:
    how = TABULAR.provenance(run_of(PAPER))
    assert how.full
    assert how.text == ""
    assert how.command("figure2/tabular", "paper") == "remanence run figure2/tabular --preset paper --seeds 30"


@pytest.mark.parametrize(("results", "text"), CHANGES.values(), ids=CHANGES)
def test_every_change_is_said_in_words(results: Results, text: str) -> None:
    how = TABULAR.provenance(results)
    assert not how.full
    assert how.text == text


@pytest.mark.parametrize(("results", "_"), CHANGES.values(), ids=CHANGES)
def test_the_command_repeats_the_run(results: Results, _: str) -> None:
    """Typed again, it asks for the same description."""
    command = TABULAR.provenance(results).command("figure2/tabular", "paper")
    assert parsed(command) == results.description


def parsed(command: str) -> dict[str, Any]:
    """What a command asks for, as `remanence run` reads it."""
    words = shlex.split(command)
    assert words[:2] == ["remanence", "run"]
    run = tyro.cli(Run, args=words[2:])
    plan = get(run.name).plan(str(run.preset))
    for change in run.set:
        plan = plan.override(*parse_change(change, plan))
    plan = plan.select(run.contenders) if run.contenders else plan
    plan = plan.shortened(run.segments, run.segment_length, run.steps)
    return run_of(plan, run.seeds or plan.seeds).description


def test_steps_are_shown_as_segments() -> None:
    jellybean = get("figure5/jellybean")
    plan = jellybean.plan("released").select(["Random"])
    how = jellybean.provenance(run_of(plan.shortened(steps=50_000), 5, "released", jellybean.name))
    assert how.shortened == ("1 of 14 tasks", "50,000 of 150,000 steps per task")
    assert how.options == ("--seeds", "5", "--segments", "1", "--segment-length", "50000", "--contenders", "Random")


def test_a_trial_is_shortened_and_an_unknown_preset_changed() -> None:
    assert TABULAR.provenance(run_of(TABULAR.plan("smoke"), 3, "smoke")).text == "shortened run: preset smoke"
    assert "does not have" in TABULAR.provenance(run_of(PAPER, preset="older")).text
    longer = run_of(dataclasses.replace(PAPER, stream=dataclasses.replace(PAPER.stream, order=(0,) * 12)))
    assert TABULAR.provenance(longer).changed == ("12 tasks instead of 10",)


def test_cells_of_an_agent_are_no_other_agents() -> None:
    diameter = get("appendix/task-diameter")
    description = run_of(diameter.plan("paper"), 100, name=diameter.name).description
    cells = {f"{name} ε=1 n=2": {} for name in ("TD", "TD-reset", "PT-TD")}
    lived = {"before": description["stream"], "stream": {"order": [None], "segment_length": {"rounds": 100}}}
    full = Results(None, {**description, **lived, "contenders": cells}, pl.DataFrame(), pl.DataFrame())
    assert diameter.provenance(full).full
    fewer = dataclasses.replace(full, description={**full.description, "contenders": {"TD ε=1 n=2": {}}})
    assert diameter.provenance(fewer).text == "only TD"


def test_a_run_without_our_control_is_full() -> None:
    """The paper has no controls, and its claims are not about them. Any other agent that is missing counts."""
    control = get("figure3/tabular")
    plan = control.plan("paper")
    without = control.provenance(run_of(plan.select(["Q", "Q-reset", "PT-Q"]), name="figure3/tabular"))
    assert without.full
    assert without.options == ("--seeds", "30", "--contenders", "Q", "Q-reset", "PT-Q")
    names = ["Q", "PT-Q"]
    assert control.provenance(run_of(plan.select(names), name="figure3/tabular")).agents == "only Q, PT-Q"
    names = ["Q", "PT-Q", "PT-Q without consolidation"]
    assert control.provenance(run_of(plan.select(names), name="figure3/tabular")).agents == f"only {', '.join(names)}"


def test_another_grid_of_a_sweep_is_shown() -> None:
    sensitivity = get("appendix/sensitivity-tabular")
    grid = {name: {key: list(values) for key, values in one.search.items()} for name, one in PAPER.contenders.items()}
    swept = run_of(PAPER)
    full = dataclasses.replace(swept, description={**swept.description, "sweep": grid})
    assert sensitivity.provenance(full).full
    other = dataclasses.replace(full, description={**full.description, "sweep": {**grid, "TD": {"lr": [0.1, 0.2]}}})
    how = sensitivity.provenance(other)
    assert how.text == "changed run: grid TD.lr=0.1,0.2"
    assert how.command(sensitivity.name, "paper", sensitivity.sweep_of) == (
        "remanence sweep figure2/tabular --preset paper --tuning-seeds 30 --grid TD.lr=0.1,0.2"
    )


def test_verdicts_of_changed_runs_are_withheld() -> None:
    decided = dataclasses.replace(TABULAR, claims=lambda _: [Claim("id", "text", "reproduced", "numbers")])
    found = {name: decided.judge(results)[0] for name, (results, _) in CHANGES.items()}
    assert {name: one.verdict for name, one in found.items()} == {
        "seeds": "reproduced",  # Student's test holds for any number of seeds from five on
        "segments": "shortened run",
        "length": "shortened run",
        "agents": "reproduced",  # what the claim is about did run: see test_missing_agents.py
        "field": "changed run",
        "all": "shortened run",
    }
    assert found["seeds"].evidence == "6 seeds instead of 30: numbers"
    assert found["field"].evidence == "changed run (TD.lr=0.12345678901): numbers"
    assert decided.judge(run_of(TABULAR.plan("smoke"), 3, "smoke"))[0].verdict == "shortened run"
    assert decided.judge(run_of(PAPER))[0] == Claim("id", "text", "reproduced", "numbers")


def test_a_small_later_try_does_not_hide_the_full_run() -> None:
    """Runs are given the newest first."""
    smoke, full = run_of(TABULAR.plan("smoke"), 3, "smoke"), run_of(PAPER)
    released, few = run_of(TABULAR.plan("released"), preset="released"), run_of(PAPER, seeds=6)
    short = run_of(PAPER.shortened(segments=3))
    ordered = [one for one, _ in TABULAR.by_worth([smoke, short, few, released, full])]
    assert [id(one) for one in ordered] == [id(one) for one in (full, released, few, short, smoke)]


def test_a_figure_says_it_below_its_title() -> None:
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")
    plain = chart.properties(title="Title")
    detailed = chart.properties(title=alt.TitleParams("Title", subtitle=["before"], fontSize=9))
    assert marked(plain, "") is plain
    assert marked(plain, "changed").to_dict()["title"] == {"text": "Title", "subtitle": ["changed"]}
    assert marked(detailed, "changed").to_dict()["title"] == {
        "text": "Title",
        "subtitle": ["changed", "before"],
        "fontSize": 9,
    }
    assert marked(chart, "changed").to_dict()["title"] == {"text": "", "subtitle": ["changed"]}


@pytest.mark.parametrize("name", REGISTRY)
def test_full_plans_of_every_preset_are_full(name: str) -> None:
    experiment = REGISTRY[name]
    for preset in experiment.plans:
        plan = experiment.plan(preset)
        if experiment.run_fn or not plan.contenders:
            continue
        stream = {
            "order": [None] * plan.stream.segments,
            "segment_length": {type(plan.stream.segment_length).__name__.lower(): plan.stream.segment_length.count},
        }
        agents = {
            agent: {"config": json.loads(json.dumps(to_json(one.config)))} for agent, one in plan.contenders.items()
        }
        asked = {"preset": preset, "stream": stream, "contenders": agents, "seeds": list(range(plan.seeds))}
        how = experiment.provenance(Results(None, asked, pl.DataFrame(), pl.DataFrame()))
        assert how.text == ("shortened run: preset smoke" if preset == "smoke" else "")


@pytest.mark.parametrize("value", [0.1, 1e-07, 3, None, True, "sgd", (1, 2), (1,), Dense(64)])
def test_values_are_typed_as_they_are_read(value: Any) -> None:
    assert parse(typed(to_json(value)), {"Dense": Dense}) == value
