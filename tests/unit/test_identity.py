"""What tells one run of `live` from another: functions by what they do and hold, not by where they stand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from remanence.live_env.identity import MAX_DEPTH, of_function, of_value


def scaled(by: Any) -> Callable[[float], Any]:
    def scale(value: float) -> Any:
        return value * by

    return scale


def power(base: float, exponent: float = 2.0, *, sign: int = 1) -> float:
    return sign * base**exponent


class Maker:
    def make(self) -> int:
        return 1

    def other(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("one", "same", "different"),
    [
        (scaled(1.0), scaled(1.0), scaled(2.0)),
        (scaled(np.arange(3)), scaled(np.arange(3)), scaled(np.arange(3) + 1)),
        (scaled(power), scaled(power), scaled(abs)),
        (partial(power, 2.0), partial(power, 2.0), partial(power, 3.0)),
        (partial(power, sign=1), partial(power, sign=1), partial(power, sign=-1)),
        (Maker().make, Maker().make, Maker().other),
        (Maker, Maker, power),
        (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2),
        (lambda x, y=1: x + y, lambda x, y=1: x + y, lambda x, y=2: x + y),
    ],
    ids=["closure", "array", "function in a closure", "partial", "keyword", "method", "class", "lambda", "default"],
)
def test_functions_are_told_apart_by_what_they_do_and_hold(one: Any, same: Any, different: Any) -> None:
    assert of_function(one) == of_function(same)
    assert of_function(one) != of_function(different)


def test_functions_that_hold_each_other_have_an_end() -> None:
    """Only the first levels count."""
    deep, deeper = scaled(1.0), scaled(2.0)
    for _ in range(MAX_DEPTH):
        deep, deeper = scaled(deep), scaled(deeper)
    assert of_function(deep) == of_function(deeper)
    assert of_function(scaled(scaled(1.0))) != of_function(scaled(scaled(2.0)))


def test_values() -> None:
    assert of_value(0.5) == 0.5
    assert of_value(np.ones(2)) != of_value(np.zeros(2))
    assert of_value(object()) == "object"
    assert of_function(len) == "builtin_function_or_method"
