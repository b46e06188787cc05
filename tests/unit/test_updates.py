"""The equations on numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remanence.updates import (
    decayed,
    double_value,
    dueling,
    huber,
    n_step_return,
    permanent_error,
    permanent_loss,
    soft_copy,
    td_error,
    td_target,
    transient_loss,
)

NUMBER = st.floats(-100, 100, width=32)


def test_td_target() -> None:
    """y = R + γ v(S') = 1 + 0.5 · 4 = 3; at an end γ is 0 and y = R."""
    reward, discount, next_value = jnp.array([1.0, 1.0]), jnp.array([0.5, 0.0]), jnp.array([4.0, 4.0])
    assert td_target(reward, discount, next_value).tolist() == [3, 1]


def test_td_error() -> None:
    """δ = R + γ v(S') − v(S) = 1 + 0.5 · 4 − 2.5 = 0.5."""
    assert float(td_error(jnp.float32(2.5), jnp.float32(1), jnp.float32(0.5), jnp.float32(4))) == 0.5


@given(value=NUMBER, reward=NUMBER, next_value=NUMBER)
def test_td_error_at_an_end_bootstraps_nothing(value: float, reward: float, next_value: float) -> None:
    error = td_error(jnp.float32(value), jnp.float32(reward), jnp.float32(0), jnp.float32(next_value))
    assert float(error) == pytest.approx(reward - value, rel=1e-6)


def test_permanent_error() -> None:
    """V^PT(S) − V^P(S) = 1.5 − 1.25 = 0.25: towards the target (Eq. 4), not away from it."""
    assert float(permanent_error(jnp.float32(1.5), jnp.float32(1.25))) == 0.25


def test_transient_loss() -> None:
    """Targets 3, 1, 7 and V^P = 1, 0.5, 0 leave 2, 0.5, 7 for V^T = 1.5, 1, 0: errors 0.5, −0.5, and one that does not count.

    The loss is (0.25 + 0.25 + 0) / 3, its gradient −2 δ / 3 in V^T. In V^P and the target, which carry weights too, it is 0.
    """
    transient, permanent = jnp.array([1.5, 1.0, 0.0]), jnp.array([1.0, 0.5, 0.0])
    target, valid = jnp.array([3.0, 1.0, 7.0]), jnp.array([True, True, False])
    loss, gradients = jax.value_and_grad(transient_loss, argnums=(0, 1, 2))(transient, permanent, target, valid)
    assert float(loss) == pytest.approx(0.5 / 3)
    assert gradients[0].tolist() == pytest.approx([-1 / 3, 1 / 3, 0])
    assert not gradients[1].any()
    assert not gradients[2].any()


def test_permanent_loss() -> None:
    """Stored V^P = 1, 2, 5 and V^T = 0.5, −1, 5: ŷ = 1.5, 1, 10; V^P is now 1, 2, 0: errors 0.5, −1, and one that is not valid.

    The loss is (0.25 + 1 + 0) / 3, its gradient −2 (ŷ − V^P) / 3 in V^P, and 0 in V^T and in what was stored.
    """
    permanent, stored, transient = jnp.array([1.0, 2.0, 0.0]), jnp.array([1.0, 2.0, 5.0]), jnp.array([0.5, -1.0, 5.0])
    valid = jnp.array([True, True, False])
    loss, gradients = jax.value_and_grad(permanent_loss, argnums=(0, 1, 2))(permanent, stored, transient, valid)
    assert float(loss) == pytest.approx(1.25 / 3)
    assert gradients[0].tolist() == pytest.approx([-1 / 3, 2 / 3, 0])
    assert not gradients[1].any()
    assert not gradients[2].any()


def test_decay() -> None:
    """λ = 0.25 leaves a quarter; λ = 1 everything; λ = 0 is the reset of Algorithm 1."""
    transient = jnp.array([4.0, -2.0, 0.0])
    assert decayed(transient, jnp.float32(0.25)).tolist() == [1, -0.5, 0]
    assert decayed(transient, jnp.float32(1)).tolist() == [4, -2, 0]
    assert not decayed(transient, jnp.float32(0)).any()


def test_n_step_return() -> None:
    """Rewards 1, 2, 4 and γ = 0.5: 1 + 1 + 1 = 3, then γ³ = 1/8. Truncated after the second: 2, γ² = 1/4. Ended there: 2, γ = 0."""
    rewards = jnp.array([[1.0, 2.0, 4.0]] * 3)
    discounts = jnp.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.5, 0.0, 0.5]])
    last = jnp.array([[False, False, False], [False, True, False], [False, True, True]])
    paid, discount, more = n_step_return(rewards, discounts, last)
    assert paid.tolist() == [3, 2, 2]
    assert discount.tolist() == [0.125, 0.25, 0]
    assert more.tolist() == [2, 1, 1]


def test_double_value() -> None:
    """The first network prefers action 2, which the second one holds for the worst."""
    assert float(double_value(jnp.array([1.0, 2.0, 3.0]), jnp.array([9.0, 5.0, -1.0]))) == -1


def test_dueling() -> None:
    """v = 1, A = (4, 0, 2) with mean 2: q = (3, −1, 1), whose mean is v."""
    assert dueling(jnp.array([1.0]), jnp.array([4.0, 0.0, 2.0])).tolist() == [3, -1, 1]
    two = dueling(jnp.array([[1.0], [0.0]]), jnp.array([[4.0, 0.0, 2.0], [1.0, 1.0, 4.0]]))
    assert two.tolist() == [[3, -1, 1], [-1, -1, 2]]  # each state has its own mean


def test_huber() -> None:
    """½ · 0.5² = 0.125, ½ at the corner, 3 − ½ beyond; its gradient is δ up to ±1."""
    losses, gradients = jax.vmap(jax.value_and_grad(huber))(jnp.array([0.5, 1.0, 3.0, -3.0]))
    assert losses.tolist() == [0.125, 0.5, 2.5, 2.5]
    assert gradients.tolist() == [0.5, 1, 1, -1]


def test_soft_copy() -> None:
    """¾ · 4 + ¼ · 8 = 5."""
    assert float(soft_copy(jnp.float32(4), jnp.float32(8), 0.25)) == 5
