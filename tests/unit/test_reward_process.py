"""Linear solves on chains that can be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import GRID, TASKS
from remanence.theory import expected_visits, state_values
from remanence.worlds.true_values import random_walk

# From A: to A or to B, half each. From B: to A with 1/4, else the end. r = (1, 2) on leaving.
CHAIN = np.array([[0.5, 0.5], [0.25, 0.0]])


def test_values_of_a_chain_by_hand() -> None:
    """γ = 1/2: v_A = 1 + v_A/4 + v_B/4 and v_B = 2 + v_A/8, so v_A (3/4 − 1/32) = 3/2: v_A = 48/23, v_B = 52/23."""
    np.testing.assert_allclose(state_values(CHAIN, np.array([1, 2]), 0.5), [48 / 23, 52 / 23], rtol=1e-14)


def test_visits_of_a_chain_by_hand() -> None:
    """From A: n_A = 1 + n_A/2 + n_B/4 and n_B = n_A/2, so n_A = 8/3, n_B = 4/3. From B: n_A = 2/3, n_B = 4/3."""
    np.testing.assert_allclose(expected_visits(CHAIN, np.array([1, 0])), [8 / 3, 4 / 3], rtol=1e-14)
    np.testing.assert_allclose(expected_visits(CHAIN, np.array([0, 1])), [2 / 3, 4 / 3], rtol=1e-14)


@given(discount=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_values_solve_the_bellman_equation(discount: float, seed: int) -> None:
    """Random chains of six states that end with probability 1/10 at least; three tasks at once."""
    rng = np.random.default_rng(seed)
    transitions = rng.random((6, 6))
    transitions *= 0.9 * rng.random((6, 1)) / transitions.sum(axis=1, keepdims=True)
    rewards = rng.normal(size=(3, 6))
    values = state_values(transitions, rewards, discount)
    assert values.shape == (3, 6)
    np.testing.assert_allclose(values, rewards + discount * values @ transitions.T, atol=1e-10)
    visits = expected_visits(transitions, np.eye(6)[0])
    assert visits @ rewards[0] == pytest.approx(state_values(transitions, rewards[0], 1.0)[0], abs=1e-10)


def test_visits_of_the_grid() -> None:
    """16.5 steps on average from the centre, and the goal itself, each corner as often as the others."""
    transitions, _ = random_walk(GRID, TASKS)
    visits = expected_visits(transitions, np.eye(25)[12])
    assert visits.sum() == pytest.approx(17.5)
    np.testing.assert_allclose(visits[GRID.corners], 0.25)
    square = visits.reshape(5, 5)
    for turned in (square.T, square[::-1], square[:, ::-1]):
        np.testing.assert_allclose(turned, square)
