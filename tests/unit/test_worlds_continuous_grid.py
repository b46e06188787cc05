"""The continuous grid: its deterministic step, its chance, and its points of evaluation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TASKS
from remanence.core.prng import make_key
from remanence.worlds import ContinuousGrid
from remanence.worlds.grids.continuous import Noise

WORLD = ContinuousGrid()
UP, DOWN, LEFT, RIGHT = range(4)
UNIT = st.floats(0, 1, width=32)
apply = jax.jit(lambda state, action, task, shift: WORLD.apply(state, action, task, Noise(shift)))


def move(
    x: float, y: float, action: int, shift: tuple[float, float] = (0.0, 0.0), task: int = 0
) -> tuple[list[float], float, float, bool]:
    """(point, reward, discount, last) after one move."""
    state, seen = apply(jnp.float32([x, y]), action, jnp.asarray(TASKS[task]), jnp.float32(shift))
    assert state.tolist() == seen.obs.tolist()
    return seen.obs.tolist(), float(seen.reward), float(seen.discount), bool(seen.last)


@pytest.mark.parametrize(
    ("action", "point"), [(UP, [0.5, 0.6]), (DOWN, [0.5, 0.4]), (LEFT, [0.4, 0.5]), (RIGHT, [0.6, 0.5])]
)
def test_actions_move_by_a_tenth(action: int, point: list[float]) -> None:
    moved, reward, discount, last = move(0.5, 0.5, action)
    assert moved == pytest.approx(point)
    assert (reward, discount, last) == (0, pytest.approx(0.99), False)


def test_noise_is_added_to_both_coordinates() -> None:
    assert move(0.5, 0.5, RIGHT, shift=(0.01, -0.005))[0] == pytest.approx([0.61, 0.495])


@pytest.mark.parametrize(
    ("x", "y", "action", "shift", "point"),
    [
        (0.95, 0.5, RIGHT, (0.0, 0.0), [1.0, 0.5]),
        (0.05, 0.5, LEFT, (0.01, 0.01), [0.0, 0.51]),
        (0.5, 0.97, UP, (0.0, 0.0), [0.5, 1.0]),
        (0.5, 0.02, DOWN, (0.0, 0.0), [0.5, 0.0]),
        (0.005, 0.5, UP, (-0.01, 0.0), [0.0, 0.6]),  # noise alone may push against the edge
    ],
)
def test_the_edge_is_a_wall(x: float, y: float, action: int, shift: tuple[float, float], point: list[float]) -> None:
    assert move(x, y, action, shift)[0] == pytest.approx(point)


@pytest.mark.parametrize("task", range(4))
@pytest.mark.parametrize(
    ("x", "y", "action", "corner"),
    [(0.03, 0.89, UP, 0), (0.97, 0.89, UP, 1), (0.03, 0.11, DOWN, 2), (0.97, 0.11, DOWN, 3)],
)
def test_goals_pay_what_the_task_says_and_end_the_episode(
    x: float, y: float, action: int, corner: int, task: int
) -> None:
    """y points upwards, so action `up` leads to the top corners. Moves along one side reach distance 0.03 + 0.01."""
    _, reward, discount, last = move(x, y, action, task=task)
    assert (reward, discount, last) == (TASKS[task][corner], 0, True)


def test_goal_regions_are_diamonds() -> None:
    """Norm 1: (0.06, 0.06) is nearer than 0.1 in norms 2 and ∞, but not in norm 1."""
    inside = [WORLD.goals_at(jnp.float32(point)).tolist() for point in ([0.06, 0.06], [0.04, 0.05], [0.95, 0.96])]
    assert inside == [[False] * 4, [False, False, True, False], [False, True, False, False]]


@given(x=UNIT, y=UNIT, action=st.integers(0, 3), noise=st.tuples(st.floats(-0.01, 0.01), st.floats(-0.01, 0.01)))
def test_step_against_plain_formulas(x: float, y: float, action: int, noise: tuple[float, float]) -> None:
    """Anywhere in the square: the point is the clipped sum, and the episode ends where norm 1 says."""
    dx, dy = [(0, 0.1), (0, -0.1), (-0.1, 0), (0.1, 0)][action]
    expected = np.clip([x + dx + noise[0], y + dy + noise[1]], 0, 1)
    point, reward, discount, last = move(x, y, action, noise, task=2)
    assert point == pytest.approx(expected.tolist(), abs=1e-6)
    distances = [abs(point[0] - cx) + abs(point[1] - cy) for cx, cy in [(0, 1), (1, 1), (0, 0), (1, 0)]]
    if min(abs(distance - 0.1) for distance in distances) > 1e-6:  # rounding decides on the border itself
        within = [distance < 0.1 for distance in distances]
        assert last == any(within)
        assert reward == (TASKS[2] * within).sum()
        assert discount == (0 if last else pytest.approx(0.99))


def test_starts_fill_the_square_in_the_middle() -> None:
    keys = jax.random.split(make_key(0), 2_000)
    states, starts = jax.jit(jax.vmap(WORLD.reset, in_axes=(0, None)))(keys, jnp.zeros(4))
    points = np.asarray(starts)
    np.testing.assert_array_equal(states, points)
    assert points.min() >= 0.45
    assert points.max() <= 0.55 + 1e-7
    np.testing.assert_allclose(points.min(axis=0), 0.45, atol=2e-3)
    np.testing.assert_allclose(points.max(axis=0), 0.55, atol=2e-3)
    assert abs(np.corrcoef(points.T)[0, 1]) < 0.1  # two coordinates, drawn separately


def test_noise_fills_its_square() -> None:
    shifts = np.asarray(jax.jit(jax.vmap(lambda key: WORLD.draw(key).shift))(jax.random.split(make_key(1), 2_000)))
    assert np.abs(shifts).max() <= 0.01
    np.testing.assert_allclose(shifts.min(axis=0), -0.01, atol=2e-4)
    np.testing.assert_allclose(shifts.max(axis=0), 0.01, atol=2e-4)
    assert abs(np.corrcoef(shifts.T)[0, 1]) < 0.1


def test_step_is_apply_of_what_was_drawn() -> None:
    key, state, task = make_key(3), jnp.float32([0.3, 0.4]), jnp.asarray(TASKS[0])
    point, seen = WORLD.step(key, state, jnp.int32(UP), task)
    expected, _ = WORLD.apply(state, jnp.int32(UP), task, WORLD.draw(key))
    np.testing.assert_array_equal(point, expected)
    np.testing.assert_array_equal(seen.obs, expected)
    assert np.abs(np.asarray(point) - [0.3, 0.5]).max() > 1e-4  # chance did something


def test_evaluation_points_are_213_of_225() -> None:
    """An even lattice of 15 x 15 without the 12 points in goal regions: each corner and its two neighbours."""
    points = WORLD.evaluation_points()
    assert points.shape == (213, 2)
    kept = {tuple(point) for point in np.rint(points * 14).astype(int).tolist()}
    np.testing.assert_allclose(points * 14, np.rint(points * 14), atol=1e-9)
    missing = {(i, j) for i in range(15) for j in range(15)} - kept
    assert missing == {
        *[(0, 0), (0, 1), (1, 0)],
        *[(14, 0), (13, 0), (14, 1)],
        *[(0, 14), (0, 13), (1, 14)],
        *[(14, 14), (13, 14), (14, 13)],
    }
    assert not any(WORLD.goals_at(jnp.asarray(point, jnp.float32)).any() for point in points[:20])
