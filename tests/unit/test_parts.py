"""What is measured of the two parts of an agent: at a consolidation by hand, and in whole lives."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import remanence
from conftest import key_stub, transition
from remanence.agents.base import AgentConfig, hypers_of
from remanence.agents.behaviour import uniform
from remanence.agents.configs import DQN, PTDQN, PTQ, PTTD, Q
from remanence.agents.linear import linear, one_hot
from remanence.agents.pt import pt_td
from remanence.core.describe import to_json
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, Episodes, Hypers, Steps
from remanence.engine import parts
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import parts_of_value, value_error
from remanence.metrics import METRICS, impossible_values
from remanence.runs.jobs import metrics_of
from remanence.runs.plan import Contender, Plan
from remanence.runs.rows import value_ratios
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.grids.corner import CORNER_TASKS
from remanence.worlds.true_values import corner_grid_truth

WORLD = CornerGrid()


def test_a_consolidation_by_hand() -> None:
    """P = (1, 2, 5), T = (2, −1, 7), a = λ = 1/2; state 0 visited three times, state 1 once, state 2 never.

    Visits weigh 3 and 1: ⟨T, T⟩ = 3·4 + 1 = 13. V^P moves by (1, −0.5): absorbed (3·2 + 0.5) / 13 = 1/2; kept 1/2; no jump.
    With a = 1/4: absorbed 1/4, and V falls by (0.5, −0.25): √((3·0.25 + 0.0625) / 4).
    """
    agent = pt_td(linear(one_hot(3)), uniform(2), absorbs=True)
    first = agent.init(jax.random.key(0), None)
    state = first._replace(permanent=jnp.array([[1.0], [2], [5]]), transient=jnp.array([[2.0], [-1], [7]]))
    for seen in (0, 0, 1, 0):
        state = agent.learn(state, Hypers(transient_lr=0.0), transition(seen, 0, seen), key_stub())
    for absorb, jump in ((0.5, 0.0), (0.25, np.sqrt((3 * 0.25 + 0.0625) / 4))):
        hypers = Hypers(absorb=absorb, decay=0.5)
        after = agent.consolidate(state, hypers, key_stub(), True)
        measured = parts.at_consolidation(parts.begin(first), agent, state, after)
        assert (float(measured.absorbed), float(measured.kept)) == (absorb, 0.5)
        assert float(measured.jump) == pytest.approx(jump)
        learned = np.array([1, 2, 5]) + absorb * np.array([2, -1, 7])  # every entry of the table absorbs
        assert float(measured.permanent_drift) == pytest.approx(np.linalg.norm(learned))
        assert float(measured.transient_drift) == pytest.approx(np.sqrt(4 + 1 + 49))
    elsewhere = parts.begin(first._replace(permanent=jnp.ones((3, 1)), transient=2 * jnp.ones((3, 1))))
    measured = parts.at_consolidation(elsewhere, agent, state, after)
    assert float(measured.permanent_drift) == pytest.approx(np.linalg.norm(learned - 1))
    assert float(measured.transient_drift) == pytest.approx(np.sqrt(0 + 9 + 25))


def record_of(config: AgentConfig, every: Any, **options: Any) -> dict[str, np.ndarray]:
    """Two seeds of two tasks in the corner grid."""
    stream = Stream(CORNER_TASKS[:2], cyclic(2, segments=2), every, boundaries_known=True)
    agent = config.build(EnvSpec(WORLD.observation, WORLD.num_actions, stream.num_tasks, WORLD.discount))
    life = LifeConfig(agent, WORLD, stream, parts_of_value(agent, WORLD.discount), watch_parts=True, **options)
    return Driver(life).run([hypers_of(config)] * 2, seeds=[1, 2]).record


@pytest.mark.parametrize("kind", [PTQ, PTTD])
def test_a_table_absorbs_and_keeps_what_it_is_told(kind: type[PTQ] | type[PTTD]) -> None:
    config = kind(transient_half_life=Episodes(16), absorb=0.01)
    record = record_of(config, Episodes(10))
    np.testing.assert_allclose(record["kept"][:, -10:], config.decay, rtol=1e-4)  # type: ignore[arg-type]
    np.testing.assert_allclose(record["absorbed"][:, -10:], 0.01, rtol=1e-3)
    assert (record["value_ratio"] <= 1).all()
    assert (record["permanent_drift"][:, -1] > 0).all()


@pytest.mark.parametrize("config", [DQN(hidden=(8,), batch=8, replay=64), Q()], ids=lambda one: one.name)
def test_an_agent_without_a_permanent_part_has_none(config: AgentConfig) -> None:
    record = record_of(config, Steps(60), window=20)
    for name, value in (("absorbed", 0), ("kept", 1), ("jump", 0), ("permanent_size", 0), ("permanent_drift", 0)):
        assert (record[name] == value).all(), name
    if isinstance(config, DQN):  # a table may not have found a goal yet
        assert (record["transient_size"] > 0).all()


def test_a_network_is_measured_on_what_it_visited() -> None:
    config = PTDQN(hidden=(16,), batch=16, replay=128, absorb=0.2, decay=0.5, consolidate_every=50, max_batches=200)
    record = record_of(config, Steps(200), window=50)
    np.testing.assert_allclose(record["kept"][:, 1:], 0.5, rtol=1e-3)
    np.testing.assert_allclose(record["absorbed"][:, 1:], 0.2, rtol=0.1)
    assert (record["transient_drift"][:, 1:] > 0).all()


def test_the_largest_reward_so_far_bounds_values() -> None:
    """|V| = 10 where rewards of 2 and γ = 0.9 allow 20; without a reward or a discount, nothing is known."""
    agent = pt_td(linear(one_hot(1)), uniform(2))
    state = agent.init(jax.random.key(0), None)
    state = agent.learn(state, Hypers(transient_lr=0.0), transition(0, 0, 0), key_stub())
    state = state._replace(transient=jnp.array([[-10.0]]))
    seen = parts.begin(state)
    for reward, discount, ratio in ((2.0, 0.9, 0.5), (0.0, 0.9, 0.0), (2.0, 1.0, 0.0)):
        probe_input: Any = type("Input", (), {"agent": state, "parts": parts.see_reward(seen, jnp.float32(-reward))})
        assert float(parts_of_value(agent, discount)(probe_input)["value_ratio"]) == pytest.approx(ratio, abs=1e-6)
    with pytest.raises(UserError, match="watch_parts"):
        parts_of_value(agent, 0.9)(type("Input", (), {"agent": state, "parts": None}))  # type: ignore[arg-type]


def test_the_second_half_of_a_life_counts_for_the_warning() -> None:
    windows, ratios = [1, 2, 3, 4], {0: [9.0, 9, 1, 2], 1: [0.0, 0, 3, 1], 2: [9.0, 9, 9, 9]}
    rows = [
        (lane, window, "value_ratio", value)
        for lane, values in ratios.items()
        for window, value in zip(windows, values, strict=True)
    ]
    curves = pl.DataFrame([*rows, (0, 4, "return", 50.0)], ["lane", "window", "metric", "value"], orient="row")
    assert sorted(value_ratios(curves, [0, 1])) == [2, 3]
    assert value_ratios(curves, []) == []


def test_values_that_rewards_do_not_allow_are_worth_a_warning() -> None:
    assert impossible_values("PT-DQN", [0.9, 1.05]) is None
    assert "PT-DQN: values exceed what rewards allow, in 1 of 2 seeds: up to 2.5 times" in str(
        impossible_values("PT-DQN", [0.9, 2.5])
    )


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (remanence.PTDQN(), "absorb plus decay should be at most 1"),
        (remanence.DQN(), "try a smaller step size, double=True or a larger target_every"),
        (remanence.Q(), "try a smaller step size$"),
    ],
)
def test_the_warning_has_a_hint_that_fits_the_agent(agent: Any, says: str) -> None:
    """The fields come from a configuration, or from its description."""
    for fields in (dir(agent), to_json(agent)):
        assert re.search(says, str(impossible_values("A", [2.5], fields)))


def test_a_plan_records_parts_only_if_asked() -> None:
    stream = Stream(CORNER_TASKS[:2], cyclic(2, segments=2), Episodes(2), boundaries_known=True)
    truth = corner_grid_truth(WORLD, CORNER_TASKS[:2])
    plan = Plan(WORLD, stream, {"PT-TD": Contender(PTTD())}, lambda agent: value_error(agent, truth))
    named = {name for name, one in METRICS.items() if one.about_parts}
    assert not named & set(metrics_of(plan))
    assert named < set(metrics_of(dataclasses.replace(plan, watch_parts=True)))
