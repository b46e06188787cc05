"""A run of only some agents: claims about the others are not run, all that is left is judged and drawn as in the full run."""

from __future__ import annotations

import dataclasses
from collections.abc import Container

import polars as pl
import pytest

from remanence.experiments import REGISTRY
from remanence.experiments.base import Experiment
from remanence.results.claims import NOT_RUN, Claim
from remanence.results.store import Results

ARCHIVED = {name: runs[0] for name, one in REGISTRY.items() if not one.sweep_of and (runs := one.archived())}
WITH_CLAIMS = [name for name, results in ARCHIVED.items() if REGISTRY[name].claims(results)]


def only(results: Results, agents: Container[str]) -> Results:
    """The run as it would be if only these agents had run."""
    described = {name: one for name, one in results.description["contenders"].items() if name in agents}
    lanes = results.lanes.filter(pl.col("contender").is_in(list(described)))
    curves, maps = (
        table.filter(pl.col("lane").is_in(lanes["lane"].to_list())) if len(table) else table
        for table in (results.curves, results.maps)
    )
    description = {**results.description, "contenders": described}
    return dataclasses.replace(results, description=description, lanes=lanes, curves=curves, maps=maps)


def judged(experiment: Experiment, results: Results) -> dict[str, Claim]:
    return {one.id: one for one in experiment.judge(results)}


def some(agents: list[str]) -> list[str]:
    """All agents; of very many the first and the last ones."""
    return agents if len(agents) < 10 else [*agents[:2], *agents[-2:]]


@pytest.mark.parametrize("name", WITH_CLAIMS)
def test_claims_are_those_of_the_full_run_or_not_run(name: str) -> None:
    experiment, results = REGISTRY[name], ARCHIVED[name]
    full, all_agents = judged(experiment, results), results.contenders
    verdicts = set()
    for missing in some(all_agents):
        part = judged(experiment, only(results, set(all_agents) - {missing}))
        verdicts |= {one.verdict for one in part.values()}
        assert all(one == full[key] for key, one in part.items() if one.verdict != NOT_RUN), missing
    assert NOT_RUN in verdicts


def test_a_claim_about_agents_that_ran_has_its_verdict() -> None:
    """In figure2/tabular two claims need no TD-reset."""
    experiment, results = REGISTRY["figure2/tabular"], ARCHIVED["figure2/tabular"]
    part = only(results, {"TD", "PT-TD"})
    found, full = judged(experiment, part), judged(experiment, results)
    left = [key for key, one in found.items() if one.verdict != NOT_RUN]
    assert len(left) == 2
    assert all(found[key] == full[key] for key in left)
    assert experiment.provenance(part).text == "only TD, PT-TD"
    published = experiment.agreements(part)
    assert published == [one for one in experiment.agreements(results) if one.contender != "TD-reset"]
    assert len(published) == 4


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_run_of_one_agent_is_drawn(name: str) -> None:
    experiment, results = REGISTRY[name], ARCHIVED[name]
    for agent in some(results.contenders):
        part = only(results, {agent})
        judged(experiment, part)
        experiment.gains(part)
        for chart in experiment.figures(part).values():
            chart.to_dict(validate=False)
