"""What the study of the half-life says of runs whose curves are made up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from made_up import scattered, with_curves
from remanence.core.types import Episodes
from remanence.experiments import REGISTRY
from remanence.experiments.study_half_life import PLACES, Place, gains
from remanence.results.store import Results
from remanence.runs.describe import describe


def run(place: Place) -> Results:
    """A run in which PT gains a hundredth of its half-life."""
    name = f"study/half-life/{place.name}"
    plan = REGISTRY[name].plan("full")
    description = json.loads(json.dumps(describe(name, "full", plan, list(range(6)))))
    windows = plan.stream.segments * plan.stream.segment_length.count // plan.window
    halves = {agent: int(agent.rpartition("=")[2]) if "=" in agent else 0 for agent in plan.contenders}
    curves = {
        agent: scattered(np.full(windows, 1 + half / 100), 1e-3, 6, number)
        for number, (agent, half) in enumerate(halves.items())
    }
    return with_curves(description, {place.metric: curves})


@pytest.mark.parametrize("place", PLACES, ids=lambda one: one.name)
def test_agents_have_the_half_lives_they_are_named_by(place: Place) -> None:
    for agent, one in place.plan().contenders.items():
        if agent == place.learner:
            continue
        half = one.config.transient_half_life  # type: ignore[attr-defined]
        assert (half.count if isinstance(half, Episodes) else half) == int(agent.rpartition("=")[2])
        assert one.config.absorb == pytest.approx((1 - one.config.decay) / 10)  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", PLACES, ids=lambda one: one.name)
def test_gains_are_told_and_drawn_by_the_share_of_a_task(place: Place) -> None:
    results = run(place)
    for share, gain in gains(place, results):
        assert gain.mean == pytest.approx(share * place.task / 100, abs=2e-3)
        assert gain.low < gain.mean < gain.high
    (said,) = REGISTRY[f"study/half-life/{place.name}"].observations(results)
    assert f"gain over {place.learner} (1.0" in said.text
    (drawn,) = REGISTRY[f"study/half-life/{place.name}"].figures(results).values()
    rows = next(rows for rows in drawn.to_dict()["datasets"].values() if "low" in rows[0])
    assert [row["share"] for row in rows] == [share for share, _ in gains(place, results)]
