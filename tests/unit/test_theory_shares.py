"""Kept, absorbed and forgotten shares of the transient part: what they rule out, and what they lead to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remanence.core.errors import UserError
from remanence.theory.shares import (
    Shares,
    absorbed_share,
    consolidated,
    consolidation_cycle,
    inflation,
    lifetime,
    mean_lifetime,
    share_left,
)

STATES, ACTIONS, STEPS = 4, 2, 300
PROPERTY = settings(max_examples=30, deadline=None)


def live(seed: int, forgotten: tuple[float, float], control: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Tables learned from random transitions, with consolidations at random times of random shares in every entry.

    Returns P and V after each step [steps, entries], the values of the learner without a permanent part, and the largest |reward|.
    """
    rng = np.random.default_rng(seed)
    discount, largest, absorbing = rng.uniform(0.5, 0.99), rng.uniform(0.1, 2.0), rng.random()
    shape = (STATES, ACTIONS if control else 1)
    bound = largest / (1 - discount)
    permanent = rng.uniform(-bound, bound, size=shape)
    transient = rng.uniform(-bound, bound, size=shape) - permanent
    plain = permanent + transient
    paths: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for _ in range(STEPS):
        place = rng.integers(STATES), rng.integers(shape[1])
        following, reward, step_size = rng.integers(STATES), rng.uniform(-largest, largest), rng.random()
        alive = rng.random() < 0.9
        for values in (permanent + transient, plain):
            target = reward + discount * alive * values[following].max()
            table = plain if values is plain else transient
            table[place] += step_size * (target - values[place])
        if rng.random() < 0.1:
            lost = rng.uniform(*forgotten, size=shape)
            absorbed = absorbing * (1 - lost) * rng.random(shape)
            permanent, transient = consolidated(permanent, transient, Shares(1 - lost - absorbed, absorbed))
        paths[0].append(permanent.copy())
        paths[1].append(permanent + transient)
    return np.array(paths[0]), np.array(paths[1]), plain, bound


@PROPERTY
@given(st.integers(0, 2**31), st.booleans())
def test_with_nothing_forgotten_the_split_does_not_matter(seed: int, control: bool) -> None:
    _, values, plain, bound = live(seed, (0.0, 0.0), control)
    np.testing.assert_allclose(values[-1], plain, atol=1e-11 * bound)


def test_with_something_forgotten_it_does() -> None:
    _, values, plain, bound = live(0, (0.2, 0.4), control=True)
    assert np.abs(values[-1] - plain).max() > 1e-3 * bound


@PROPERTY
@given(st.integers(0, 2**31), st.booleans())
def test_values_stay_possible_if_no_more_is_kept_and_absorbed_than_there_is(seed: int, control: bool) -> None:
    permanent, values, _, bound = live(seed, (0.0, 1.0), control)
    assert max(np.abs(permanent).max(), np.abs(values).max()) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("control", [False, True])
def test_they_leave_what_is_possible_if_more_is(control: bool) -> None:
    """The bound is sharp: without it, the same lives inflate."""
    beyond = [
        np.abs(values).max() / bound for _, values, _, bound in (live(seed, (-0.9, -0.5), control) for seed in range(5))
    ]
    assert min(beyond) > 1.0


@PROPERTY
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 1.0))
def test_one_consolidation_of_a_learned_task_shows_the_sign_of_what_is_forgotten(
    a: float, kept: float, value: float
) -> None:
    """V = v and P = 0: after it V is (a + λ) v."""
    permanent, transient = consolidated(np.zeros(1), np.array([value]), Shares(kept, a))
    assert (permanent + transient)[0] == pytest.approx((a + kept) * value)
    assert inflation(Shares(kept, a), 1.0) == pytest.approx(max(1.0, a + kept), abs=1e-9)


