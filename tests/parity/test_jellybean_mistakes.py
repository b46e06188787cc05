"""Bad input to Jelly Bean World is refused with one clear message."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jellybean_walks import QUICK, RIGHT, wandering
from remanence.core.errors import UserError
from remanence.gym.jellybean import JellyBeanEnv
from remanence.worlds.jellybean import Box, Item, JellyBeanWorlds, RewardSchedule, preset
from remanence.worlds.jellybean.memory import Memory

BLUE, GREEN, RED = preset("paper").items


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": ()}, "at least one kind"),
        ({"items": (BLUE, GREEN, BLUE)}, "a different name"),
        ({"items": (BLUE, GREEN, dataclasses.replace(RED, colour=(0, 0, 1)))}, "a different colour"),
        ({"items": (BLUE, GREEN)}, "each of the 2 kinds"),
        ({"patch_size": 20}, "use a patch size of at least 24"),
        ({"patch_size": 33}, "must be even"),
        ({"patch_size": 256}, "use a smaller patch size"),
        ({"vision_range": 16}, "less than half a patch"),
        ({"vision_range": -1}, "at least 0"),
        ({"iterations": -1}, "cannot be negative"),
        ({"deleted_item_lifetime": 0}, "at least 1"),
    ],
)
def test_rules_that_make_no_world_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(preset("paper"), **change)


def test_items_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        Item("odd", (0, -1, 0), 0.0, (None,))
    with pytest.raises(UserError, match="one finite number"):
        Item("odd", (0, 1, 0), float("nan"), (None,))
    with pytest.raises(UserError, match="other functions are not supported"):
        Item("odd", (0, 1, 0), 0.0, ("cross",))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="cannot be negative"):
        Box(-1, 2, 0, 0)
    with pytest.raises(UserError, match="did you mean 'paper'"):
        preset("papers")


@pytest.mark.parametrize("seed", [-1, 2**31 - 1, 2.5])
def test_seeds_that_do_not_exist_are_refused(seed: Any) -> None:
    with pytest.raises(UserError, match="a seed must be"):
        JellyBeanWorlds(QUICK, [seed])


def test_seed_0_is_seed_1_and_says_so() -> None:
    with pytest.warns(UserWarning, match="the same Jelly Bean World as seed 1"):
        worlds = JellyBeanWorlds(QUICK, [0, 1, 2])
    views, _ = worlds.walk(np.repeat(wandering(100, 1), 3, axis=1))
    assert np.array_equal(views[:, 0], views[:, 1])
    assert not np.array_equal(views[:, 0], views[:, 2])


@pytest.mark.parametrize("actions", [[4], [-1], [0.5], [0, 0], [[0]]])
def test_actions_that_do_not_exist_are_refused(actions: list[Any]) -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    with pytest.raises(UserError, match="action"):
        worlds.step(np.array(actions))
    assert worlds.time[0] == 0


def test_the_world_ends_before_numbers_do() -> None:
    """A world that is moved far to the right, and then goes on."""
    worlds = JellyBeanWorlds(QUICK, [3])
    state, patches = worlds.state(), 2**26 - 20
    state["patch_x"] += patches
    state["place"][0, 0] += 32 * patches
    far = JellyBeanWorlds.restore(QUICK, state)
    views, _ = far.walk(np.full((400, 1), RIGHT))
    assert np.array_equal(views, worlds.walk(np.full((400, 1), RIGHT))[0])
    with pytest.raises(UserError, match="cannot go farther"):
        far.walk(np.full((300, 1), RIGHT))
    state = worlds.state()
    state["time"][0] = 2**31 - 10
    with pytest.raises(UserError, match="cannot go farther"):
        JellyBeanWorlds.restore(QUICK, state).walk(np.full((10, 1), RIGHT))


def test_a_foreign_state_is_refused() -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    with pytest.raises(UserError, match="no 'rng'"):
        JellyBeanWorlds.restore(QUICK, {})
    with pytest.raises(UserError, match="does not fit"):
        JellyBeanWorlds.restore(QUICK, {**worlds.state(), "codes": np.zeros(3, np.uint16)})
    assert set(worlds.state()) == set(Memory._fields)


@pytest.mark.parametrize(
    "name", ["rng", "row_start", "row_count", "slots", "patch_start", "patch_count", "patch_deleted_at", "codes"]
)
def test_a_damaged_state_is_refused(name: str) -> None:
    state = JellyBeanWorlds(QUICK, [3]).state()
    state[name] = np.full_like(state[name], np.iinfo(state[name].dtype).max)
    with pytest.raises(UserError, match="damaged"):
        JellyBeanWorlds.restore(QUICK, state)
    state = JellyBeanWorlds(QUICK, [3]).state()
    state["place"] += 10_000
    with pytest.raises(UserError, match="no map at an agent's position"):
        JellyBeanWorlds.restore(QUICK, state)


def test_other_mistakes() -> None:
    with pytest.raises(UserError, match="at least one seed"):
        JellyBeanWorlds(QUICK, [])
    with pytest.raises(UserError, match="at least one thread"):
        JellyBeanWorlds(QUICK, [1], threads=0)
    with pytest.raises(UserError, match="at least one step"):
        RewardSchedule(every=0)
    with pytest.raises(UserError, match="one reward for each kind"):
        RewardSchedule(((1.0,), (1.0, 2.0)))
    with pytest.raises(UserError, match="did you mean 'paper'"):
        JellyBeanEnv(preset="papers")
    with pytest.raises(UserError, match="3 rewards"):
        JellyBeanEnv(rewards=((1.0, 2.0),))
    with pytest.raises(UserError, match="render mode"):
        JellyBeanEnv(render_mode="svg")
    with pytest.raises(UserError, match=r"call reset\(\) first"):
        JellyBeanEnv().step(0)
