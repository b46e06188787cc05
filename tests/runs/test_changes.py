"""Functions that should change an environment and do not: found before training."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import pytest

from fuzz.mistakes import Wind, on_the_wrapper
from remanence import Drift, Switches
from remanence.core.errors import UserError
from remanence.gym.check import check_envs
from remanence.gym.factories import env_factories


def wrapped() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Wind(), 5)


def check(change: Any, make: Any = wrapped, stream: Any = None) -> None:
    factories = env_factories(make, None)
    stream = stream or Switches(change, [1.0, 2.0, 3.0], every=5)
    check_envs(list(factories.values()), stream.schedule(list(factories)))


@pytest.mark.parametrize(
    "stream", [Switches(on_the_wrapper, [0.0, 1.0], every=5), Drift(on_the_wrapper, 0.0, 1.0, steps=20)]
)
def test_an_attribute_of_the_wrapper(stream: Any) -> None:
    with pytest.raises(
        UserError, match=r"sets wind on the wrapper TimeLimit, where Wind .* env\.unwrapped\.wind = value"
    ):
        check(None, stream=stream)


def test_a_misspelt_attribute() -> None:
    def change(env: Any, value: float) -> None:
        env.unwrapped.wnid = value

    with pytest.warns(UserWarning, match=r"a new attribute, Wind\.wnid") as told:
        check(change)
    assert len(told) == 1


def test_nothing_changes() -> None:
    with pytest.warns(UserWarning, match=r"seems to have no effect: it is the same with 3\.0 and 2\.0"):
        check(lambda *_: None)


class Physics:
    """Cannot be compared, like an object of a library in C."""

    force = 0.0

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle")


class Heavy(Wind):
    def __init__(self) -> None:
        self.physics = Physics()
        self.table = {"mass": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        lambda env, value: setattr(env.unwrapped, "wind", value),
        lambda env, value: env.set_wrapper_attr("wind", value),
        lambda env, value: setattr(env.unwrapped.physics, "force", value),
        lambda env, value: env.unwrapped.table.update(mass=value),
    ],
)
def test_changes_that_work_are_not_blamed(change: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(change, lambda: gymnasium.wrappers.TimeLimit(Heavy(), 5))


def test_a_change_inside_of_an_attribute_is_seen() -> None:
    class Plain(Wind):
        def __init__(self) -> None:
            self.table = {"mass": 1.0}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(
            lambda env, value: env.unwrapped.table.update(mass=value), lambda: gymnasium.wrappers.TimeLimit(Plain(), 5)
        )
    with pytest.warns(UserWarning, match="no effect"):
        check(lambda env, _: env.unwrapped.table.update(mass=3.0), lambda: gymnasium.wrappers.TimeLimit(Plain(), 5))
