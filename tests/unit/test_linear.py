"""Sparse linear values are the dense formulas of the paper."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from conftest import key_stub
from remanence.agents.linear import (
    MAX_ENTRIES,
    Features,
    Value,
    linear,
    one_hot,
    row_and_column,
    table_entries,
    thresholded_rbf,
)

ORDER = 26
RBF = thresholded_rbf(ORDER)
ROW_AND_COLUMN, RADIAL = jax.jit(row_and_column(5).encode), jax.jit(RBF.encode)
CODINGS: dict[str, tuple[Features, np.ndarray]] = {
    "table": (one_hot(25), np.arange(25)),
    "rows and columns": (row_and_column(5), np.arange(25)),
    "radial": (RBF, np.random.default_rng(3).random((25, 2), np.float32)),
}


def dense(features: Features, observations: np.ndarray) -> np.ndarray:
    """[observations, features] the matrix Φ, from what `encode` says is active."""
    index, strength = (np.asarray(part) for part in jax.jit(jax.vmap(features.encode))(jnp.asarray(observations)))
    phi = np.zeros((len(observations), features.count))
    for row, which, how_much in zip(phi, index, strength, strict=True):
        for i, x in zip(which, how_much, strict=True):
            row[i] += x
    return phi


@pytest.mark.parametrize("coding", CODINGS)
def test_apply_is_phi_times_weights(coding: str) -> None:
    features, observations = CODINGS[coding]
    weights = np.random.default_rng(0).normal(size=(features.count, 3)).astype(np.float32)
    apply = jax.jit(jax.vmap(linear(features, outputs=3).apply, in_axes=(None, 0)))
    values = apply(jnp.asarray(weights), jnp.asarray(observations))
    np.testing.assert_allclose(values, dense(features, observations) @ weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("output", [0, 2])
def test_nudge_is_a_step_along_the_gradient(coding: str, output: int) -> None:
    features, observations = CODINGS[coding]
    value: Value = linear(features, outputs=3)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(features.count, 3)), jnp.float32)
    obs, amount = jnp.asarray(observations[7]), jnp.float32(0.37)
    gradient = np.asarray(jax.jit(jax.grad(lambda w: value.apply(w, obs)[output]))(weights))
    assert np.count_nonzero(gradient) >= 1
    nudged = jax.jit(value.add_scaled_gradient)(weights, obs, jnp.int32(output), amount)
    np.testing.assert_allclose(nudged, np.asarray(weights) + np.float32(amount) * gradient, rtol=1e-6)


def test_values_start_at_zero() -> None:
    weights = linear(one_hot(6), outputs=2).init(key_stub())
    assert weights.shape == (6, 2)
    assert not weights.any()


def test_table_has_one_feature_per_state() -> None:
    np.testing.assert_array_equal(dense(one_hot(25), np.arange(25)), np.eye(25))


def test_rows_and_columns_of_the_start_are_those_of_the_paper() -> None:
    """App. C.1.1: the starting state (2, 2) is [0,0,1,0,0,0,0,1,0,0]."""
    np.testing.assert_array_equal(dense(row_and_column(5), np.array([12]))[0], [0, 0, 1, 0, 0, 0, 0, 1, 0, 0])


@given(row=st.integers(0, 4), column=st.integers(0, 4))
def test_rows_come_first_then_columns(row: int, column: int) -> None:
    index, strength = ROW_AND_COLUMN(np.int32(5 * row + column))
    assert index.tolist() == [row, 5 + column]
    assert strength.tolist() == [1, 1]


def radial_by_definition(points: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary features of all order² centres in double precision, and which points no rounding could change."""
    side = np.linspace(0, 1, order)
    centres = np.array([(x, y) for x in side for y in side])
    squared = ((points[:, None, :].astype(np.float64) - centres) ** 2).sum(axis=-1)
    bumps = np.exp(-squared / (2 * (0.75 / (order - 1)) ** 2))
    return bumps > 0.5, np.abs(bumps - 0.5).min(axis=-1) > 1e-4


def test_active_radial_features_are_those_of_all_676_centres() -> None:
    points = np.random.default_rng(0).random((6_000, 2), np.float32)
    expected, clear = radial_by_definition(points, ORDER)
    assert expected.shape[1] == RBF.count == 676
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(dense(RBF, points)[clear], expected[clear])
    assert set(expected.sum(axis=-1).tolist()) == {1, 2, 3, 4}  # at most four; every case was met


def test_radial_features_on_the_lattice_and_at_the_edges() -> None:
    """Centres themselves, the corners and the sides of the square: where `floor` could choose the wrong cell."""
    side = np.linspace(0, 1, ORDER)
    lattice = np.array([(x, y) for x in side for y in side], np.float32)
    edges = np.array([(x, y) for x in (0.0, 1.0) for y in (0.0, 0.013, 0.5, 0.999, 1.0)], np.float32)
    points = np.concatenate([lattice, edges, edges[:, ::-1]])
    expected, clear = radial_by_definition(points, ORDER)
    assert clear.all()
    np.testing.assert_array_equal(dense(RBF, points), expected)


@given(point=hnp.arrays(np.float32, 2, elements=st.floats(0, 1, width=32)))
def test_radial_indices_exist_and_differ(point: np.ndarray) -> None:
    index, strength = (np.asarray(part) for part in RADIAL(point))
    assert len(set(index.tolist())) == 4
    assert index.min() >= 0
    assert index.max() < 676
    assert set(strength.tolist()) <= {0.0, 1.0}
    assert strength.sum() >= 1  # no point of the square is out of reach of all centres


def test_entries_of_a_table_that_32_bits_cannot_count() -> None:
    small = table_entries(jnp.arange(6.0).reshape(3, 2))
    assert small.obs.tolist() == [0, 0, 1, 1, 2, 2]
    assert small.output.tolist() == [0, 1, 0, 1, 0, 1]
    assert small.weight.tolist() == [0, 1, 2, 3, 4, 5]
    large = jax.eval_shape(table_entries, jax.ShapeDtypeStruct((9, 2**31 - 1), jnp.float32))
    assert large.weight.shape == large.obs.shape == large.output.shape == (MAX_ENTRIES,)


@pytest.mark.parametrize(
    ("lr", "visits", "expected"),
    [(0.5, 2, 2.5), (0.5, 0, 1.0), (1.0, 3, 3.0), (1.5, 3, 3.25), (1.5, 2, 2.5), (0.0, 4, 1.0)],
)
def test_closed_form_of_many_steps(lr: float, visits: int, expected: float) -> None:
    """w = 1, target 3: n steps of size α leave (1 − α)^n of the distance 2. With α = 1.5 each step changes its sign."""
    step = linear(one_hot(1)).closed_form_step
    assert step is not None
    weights, target = jnp.ones((1, 1)), jnp.full((1, 1), 3.0)
    found = step(weights, target, jnp.full((1, 1), visits, jnp.int32), lr)
    assert float(found[0, 0]) == pytest.approx(expected, rel=1e-6)
