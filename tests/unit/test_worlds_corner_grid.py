"""The discrete grid against a table written case by case."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import GRID, TASKS, brute_force_step, key_stub
from remanence.core.errors import UserError
from remanence.worlds import CornerGrid


@pytest.mark.parametrize("size", [3, 5, 7])
def test_every_transition(size: int) -> None:
    """All states and actions: where the move leads, that only corners end the episode, and what they pay."""
    world = CornerGrid(size=size, discount=0.75)
    corners = {(0, 0): 1.0, (0, size - 1): 2.0, (size - 1, 0): 3.0, (size - 1, size - 1): 4.0}
    cells = list(itertools.product(range(size), range(size), range(4)))
    states = jnp.array([size * row + column for row, column, _ in cells])
    actions = jnp.array([action for *_, action in cells])
    step = jax.jit(jax.vmap(lambda state, action: world.step(key_stub(), state, action, jnp.arange(1.0, 5.0))))
    state, seen = jax.tree.map(np.asarray, step(states, actions))

    for i, (row, column, action) in enumerate(cells):
        to = brute_force_step(row, column, action, size)
        ended = to in corners
        assert state[i] == seen.obs[i] == size * to[0] + to[1]
        assert seen.last[i] == ended
        assert seen.reward[i] == corners.get(to, 0.0)
        assert seen.discount[i] == (0.0 if ended else 0.75)


def test_rewards_of_each_corner_in_each_task() -> None:
    """App. C.1.1, table of goal rewards; entered from both of its neighbours, by name of the moves."""
    up, down, left, right = range(4)
    entries = {  # corner: (from, action)
        "top-left": [(1, left), (5, up)],
        "top-right": [(3, right), (9, up)],
        "bottom-left": [(21, left), (15, down)],
        "bottom-right": [(23, right), (19, down)],
    }
    paid = {
        name: [
            [float(GRID.step(key_stub(), jnp.int32(s), jnp.int32(a), task)[1].reward) for s, a in ways]
            for task in TASKS
        ]
        for name, ways in entries.items()
    }
    assert paid == {
        "top-left": [[0, 0], [1, 1], [0, 0], [1, 1]],
        "top-right": [[1, 1], [0, 0], [0, 0], [1, 1]],
        "bottom-left": [[0, 0], [1, 1], [1, 1], [0, 0]],
        "bottom-right": [[1, 1], [0, 0], [1, 1], [0, 0]],
    }


def test_episodes_start_in_the_centre() -> None:
    state, obs = GRID.reset(key_stub(), jnp.zeros(4))
    assert int(state) == int(obs) == GRID.start == 12
    assert GRID.corners.tolist() == [0, 4, 20, 24]
    assert (GRID.num_states, GRID.num_actions, GRID.discount) == (25, 4, 0.9)


@pytest.mark.parametrize("size", [4, 1, 0, -3])
def test_a_grid_without_centre_is_refused(size: int) -> None:
    with pytest.raises(UserError, match=f"got {size}"):
        CornerGrid(size=size)


@pytest.mark.parametrize("discount", [-0.1, 1.5, float("nan")])
def test_a_discount_that_is_none_is_refused(discount: float) -> None:
    with pytest.raises(UserError, match="discount"):
        CornerGrid(discount=discount)
