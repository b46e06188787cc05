"""PT-TD: its two equations by hand, Theorem 1, its consolidation pass in closed form. Whole lives: tests/learning/test_lives.py."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import (
    ROWS,
    TD,
    key_stub,
    pt,
    same,
    transition,
)
from remanence.agents import Agent, PTState, pt_td, td
from remanence.agents import ring as rings
from remanence.agents.behaviour import uniform
from remanence.agents.linear import linear, one_hot
from remanence.core.types import Hypers, Transition

TWO_STATE_TD = td(linear(one_hot(2)), uniform(4))


@cache
def two_states(buffer: int = 8) -> Agent:
    return pt_td(linear(one_hot(2)), uniform(4), jnp.int32(0), buffer)


def column(values: np.ndarray | list[float]) -> jax.Array:
    """Weights of a value function with one output."""
    return jnp.asarray(np.asarray(values, np.float32)[:, None])


@cache
def fresh(agent: Agent) -> PTState:
    return agent.init(jax.random.key(0), None)


def with_parts(agent: Agent, permanent: np.ndarray | list[float], transient: np.ndarray | list[float]) -> PTState:
    return fresh(agent)._replace(permanent=column(permanent), transient=column(transient))


@partial(jax.jit, static_argnums=0)
def learn_all(agent: Agent, state: Any, hypers: Hypers, transitions: Transition) -> Any:
    """The state after all transitions, one after the other."""
    return jax.lax.scan(lambda s, seen: (agent.learn(s, hypers, seen, key_stub()), None), state, transitions)[0]


@partial(jax.jit, static_argnums=0)
def consolidated(agent: Agent, state: PTState, hypers: Hypers) -> PTState:
    return agent.consolidate(state, hypers, key_stub(), True)


def having_visited(agent: Agent, state: PTState, visits: list[int]) -> PTState:
    """The agent after visits that taught it nothing."""
    padded = np.array([*visits, *[0] * (60 - len(visits))])  # one length, so one compilation
    steps = transition(padded, 0, padded, valid=np.arange(60) < len(visits))
    return state._replace(
        visited=learn_all(agent, state, Hypers(permanent_lr=0.0, transient_lr=0.0, decay=0.0), steps).visited
    )


def test_two_states_by_hand() -> None:
    """Equations 5 and 4 with γ = α^T = α^P = λ = 1/2; A is state 0, B is state 1.

    P = (1, 2), T = (0.5, −0.5), so V = (1.5, 1.5).
      A → B,   R = 1.75   δ = 1.75 + 0.75 − 1.5 = 1      T(A) = 0.5 + 0.5 = 1
      B → end, R = 3      δ = 3 − 1.5 = 1.5              T(B) = −0.5 + 0.75 = 0.25
      A → A,   R = 0      δ = 0 + 0.5·2 − 2 = −1         T(A) = 1 − 0.5 = 0.5
    Consolidation reads A, B, A towards V = (1.5, 2.25), which stays fixed meanwhile:
      A  P(A) = 1 + 0.5·0.5 = 1.25       B  P(B) = 2 + 0.5·0.25 = 2.125      A  P(A) = 1.25 + 0.5·0.25 = 1.375
    and leaves half of T: (0.25, 0.125).
    """
    agent, hypers = two_states(), Hypers(permanent_lr=0.5, transient_lr=0.5, decay=0.5)
    state = with_parts(agent, [1, 2], [0.5, -0.5])
    steps = [transition(0, 1.75, 1), transition(1, 3, 0, discount=0), transition(0, 0, 0)]
    for step, expected in zip(steps, [[1, -0.5], [1, 0.25], [0.5, 0.25]], strict=True):
        state = agent.learn(state, hypers, step, key_stub())
        assert state.transient[:, 0].tolist() == expected
        assert state.permanent[:, 0].tolist() == [1, 2]
    state = agent.consolidate(state, hypers, key_stub(), True)
    assert state.permanent[:, 0].tolist() == [1.375, 2.125]
    assert state.transient[:, 0].tolist() == [0.25, 0.125]
    assert int(rings.size(state.visited)) == 0
    assert int(state.dropped) == 0


def test_inspect_tells_the_parts_and_their_sum() -> None:
    belief = two_states().inspect(with_parts(two_states(), [1, 2], [0.5, -0.5]), jnp.int32(1))
    assert {part: value.tolist() for part, value in belief.items()} == {
        "value": [1.5],
        "permanent": [2],
        "transient": [-0.5],
    }


def test_waiting_changes_nothing_that_is_kept() -> None:
    agent, state = two_states(), with_parts(two_states(), [1, 2], [0.1, -0.5])
    after = agent.learn(
        state, Hypers(permanent_lr=0.5, transient_lr=0.5, decay=0.0), transition(0, np.nan, 1, valid=False), key_stub()
    )
    assert same(after.transient, state.transient)
    assert same(after.permanent, state.permanent)
    assert int(rings.size(after.visited)) == 0


# --- Theorem 1: with P fixed, PT-TD is TD that starts from P ---------------------------------------------------------------

EIGHT_STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-2, 2), st.integers(0, 1), st.sampled_from([0.0, 0.5])),
    min_size=8,
    max_size=8,
)


@given(permanent=st.lists(st.integers(-8, 8), min_size=2, max_size=2), steps=EIGHT_STEPS)
def test_theorem_1_exactly_where_arithmetic_is_exact(permanent: list[int], steps: list[tuple]) -> None:
    """Step size and discount 1/2, eight steps: every number fits in a float32, so equality must be bitwise."""
    start = [p / 4 for p in permanent]
    obs, reward, next_obs, discount = (np.array(part) for part in zip(*steps, strict=True))
    seen = transition(obs, reward, next_obs, discount)
    ours = learn_all(
        two_states(),
        with_parts(two_states(), start, [0, 0]),
        Hypers(permanent_lr=0.5, transient_lr=0.5, decay=0.0),
        seen,
    )
    theirs = learn_all(TWO_STATE_TD, column(start), Hypers(lr=0.5), seen)
    assert same(ours.permanent, column(start))
    assert same(ours.permanent + ours.transient, theirs)


def random_transitions(count: int) -> Transition:
    """Steps between random cells of the 5x5 grid; one in ten ends an episode."""
    rng = np.random.default_rng(0)
    discount = np.where(rng.random(count) < 0.1, 0, 0.9)
    obs, next_obs = rng.integers(0, 25, (2, count))
    return transition(obs, rng.normal(size=count), next_obs, discount)


def theorem_1_long_run(start: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """PT and TD values after 3 000 common steps."""
    seen = random_transitions(3_000)
    ours = learn_all(
        pt(), with_parts(pt(), start, np.zeros(25)), Hypers(permanent_lr=0.0, transient_lr=0.3, decay=0.0), seen
    )
    return ours.permanent + ours.transient, learn_all(TD, column(start), Hypers(lr=0.3), seen)


@pytest.mark.usefixtures("optimized")
def test_theorem_1_bitwise_over_a_long_run_from_zero() -> None:
    ours, theirs = theorem_1_long_run(np.zeros(25))
    assert same(ours, theirs)
    assert np.abs(theirs).max() > 0.5


def test_theorem_1_up_to_rounding_from_anywhere() -> None:
    ours, theirs = theorem_1_long_run(np.random.default_rng(1).normal(size=25))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


# --- The consolidation pass ------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    visits=st.lists(st.integers(0, 24), max_size=60),
    rate=st.sampled_from([0.01, 0.3, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_tabular_pass_in_closed_form(visits: list[int], rate: float, seed: int) -> None:
    """P_new(s) = P_old(s) + (1 − (1 − α)^n(s)) T(s), n(s) the number of visits; states not visited stay as they were."""
    permanent, transient = np.random.default_rng(seed).normal(size=(2, 25)).astype(np.float32)
    state = having_visited(pt(), with_parts(pt(), permanent, transient), visits)
    after = consolidated(pt(), state, Hypers(permanent_lr=rate, transient_lr=0.0, decay=0.0))
    count = np.bincount(visits, minlength=25)
    expected = permanent.astype(np.float64) + (1 - (1 - rate) ** count) * transient
    found = np.asarray(after.permanent)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[count == 0], permanent[count == 0])
    assert not after.transient.any()  # λ = 0: Algorithm 1 resets


def chronological(
    phi: np.ndarray, permanent: np.ndarray, transient: np.ndarray, visits: list[int], rate: float
) -> np.ndarray:
    """Equation 4 sample by sample in double precision."""
    weights, target = permanent.astype(np.float64), phi @ (permanent + transient.astype(np.float64))
    for s in visits:
        weights = weights + rate * (target[s] - phi[s] @ weights) * phi[s]
    return weights


def rows_phi() -> np.ndarray:
    phi = np.zeros((25, 10))
    for row in range(5):
        for col in range(5):
            phi[5 * row + col, [row, 5 + col]] = 1
    return phi


@pytest.mark.parametrize("buffer", [60, 30])
def test_linear_pass_is_chronological(buffer: int) -> None:
    """Features are shared, so order matters: reading backwards would give something else. A full buffer keeps the newest."""
    agent = pt_td(ROWS, uniform(4), jnp.int32(0), buffer)
    rng = np.random.default_rng(2)
    permanent, transient = rng.normal(size=(2, 10)).astype(np.float32)
    visits = rng.integers(0, 25, 50).tolist()
    state = having_visited(agent, with_parts(agent, permanent, transient), visits)
    after = consolidated(agent, state, Hypers(permanent_lr=0.2, transient_lr=0.0, decay=0.7))

    kept = visits[-buffer:]
    expected = chronological(rows_phi(), permanent, transient, kept, 0.2)
    np.testing.assert_allclose(after.permanent[:, 0], expected, rtol=1e-5, atol=1e-5)
    assert np.abs(expected - chronological(rows_phi(), permanent, transient, kept[::-1], 0.2)).max() > 1e-3
    np.testing.assert_allclose(after.transient[:, 0], 0.7 * transient, rtol=1e-6)
    assert int(after.dropped) == len(visits) - len(kept)
    assert int(rings.size(after.visited)) == 0


def test_lost_states_add_up_and_a_second_pass_starts_empty() -> None:
    """A buffer of 3: five visits lose two, two visits none, four visits one."""
    agent, hypers = two_states(buffer=3), Hypers(permanent_lr=0.5, transient_lr=0.0, decay=1.0)
    state = with_parts(agent, [0, 0], [1, 1])
    for visits, dropped, permanent in [
        ([1, 1, 0, 0, 0], 2, [0.875, 0.0]),  # three times halfway to 1; the visits to state 1 were lost
        ([1, 1], 2, [0.875, 0.75]),  # state 0 is no longer in the buffer. Targets are P + T: state 1 starts from 0
    ]:
        state = consolidated(agent, having_visited(agent, state, visits), hypers)
        assert int(state.dropped) == dropped
        assert state.permanent[:, 0].tolist() == permanent
    state = consolidated(agent, having_visited(agent, state, [0, 1, 0, 1]), hypers)
    assert int(state.dropped) == 3
