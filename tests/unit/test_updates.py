"""The equations on numbers worked by hand."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remanence.updates import decayed, permanent_error, td_error

NUMBER = st.floats(-100, 100, width=32)


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


def test_decay() -> None:
    """λ = 0.25 leaves a quarter; λ = 1 everything; λ = 0 is the reset of Algorithm 1."""
    transient = jnp.array([4.0, -2.0, 0.0])
    assert decayed(transient, jnp.float32(0.25)).tolist() == [1, -0.5, 0]
    assert decayed(transient, jnp.float32(1)).tolist() == [4, -2, 0]
    assert not decayed(transient, jnp.float32(0)).any()
