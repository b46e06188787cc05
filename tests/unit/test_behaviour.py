"""Behaviour policies: how often each action is taken, and the schedule of ε."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from remanence.agents.behaviour import LAST_STEP, Linear, epsilon_greedy, uniform
from remanence.core.errors import UserError
from remanence.core.prng import make_key


@pytest.mark.parametrize("values", [[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 1.0, 1.0]])
def test_epsilon_greedy_breaks_ties_at_random_and_explores(values: list[float]) -> None:
    """Frequencies of 20 000 draws against ε/n + (1 − ε)/ties (chi-square)."""
    epsilon, draws = 0.2, 20_000
    behave = epsilon_greedy(epsilon)
    keys = jax.random.split(make_key(3), draws)
    actions = jax.jit(jax.vmap(lambda key: behave(jnp.array(values), None, key)))(keys)
    best = np.array(values) == max(values)
    expected = draws * (epsilon / 4 + (1 - epsilon) * best / best.sum())
    assert stats.chisquare(np.bincount(actions, minlength=4), expected).pvalue > 1e-3


def test_uniform_ignores_values() -> None:
    keys = jax.random.split(make_key(4), 20_000)
    actions = jax.vmap(lambda key: uniform(4)(jnp.array([5.0, 1.0, 1.0, 1.0]), None, key))(keys)
    assert stats.chisquare(np.bincount(actions, minlength=4)).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", [-0.1, 1.5, Linear(1.0, -0.1, 5), Linear(1.1, 0.0, 5)])
def test_epsilon_outside_its_range_is_refused(epsilon: Any) -> None:
    """A schedule is tried at its start and at its end."""
    with pytest.raises(UserError, match="epsilon"):
        epsilon_greedy(epsilon)


def test_with_epsilon_0_it_is_greedy_and_with_1_random() -> None:
    keys = jax.random.split(make_key(5), 200)
    for epsilon, taken in ((0.0, {1}), (1.0, {0, 1, 2})):
        act = jax.vmap(lambda key, epsilon=epsilon: epsilon_greedy(epsilon)(jnp.array([0.0, 2.0, 1.0]), None, key))
        assert set(np.asarray(act(keys)).tolist()) == taken


def test_values_that_are_not_numbers_give_the_first_action() -> None:
    assert int(epsilon_greedy(0.0)(jnp.full(4, jnp.nan), None, make_key(0))) == 0


@pytest.mark.parametrize("schedule", [Linear(1.0, 0.0, 100), optax.linear_schedule(1.0, 0.0, 100)])
def test_epsilon_follows_its_schedule(schedule: Any) -> None:
    """1 at first: both actions; ½ after 50 steps: action 1, which is not greedy, a quarter of the time; 0 at the end."""
    behave, values = epsilon_greedy(schedule), jnp.array([1.0, 0.0])
    keys = jax.random.split(jax.random.key(0), 400)

    def share(step: int) -> float:
        return float(jnp.mean(jax.vmap(lambda key: behave(values, None, key, jnp.int32(step)))(keys)))

    assert share(0) == pytest.approx(0.5, abs=0.08)
    assert share(50) == pytest.approx(0.25, abs=0.07)
    assert share(100) == share(LAST_STEP) == 0.0


def test_a_linear_schedule() -> None:
    schedule = Linear(1.0, 0.2, 8)
    assert [float(schedule(step)) for step in (0, 2, 8, 1000)] == pytest.approx([1.0, 0.8, 0.2, 0.2])
    assert float(Linear(1.0, 0.0, 1)(1)) == 0.0  # the shortest one
    with pytest.raises(UserError, match="at least one step"):
        Linear(1.0, 0.0, 0)
    later = Linear(1.0, 0.2, 8, after=10)
    assert [float(later(step)) for step in (0, 10, 12, 18, 1000)] == pytest.approx([1.0, 1.0, 0.8, 0.2, 0.2])
    with pytest.raises(UserError, match="after 0 or more steps"):
        Linear(1.0, 0.0, 8, after=-1)


def test_the_last_step_is_the_largest_that_a_life_can_count_to() -> None:
    assert np.iinfo(np.int32).max == LAST_STEP
