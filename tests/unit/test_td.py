"""TD(0) and its reset variant."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from conftest import TD, TD_RESET, key_stub, same, transition
from remanence.agents import AT_SWITCH, Hypers, q_learning, random_agent, td
from remanence.agents.behaviour import uniform
from remanence.agents.linear import linear, one_hot, row_and_column
from remanence.agents.td import PREDICTION, td_update
from remanence.core.types import Transition

TWO = td(linear(one_hot(2)), uniform(4))
HYPERS = Hypers(lr=jnp.float32(0.5))


def learn(weights: list[float], step: Transition) -> list[float]:
    return TWO.learn(jnp.array(weights, jnp.float32)[:, None], HYPERS, step, key_stub())[:, 0].tolist()


def test_one_step_by_hand() -> None:
    """v = (1, 3), α = γ = 1/2, R = 2 from state 0 to 1: δ = 2 + 1.5 − 1 = 2.5, so v(0) = 1 + 1.25."""
    assert learn([1, 3], transition(0, 2, 1)) == [2.25, 3]


def test_last_step_by_hand() -> None:
    """The episode ends: nothing is bootstrapped. δ = 2 − 1 = 1, so v(0) = 1.5 whatever v(1)."""
    assert learn([1, 3], transition(0, 2, 1, discount=0)) == [1.5, 3]
    assert learn([1, -70], transition(0, 2, 1, discount=0)) == [1.5, -70]


def test_step_to_itself_by_hand() -> None:
    """A move against the edge: δ = 0 + 0.5 · 1 − 1 = −0.5, so v(0) = 0.75."""
    assert learn([1, 3], transition(0, 0, 0)) == [0.75, 3]


def test_linear_step_by_hand() -> None:
    """A row and a column weight each take the whole step: v(12) = 1 + 2 = 3, v(13) = 1 − 1 = 0, δ = 1 − 3 = −2."""
    weights = np.zeros((10, 1), np.float32)
    weights[[2, 7, 8], 0] = 1, 2, -1
    after = td_update(
        PREDICTION, linear(row_and_column(5)), jnp.asarray(weights), jnp.float32(0.5), transition(12, 1, 13)
    )
    weights[[2, 7], 0] = 0, 1
    np.testing.assert_array_equal(after, weights)


@pytest.mark.parametrize("discount", [0.5, 0.0])
def test_waiting_changes_nothing(discount: float) -> None:
    """Even if what the lane sees meanwhile is nonsense."""
    assert learn([0.1, 3], transition(0, np.nan, 1, discount, valid=False)) == [np.float32(0.1), 3]


def test_reset_starts_anew_and_plain_td_goes_on() -> None:
    weights = jnp.arange(25.0)[:, None]
    assert TD_RESET.consolidate_every == AT_SWITCH
    assert TD.consolidate_every is None
    assert same(TD_RESET.consolidate(weights, HYPERS, key_stub(), True), jnp.zeros((25, 1)))
    assert same(TD.consolidate(weights, HYPERS, key_stub(), True), weights)


def test_inspect_tells_the_value() -> None:
    belief: Array = TWO.inspect(jnp.array([[1.0], [3.0]]), jnp.int32(1))["value"]
    assert belief.tolist() == [3]


def test_entries_that_learned_something_were_visited() -> None:
    """Weights 0, 3, −1: the last two, with equal weight. Features that share weights have no entries to count."""
    agent = td(linear(one_hot(3)), uniform(4))
    assert agent.visited is not None
    visited = agent.visited(jnp.array([[0.0], [3.0], [-1.0]]))
    assert [visited.obs.tolist(), visited.output.tolist(), visited.weight.tolist()] == [[0, 1, 2], [0, 0, 0], [0, 1, 1]]
    assert td(linear(row_and_column(5)), uniform(4)).visited is None


def test_learners_keep_what_they_know_unless_they_are_told_to_reset() -> None:
    table = linear(one_hot(2), 4)
    assert q_learning(table, uniform(4)).consolidate_every is None
    assert q_learning(table, uniform(4), reset=True).consolidate_every == AT_SWITCH
    assert td(linear(one_hot(2)), uniform(4)).consolidate_every is None


def test_the_random_agent_learns_nothing() -> None:
    agent = random_agent(3)
    state = agent.init(key_stub(), HYPERS)
    assert float(agent.learn(state, HYPERS, transition(0, 1, 1), key_stub())) == float(state) == 0
    assert float(agent.consolidate(state, HYPERS, key_stub(), True)) == 0
    assert agent.inspect(state, jnp.int32(0))["value"].tolist() == [0, 0, 0]
