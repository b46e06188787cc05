"""What the study of the transient lifetime says of runs whose curves are made up."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from made_up import scattered, with_curves
from remanence.experiments import REGISTRY, study_lifetime
from remanence.experiments.study_lifetime import INTERVALS, LIFETIMES, TASK
from remanence.results.store import Results
from remanence.runs.describe import describe
from remanence.theory.shares import lifetime

NAMES = [f"study/lifetime/{place.name}" for place in study_lifetime.PLACES]


def run(name: str, performance: Callable[[float, float], float]) -> Results:
    """A run in which a cell's performance is this function of k and ln τ, and the learner's is 0."""
    experiment = REGISTRY[name]
    plan, metric = experiment.plan("full"), experiment.primary_metrics[0]
    description = json.loads(json.dumps(describe(name, "full", plan, list(range(6)))))
    windows, curves = plan.stream.segments * plan.stream.segment_length.count, {}
    for number, (agent, contender) in enumerate(plan.contenders.items()):
        one = contender.config
        k = getattr(one, "consolidate_every", None)
        mean = performance(k.count, np.log(lifetime(k.count, one.decay))) if k else 0.0  # type: ignore[attr-defined]
        curves[agent] = scattered(np.full(windows, mean), 1e-3, 6, number)
    return with_curves(description, {metric: curves})


@pytest.mark.parametrize("name", NAMES)
def test_cells_of_the_study_have_the_lifetimes_they_are_named_by(name: str) -> None:
    plan = REGISTRY[name].plan("full")
    cells = [one.config for agent, one in plan.contenders.items() if agent.startswith("PT-")]
    found = {(one.consolidate_every.count, round(lifetime(one.consolidate_every.count, one.decay), 6)) for one in cells}  # type: ignore[attr-defined]
    assert found == {(k, round(tau, 6)) for k in INTERVALS for tau in LIFETIMES}
    assert min(abs(tau - TASK / 3) for tau in LIFETIMES) < 1e-9
    for agent, one in plan.contenders.items():  # chosen from the grid
        assert all(getattr(one.config, field) in values for field, values in one.search.items()), agent


def test_a_study_whose_cells_follow_their_lifetime() -> None:
    name = "study/lifetime/control"
    results = run(name, lambda _, log_tau: 1 - (log_tau - np.log(TASK / 3)) ** 2 / 10)
    found = {one.id: one.evidence for one in REGISTRY[name].observations(results)}
    assert found["collapse"].startswith("explained by a cubic in ln τ 100%")
    assert "100% lies between lifetimes and 0% between intervals" in found["same-lifetime"]
    wrong = 1 - np.log(10) ** 2 / 10
    assert "a third of a task +1.0000" in found["wrong-lifetime"]
    assert f"10 times too short {wrong:+.4f}" in found["wrong-lifetime"]
    assert f"10 times too long {wrong:+.4f}" in found["wrong-lifetime"]
    drawn = REGISTRY[name].figures(results)["lifetime"].to_dict()
    assert "it explains 100% of the variance between cells" in drawn["title"]["subtitle"][1]


def test_a_study_whose_cells_follow_k() -> None:
    results = run("study/lifetime/chain", lambda k, _: k)
    found = {one.id: one.evidence for one in REGISTRY["study/lifetime/chain"].observations(results)}
    assert "0% lies between lifetimes and 100% between intervals" in found["same-lifetime"]
