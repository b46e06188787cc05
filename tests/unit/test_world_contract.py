"""Every world says truly what it is like, and the loop refuses what does not keep the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import GRID, TD, stream
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import ObsSpec
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.worlds import (
    Chain,
    ContinuousGrid,
    CornerGrid,
    HostedWorld,
    MinAtar,
    MinAtarGames,
    PictureGrid,
    SlipperyGrid,
    World,
    corner_grid_pictures,
    item_rooms,
    two_rooms,
)
from remanence.worlds.base import state_numbers
from remanence.worlds.jellybean import preset
from remanence.worlds.jellybean.hosted import JellyBeanWorld

WORLDS: list[tuple[World, Any]] = [
    (CornerGrid(7), np.zeros(4, np.float32)),
    (PictureGrid(), np.zeros(4, np.float32)),
    (SlipperyGrid(), np.zeros(2, np.float32)),
    (ContinuousGrid(), np.zeros(4, np.float32)),
    (Chain(((0.5, 0.5), (0.5, 0.5)), 3), np.zeros(2, np.float32)),
    (item_rooms(), np.zeros(4, np.float32)),
    (two_rooms(encoding="minigrid"), np.zeros(2, np.float32)),
    (MinAtar("breakout"), np.int32(0)),
    (MinAtarGames(), np.int32(0)),
    (JellyBeanWorld(preset("paper")), np.zeros(3, np.float32)),
]


@pytest.mark.parametrize(("world", "task"), WORLDS, ids=lambda value: type(value).__name__)
def test_observations_are_as_the_world_says(world: World, task: Any) -> None:
    """Shape and dtype, on reset and after a step. Numbers of states come as int32, and are stored in fewer bytes."""

    def play() -> tuple[Any, Any, Any]:
        state, first = world.reset(make_key(0), task)
        _, seen = world.step(make_key(1), state, jnp.int32(0), jnp.asarray(task))
        return first, seen.obs, seen.reset_obs

    first, after, reset_obs = jax.eval_shape(play)
    spec = world.observation
    for obs in (first, after):
        assert obs.shape == spec.shape
        assert obs.dtype == (np.int32 if spec.num_states else spec.dtype)
    assert (reset_obs is not None) == world.resets_itself
    assert (spec.zeros().shape, spec.zeros().dtype) == (spec.shape, spec.dtype)
    assert spec.num_states == getattr(world, "num_states", 0)
    assert hash(world) == hash(world)


def test_state_numbers_fit_where_they_are_stored() -> None:
    assert [state_numbers(count).dtype for count in (25, 2**15, 2**15 + 1)] == ["int16", "int16", "int32"]
    assert int(np.array(2**15 - 1).astype(state_numbers(2**15).dtype)) == 2**15 - 1


def test_a_picture_grid_is_a_corner_grid_that_has_pictures() -> None:
    world = PictureGrid(size=5, discount=0.8)
    grid = CornerGrid(size=5, discount=0.8)
    assert world.observation == grid.observation
    assert grid.observation.images is None
    assert world.observation.images is not None
    np.testing.assert_array_equal(world.observation.images, corner_grid_pictures(grid) / 255.0)
    assert world.observation.images is world.observation.images  # made once
    assert world == PictureGrid(size=5, discount=0.8)
    task = jnp.arange(4, dtype=jnp.float32)
    for state in range(25):
        for action in range(4):
            one, other = (w.step(make_key(0), jnp.int32(state), jnp.int32(action), task) for w in (world, grid))
            assert jax.tree.all(jax.tree.map(np.array_equal, one, other))


class NoWorld:
    num_actions, discount = 4, 0.9
    reset, step = GRID.reset, GRID.step


@dataclass(frozen=True)
class Outside(HostedWorld):
    """Neither endless, nor does it reset itself."""

    num_actions = 4
    discount: float = 0.9
    observation = ObsSpec((), "int32")
    reset = step_active = save = load = drop = staticmethod(lambda *_: None)  # type: ignore[assignment]


@pytest.mark.parametrize(("world", "complaint"), [(NoWorld(), "derives from"), (Outside(), "is neither")])
def test_what_does_not_keep_the_contract_is_refused(world: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Driver(LifeConfig(TD, world, stream(), lambda _: 0.0))
