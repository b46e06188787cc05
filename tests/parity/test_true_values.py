"""True values: exact ones, Monte Carlo ones with their standard errors, and the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import remanence.worlds.true_values
from conftest import GRID, TASKS, TRUTH, brute_force_values
from remanence.core.backend import cache_directory
from remanence.core.prng import make_key
from remanence.theory import state_values
from remanence.worlds import ITEM_ROOMS_TASKS, ContinuousGrid, Goal, Items, Rooms, RoomsState, item_rooms
from remanence.worlds.rooms.world import Start
from remanence.worlds.true_values import (
    Returns,
    _returns_from,
    continuous_grid_truth,
    monte_carlo_returns,
    random_walk,
    rooms_truth,
)

INNER = np.setdiff1d(np.arange(25), GRID.corners)


def test_the_start_is_worth_the_same_in_every_task() -> None:
    np.testing.assert_allclose(TRUTH.values[:, GRID.start], 0.161423, atol=1e-6)


def test_error_of_a_zero_estimate() -> None:
    """The published numbers: 0.250261 by visits, 0.260446 with all states alike."""
    for values in TRUTH.values:
        assert np.sqrt(TRUTH.weights @ values**2) == pytest.approx(0.250261, abs=1e-6)
        assert np.sqrt((values**2).mean()) == pytest.approx(0.260446, abs=1e-6)


def test_values_equal_those_of_value_iteration() -> None:
    np.testing.assert_allclose(TRUTH.values, [brute_force_values(task, 0.9) for task in TASKS], atol=1e-12)


def test_bellman_residual_is_zero_and_goals_are_worth_nothing() -> None:
    transitions, rewards = random_walk(GRID, TASKS)
    residual = rewards + GRID.discount * TRUTH.values @ transitions.T - TRUTH.values
    np.testing.assert_allclose(residual, 0, atol=1e-14)
    np.testing.assert_array_equal(TRUTH.values[:, GRID.corners], 0)


def test_random_walk_is_a_distribution_that_ends_in_corners() -> None:
    transitions, rewards = random_walk(GRID, TASKS)
    np.testing.assert_allclose(transitions.sum(axis=1)[INNER], 1)
    assert not transitions[GRID.corners].any()
    assert not rewards[:, GRID.corners].any()
    assert rewards[0, [3, 9, 1]].tolist() == [0.25, 0.25, 0]  # beside the top right corner, and beside the top left one


def test_weights_are_normalised_visits() -> None:
    assert TRUTH.final.nonzero()[0].tolist() == [0, 4, 20, 24]
    assert TRUTH.weights.sum() == pytest.approx(1)
    assert TRUTH.weights[GRID.corners].tolist() == pytest.approx([0.25 / 17.5] * 4)


# --- Monte Carlo -----------------------------------------------------------------------------------------------------------

EPISODES = 1_280


@pytest.fixture(scope="module")
def sampled() -> Returns:
    """Returns from every inner cell of the grid, for the four tasks that reward one corner each."""
    return monte_carlo_returns(GRID, INNER.astype(np.int32), np.eye(4, dtype=np.float32), EPISODES, seed=0)


def exact_moments() -> tuple[np.ndarray, np.ndarray]:
    """First and second moments [4, cells]: the return is γ^(n−1), so its square is a return of discount γ²."""
    first = np.array([brute_force_values(goal, 0.9) for goal in np.eye(4)])
    second = np.array([brute_force_values(goal, 0.81) for goal in np.eye(4)])
    return first[:, INNER], second[:, INNER]


def test_monte_carlo_agrees_with_exact_values(sampled: Returns) -> None:
    """Within five standard errors everywhere, and as far off as standard errors say: neither more nor less."""
    first, second = exact_moments()
    deviations = (sampled.mean - first) / np.sqrt((second - first**2) / EPISODES)
    assert sampled.mean.shape == (4, 21)
    assert int(sampled.episodes) == EPISODES
    assert np.abs(deviations).max() < 5
    assert 0.75 < np.sqrt((deviations**2).mean()) < 1.25


def test_monte_carlo_second_moments_agree_with_exact_ones(sampled: Returns) -> None:
    """One corner is reached per episode: returns of two of these tasks are never both positive."""
    first, second = exact_moments()
    fourth = np.array([brute_force_values(goal, 0.9**4) for goal in np.eye(4)])[:, INNER]
    own = np.einsum("iip->ip", sampled.second_moment)
    assert np.abs((own - second) / np.sqrt((fourth - second**2) / EPISODES)).max() < 5
    assert sampled.second_moment.sum() == pytest.approx(own.sum())
    estimated = np.sqrt((own - sampled.mean**2) / EPISODES)
    np.testing.assert_allclose(estimated, np.sqrt((second - first**2) / EPISODES), rtol=0.25)


@dataclass(frozen=True)
class Strides(ContinuousGrid):
    """A continuous grid with short episodes and few points."""

    stride: float = 0.3

    def evaluation_points(self, per_side: int = 3) -> np.ndarray:
        return super().evaluation_points(per_side)


def test_continuous_values_are_those_of_a_symmetric_world(own_cache: Path) -> None:
    """A task and its mirror image agree within five standard errors; two tasks that share out the corners add up to all."""
    truth = continuous_grid_truth(Strides(), TASKS, episodes=1_280)
    assert truth.standard_error is not None
    assert truth.values.shape == truth.standard_error.shape == (4, len(truth.points)) == (4, 5)
    np.testing.assert_allclose(truth.weights, 1 / 5)
    assert not truth.final.any()
    np.testing.assert_allclose(truth.points, [[0, 0.5], [0.5, 0], [0.5, 0.5], [0.5, 1], [1, 0.5]])
    mirrored = truth.values[1][[4, 1, 2, 3, 0]]  # task 1 pays left what task 0 pays right: mirror x
    spread = np.hypot(truth.standard_error[0], truth.standard_error[1][[4, 1, 2, 3, 0]])
    assert (np.abs(truth.values[0] - mirrored) < 5 * spread).all()
    assert (truth.values[0][[0, 4]] != mirrored[[0, 4]]).any()
    assert truth.values[0, 4] > truth.values[0, 2] > truth.values[0, 0]  # the right pays
    np.testing.assert_allclose(truth.values[0] + truth.values[1], truth.values[2] + truth.values[3], rtol=1e-5)
    assert list((own_cache / "truth").glob("*.npz"))


def test_standard_error_counts_the_episodes_that_were_played() -> None:
    """64 walkers play whole episodes each: asked for 100, they play 128, as when asked for 128."""
    some, more = (continuous_grid_truth(Strides(), TASKS, episodes=episodes, seed=1) for episodes in (100, 128))
    np.testing.assert_array_equal(some.values, more.values)
    np.testing.assert_allclose(some.standard_error, more.standard_error)  # type: ignore[arg-type]


# --- The cache -------------------------------------------------------------------------------------------------------------


@dataclass
class Rollouts:
    """Stands in for Monte Carlo: known moments, and a count of how often they were asked for."""

    calls: int = 0

    def __call__(
        self, world: ContinuousGrid, points: np.ndarray, goals: np.ndarray, episodes: int, seed: int
    ) -> Returns:
        del world, goals, seed
        self.calls += 1
        corner, place = np.array([0.1, 0.2, 0.3, 0.4]), np.ones(len(points))
        return Returns(np.outer(corner, place), np.einsum("ij,p->ijp", np.diag(corner), place), np.asarray(episodes))


@pytest.fixture
def rollouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rollouts:
    """With a cache of its own."""
    monkeypatch.setenv("REMANENCE_CACHE", str(tmp_path))
    stand_in = Rollouts()
    monkeypatch.setattr(remanence.worlds.true_values, "monte_carlo_returns", stand_in)
    return stand_in


def test_values_and_standard_errors_follow_from_the_moments(rollouts: Rollouts) -> None:
    """Task 0101 of corner means .1 .2 .3 .4: mean .6. Second moment .2 + .4, so variance .6 − .36 = .24 = 384 · .025²."""
    truth = continuous_grid_truth(ContinuousGrid(), TASKS, episodes=384)
    assert truth.standard_error is not None
    assert rollouts.calls == 1
    np.testing.assert_allclose(truth.values[:, 0], [0.6, 0.4, 0.7, 0.3])
    np.testing.assert_allclose(truth.standard_error[0], 0.025)


def test_what_is_cached_is_not_computed_again(rollouts: Rollouts, tmp_path: Path) -> None:
    assert cache_directory() == tmp_path
    first, second = (continuous_grid_truth(ContinuousGrid(), TASKS) for _ in range(2))
    assert rollouts.calls == 1
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.standard_error, second.standard_error)  # type: ignore[arg-type]
    assert [path.suffix for path in (tmp_path / "truth").iterdir()] == [".npz"]  # nothing half-written is left


def test_other_tasks_share_the_rollouts_but_other_recipes_do_not(rollouts: Rollouts) -> None:
    continuous_grid_truth(ContinuousGrid(), TASKS)
    continuous_grid_truth(ContinuousGrid(), TASKS[:2] + 1)
    assert rollouts.calls == 1
    continuous_grid_truth(ContinuousGrid(), TASKS, seed=1)
    continuous_grid_truth(ContinuousGrid(), TASKS, episodes=20_000)
    continuous_grid_truth(ContinuousGrid(noise=0.02), TASKS)
    assert rollouts.calls == 4


def flipped(content: bytes) -> bytes:
    """One bit of the data is wrong."""
    middle = len(content) // 3
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda _: b"", lambda _: b"not an archive at all", lambda content: content[: len(content) // 2], flipped],
    ids=["empty", "garbage", "truncated", "one bit flipped"],
)
def test_a_damaged_cache_is_made_again(damage, rollouts: Rollouts, tmp_path: Path) -> None:
    expected = continuous_grid_truth(ContinuousGrid(), TASKS)
    (path,) = (tmp_path / "truth").glob("*.npz")
    path.write_bytes(damage(path.read_bytes()))
    again = continuous_grid_truth(ContinuousGrid(), TASKS)
    assert rollouts.calls == 2
    np.testing.assert_array_equal(again.values, expected.values)
    continuous_grid_truth(ContinuousGrid(), TASKS)
    assert rollouts.calls == 2  # mended for good


def test_returns_in_rooms_against_a_linear_solve() -> None:
    """A corridor with an item and a goal: all its states are enumerated, their exact values solved for, and rolled out."""
    world = Rooms(4, 1, starts=((0, 0),), goals=(Goal((3, 0), 1),), items=(Items("red", ((1, 0),), 0),), discount=0.7)
    start, _ = world.begin(Start(jnp.int32(0), jnp.int32(0)))
    states, numbers, rows = [start], {_name(start): 0}, []
    for state in states:  # grows while new states are found
        row = []
        for action in range(3):
            after, seen = world.apply(state, jnp.int32(action), jnp.array([1.0, 10.0]))
            if not bool(seen.last) and _name(after) not in numbers:
                numbers[_name(after)] = len(states)
                states.append(after._replace(steps=jnp.int32(0)))
            row.append((None if bool(seen.last) else numbers[_name(after)], float(seen.reward)))
        rows.append(row)
    transitions, rewards = np.zeros((len(states), len(states))), np.zeros(len(states))
    for i, row in enumerate(rows):
        for following, reward in row:
            rewards[i] += reward / 3
            if following is not None:
                transitions[i, following] += 1 / 3
    exact = state_values(transitions, rewards, 0.7)
    assert len(states) >= 16
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    gains = _returns_from(world, stacked, 4000, make_key(0)) @ [1.0, 10.0]
    error = gains.std(axis=1) / np.sqrt(4000)
    assert (np.abs(gains.mean(axis=1) - exact) < 4 * error + 1e-4).all()


def _name(state: RoomsState) -> tuple[int, ...]:
    return int(state.cell), int(state.direction), *state.items.astype(int).tolist()


def test_item_rooms_truth_is_known_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small standard errors, inputs of the agent's shape, the same again from the cache; stacked frames end with the single one."""
    monkeypatch.setenv("REMANENCE_CACHE", str(tmp_path))
    world = item_rooms()
    one = rooms_truth(world, ITEM_ROOMS_TASKS, states=16, rollouts=256)
    again = rooms_truth(world, ITEM_ROOMS_TASKS, states=16, rollouts=256)
    np.testing.assert_array_equal(one.values, again.values)
    assert one.standard_error is not None
    assert one.standard_error.mean() < 0.03
    assert one.points.shape == (16, 5, 5, 5)
    assert one.values.shape == (4, 16)
    four = rooms_truth(world, ITEM_ROOMS_TASKS, states=16, rollouts=256, frames=4)
    assert four.points.shape == (16, 5, 5, 20)
    np.testing.assert_array_equal(four.points[..., 15:], one.points)


def test_frames_before_an_episode_are_zero_or_its_first_frame(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With Minigrid's channels no frame is all zero, so it shows which ones are missing."""
    monkeypatch.setenv("REMANENCE_CACHE", str(tmp_path))
    world = item_rooms(encoding="minigrid", released=True)
    zero, repeated = (
        rooms_truth(world, ITEM_ROOMS_TASKS, states=64, rollouts=8, frames=4, repeat_first=flag)
        for flag in (False, True)
    )
    np.testing.assert_array_equal(repeated.values, zero.values)
    missing = []
    for zeros, frames in zip(*(truth.points.reshape(64, 5, 5, 4, 20) for truth in (zero, repeated)), strict=True):
        missing.append(sum(not zeros[:, :, place].any() for place in range(4)))
        for place in range(4):
            np.testing.assert_array_equal(frames[:, :, place], zeros[:, :, max(place, missing[-1])])
    assert 0 in missing
    assert max(missing) > 0