@PROPERTY
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 0.99))
def test_the_cycle_of_one_state_is_the_one_of_td(a: float, kept: float, learned: float) -> None:
    shares = Shares(kept, a)
    cycle = consolidation_cycle(shares, learned)
    left = 1 - learned
    assert np.linalg.det(cycle) == pytest.approx(kept * left, abs=1e-12)
    trace = 1 - a * learned + kept * left
    roots = np.roots([1.0, -trace, kept * left])
    np.testing.assert_allclose(np.sort_complex(np.linalg.eigvals(cycle)), np.sort_complex(roots), atol=1e-6)
    # The same with TD in a process of one state: 7 steps of step size s learn this share.
    discount, reward = 0.9, 0.3
    value = reward / (1 - discount)
    step_size = (1 - left ** (1 / 7)) / (1 - discount)
    permanent, transient = np.array([0.2 * value]), np.array([0.5 * value])
    start = np.array([1 - 0.2, 0.5])
    for _ in range(7):
        transient += step_size * (reward + (discount - 1) * (permanent + transient))
    permanent, transient = consolidated(permanent, transient, shares)
    np.testing.assert_allclose(cycle @ start, [1 - permanent[0] / value, transient[0] / value], atol=1e-9)


@PROPERTY
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.05, 1.0))
def test_one_state_inflates_only_if_more_is_kept_and_absorbed_than_there_is(
    a: float, forgotten: float, learned: float
) -> None:
    assert inflation(Shares((1 - a) * (1 - forgotten), a), learned) == pytest.approx(1.0, abs=1e-9)


def test_the_transient_part_is_a_momentum_that_nearly_doubles_values() -> None:
    """Slow learning, everything absorbed and nearly everything kept: eigenvalues are complex and values swing around v."""
    shares, learned = Shares(0.99, 1.0), 0.01
    assert np.abs(np.linalg.eigvals(consolidation_cycle(shares, learned)).imag).min() > 0.05
    assert 1.7 < inflation(shares, learned) < 2.0
    assert inflation(Shares(0.5, 1.0), learned) < 1.02  # the less is kept, the less momentum there is


@PROPERTY
@given(st.floats(0.01, 1e3), st.floats(0.1, 1e3))
def test_lifetimes_and_shares(interval: float, tau: float) -> None:
    left = share_left(interval, tau)
    if 1e-300 < left < 1 - 1e-9:
        assert lifetime(interval, left) == pytest.approx(tau, rel=1e-6)
        assert mean_lifetime(interval, left) == pytest.approx(interval / 2 / np.tanh(interval / tau / 2), rel=1e-6)
    other = tau * 1.5
    shares = Shares.of_lifetimes(interval, tau, other)
    assert shares.forgotten >= -1e-12  # τ_T ≤ τ_P
    assert Shares.of_lifetimes(interval, other, tau).forgotten <= 1e-12


def test_the_mean_lifetime_is_a_mean_age() -> None:
    """Everything learned at the steps of one interval, followed until it is lost: counted, not computed."""
    interval, kept = 4, 0.6
    ages = []
    for start in np.linspace(0, interval, 1001)[:-1] + interval / 2002:  # time until the next consolidation
        at_consolidation = start + interval * np.arange(200)
        ages.append((at_consolidation * kept ** np.arange(200) * (1 - kept)).sum())
    assert mean_lifetime(interval, kept) == pytest.approx(np.mean(ages), rel=1e-3)
    assert mean_lifetime(interval, 0.0) == interval / 2


def test_shares_of_a_pass_over_visits() -> None:
    np.testing.assert_allclose(absorbed_share(0.1, np.array([0, 1, 3])), [0.0, 0.1, 1 - 0.9**3])


def test_the_permanent_part_is_a_moving_average() -> None:
    rng = np.random.default_rng(0)
    permanent, a, seen = np.zeros(1), 0.3, []
    for _ in range(20):
        seen.append(rng.normal())
        permanent, _ = consolidated(permanent, seen[-1] - permanent, Shares(rng.random(), a))
    assert permanent[0] == pytest.approx(sum(a * (1 - a) ** n * value for n, value in enumerate(reversed(seen))))


@pytest.mark.parametrize(("interval", "left"), [(0.0, 0.5), (1.0, 1.5), (1.0, -0.1)])
def test_shares_that_cannot_be(interval: float, left: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        lifetime(interval, left)
    with pytest.raises(UserError, match="cannot be negative"):
        share_left(1.0, -1.0)
