"""The study of forgetting and remembering: its agents and controls, and how it splits made-up gains."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from made_up import scattered, with_curves
from remanence.experiments import REGISTRY
from remanence.report.panels.gains import gains_chart
from remanence.results.gains import CONTROL_SUFFIX, control_of
from remanence.runs.describe import describe

NAMES = [name for name in REGISTRY if name.startswith("study/permanent/")]
PLANS = [(name, preset) for name in NAMES for preset in REGISTRY[name].plans]


def test_the_study_has_five_worlds() -> None:
    assert [name.rpartition("/")[2] for name in NAMES] == ["slippery", "recurring", "two-rooms", "jellybean", "minatar"]
    assert REGISTRY["study/permanent/jellybean"].plan("full").stream.segments * 150_000 == 900_000
    assert REGISTRY["study/permanent/jellybean"].plan("full").seeds == 5


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_a_control_is_its_agent_without_consolidation(name: str, preset: str) -> None:
    """It may differ in fields that were tuned, and in nothing else."""
    contenders = REGISTRY[name].plan(preset).contenders
    agents = [one for one in contenders if one + CONTROL_SUFFIX in contenders]
    assert agents
    for one in agents:
        agent, control = contenders[one], contenders[one + CONTROL_SUFFIX]
        idle = "absorb" if one.endswith("by shares") else "permanent_lr"
        config: Any = control.config
        assert getattr(config, idle) == 0
        assert set(control.search) == set(agent.search) - {idle}
        same = {field: getattr(agent.config, field) for field in agent.search}
        assert dataclasses.replace(config, **same) == agent.config


@pytest.mark.parametrize("name", ["study/permanent/jellybean", "study/permanent/minatar"])
def test_forms_that_share_a_control_forget_in_the_same_way(name: str) -> None:
    contenders = REGISTRY[name].plan("full").contenders
    paper, ours = (contenders[one].config for one in ("PT-DQN", "PT-DQN by shares"))
    assert {control_of(one, contenders) for one in ("PT-DQN", "PT-DQN by shares")} == {"PT-DQN" + CONTROL_SUFFIX}
    remembering = ("absorb", "permanent_lr", "permanent_optimizer", "in_order", "max_batches")
    same = {field: getattr(paper, field) for field in remembering}
    assert dataclasses.replace(ours, **same) == paper  # type: ignore[type-var]


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_chosen_values_are_in_the_grids_and_their_shares_add_up(name: str, preset: str) -> None:
    for agent, one in REGISTRY[name].plan(preset).contenders.items():
        config: Any = one.config
        for field, values in one.search.items():
            assert getattr(config, field) in values, (agent, field)
        if agent.endswith("by shares"):
            assert config.absorb + config.decay <= 1
            assert max(one.search["absorb"]) + max(one.search.get("decay", (0.0,))) <= 1  # also in a sweep


def test_gains_of_tables_and_networks_are_split_each_over_its_learner() -> None:
    name = "study/permanent/recurring"
    plan = REGISTRY[name].plan("smoke")
    levels = dict(zip(plan.contenders, (1.0, 4.0, 2.0, 10.0, 11.0, 10.5, 13.0, 11.0), strict=True))
    description = json.loads(json.dumps(describe(name, "smoke", plan, list(range(6)))))
    windows = 3 * 400 // plan.window
    curves = {
        agent: scattered(np.full(windows, level), 1e-3, 6, place) for place, (agent, level) in enumerate(levels.items())
    }
    results = with_curves(description, {"reward_rate": curves})
    found = REGISTRY[name].gains(results)
    parts = {one.agent: (one.learner, one.forgetting[0], one.remembering[0], one.total[0]) for one in found}
    assert parts == {
        "PT-Q by shares": ("Q", *map(pytest.approx, (1.0, 2.0, 3.0))),
        "PT-DQN": ("DQN", *map(pytest.approx, (0.5, 0.5, 1.0))),
        "PT-DQN by shares": ("DQN", *map(pytest.approx, (1.0, 2.0, 3.0))),
    }
    assert gains_chart(found).to_dict()["title"]["text"].startswith("Gain over Q or DQN")
    assert set(REGISTRY[name].figures(results)) == {"curves"}
