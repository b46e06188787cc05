"""The check of observations: all of a space passes, and nothing that its bounds exclude, few numbers or many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from remanence.core.errors import UserError
from remanence.gym.contract import FEW, ObsCheck

BOUNDED = [
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(-1, 1, (FEW + 1,), np.float64),
    spaces.Box(-1, 1, (5, 5), np.float32),
    spaces.Box(0, 1, (4,), np.uint8),
    spaces.MultiDiscrete([3, 4]),
    spaces.Discrete(4, start=-1),
    spaces.MultiBinary(3),
]
FLOATS = (np.float16, np.float32, np.float64)
UNBOUNDED = [spaces.Box(-np.inf, np.inf, shape, dtype) for shape in ((2,), (5, 5)) for dtype in FLOATS]


@pytest.mark.parametrize("space", [*BOUNDED, *UNBOUNDED], ids=str)
def test_what_is_in_the_space_passes(space: Any) -> None:
    check = ObsCheck(space)
    space.seed(0)
    for _ in range(10):
        obs = space.sample()
        np.testing.assert_array_equal(check(obs), obs)


@pytest.mark.parametrize("space", BOUNDED, ids=str)
def test_one_number_outside_is_enough(space: Any) -> None:
    obs = np.array(space.sample())
    obs.flat[-1] = 7
    with pytest.raises(UserError, match="an observation outside of"):
        ObsCheck(space)(obs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("space", [BOUNDED[0], BOUNDED[2], *UNBOUNDED], ids=str)
def test_floats_are_finite(space: Any, value: float) -> None:
    obs = np.zeros(space.shape, space.dtype)
    obs.flat[-1] = value
    with pytest.raises(UserError, match="that is not finite"):
        ObsCheck(space)(obs)


def test_rounding_is_not_a_mistake() -> None:
    space = spaces.Box(-0.1, 0.1, (2,), np.float32)
    assert ObsCheck(space)(np.full(2, np.nextafter(np.float32(0.1), np.float32(1)), np.float32)).shape == (2,)
