"""What tells one run of `live` from another: functions by what they do and hold, not by where they stand."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from remanence import DQN
from remanence.core.describe import to_json
from remanence.core.identity import MAX_DEPTH, is_own, of_function, of_value
from remanence.runs.describe import describe_agent


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
    assert of_function(len) == "builtins.len"


SIZE = 1.0


def double(value: float) -> float:
    return 2 * SIZE * value


def quadruple(value: float) -> float:
    return double(double(value))


def nested(values: list[float]) -> list[float]:
    return [double(one) for one in values]


def mutual(n: int) -> int:
    return n and other_half(n - 1)


def other_half(n: int) -> int:
    return n and mutual(n - 1)


class Scaling:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, value: float) -> float:
        return self.by * value * SIZE

    def method(self) -> float:
        return self.by


@pytest.mark.parametrize("function", [double, quadruple, nested, Scaling, Scaling(2.0), jax.jit(double)])
def test_what_a_function_reads_of_its_module_counts(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = of_function(function)
    assert of_function(function) == before
    monkeypatch.setattr(sys.modules[__name__], "SIZE", 3.0)
    assert of_function(function) != before


def test_functions_that_call_each_other_have_an_end() -> None:
    assert of_function(mutual) != of_function(other_half)


def test_the_name_of_what_is_called_counts() -> None:
    """Also inside of an inner function."""
    assert of_function(lambda e: jnp.abs(e)) != of_function(lambda e: jnp.square(e))
    inner = [lambda w: jax.tree.map(lambda x: jnp.abs(x), w), lambda w: jax.tree.map(lambda x: jnp.square(x), w)]
    assert of_function(inner[0]) != of_function(inner[1])
    assert to_json(inner[0]) != to_json(inner[1])
    assert to_json(lambda e: jnp.abs(e))["code"] != to_json(lambda e: jnp.square(e))["code"]


@pytest.mark.parametrize(
    ("one", "same", "different"),
    [
        (Scaling(1.0), Scaling(1.0), Scaling(2.0)),
        (Scaling(1.0).method, Scaling(1.0).method, Scaling(2.0).method),
        (Namespace(by=1), Namespace(by=1), Namespace(by=2)),
        ({"a": Scaling(1.0)}, {"a": Scaling(1.0)}, {"a": Scaling(2.0)}),
        ({1, 2}, {2, 1}, {1, 3}),
        (b"ab", b"ab", b"ac"),
        (np.ones(2, np.int8), np.ones(2, np.int8), np.ones(2, np.int16)),
        (jax.jit(scaled(1.0)), jax.jit(scaled(1.0)), jax.jit(scaled(2.0))),
        (optax.scale_by_adam(0.9), optax.scale_by_adam(0.9), optax.scale_by_adam(0.8)),
    ],
    ids=["object", "method", "namespace", "in a mapping", "set", "bytes", "type of array", "compiled", "of a library"],
)
def test_values_are_told_apart_by_what_they_hold(one: Any, same: Any, different: Any) -> None:
    assert of_function(scaled(one)) == of_function(scaled(same))
    assert of_function(scaled(one)) != of_function(scaled(different))


def test_long_values_are_told_by_a_digest() -> None:
    long = [list(range(1000)), list(range(1000)), [*range(999), 0]]
    one, same, different = (of_value(values) for values in long)
    assert one == same != different
    assert len(one) < 20


def test_what_a_function_reads_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SIZE", "a secret")
    assert "secret" not in json.dumps([of_function(double), of_function(Scaling), describe_agent(DQN(loss=double))])  # type: ignore[arg-type]


def method_with(code: str) -> type:
    """A class of the same name with another method, as after an edit of its file."""
    space: dict[str, Any] = {"DQN": DQN, "dataclass": dataclass, "__name__": __name__}
    exec(
        f"@dataclass(frozen=True, kw_only=True)\nclass Mine(DQN):\n    def pull(self, w, i):\n        return {code}\n",
        space,
    )
    return space["Mine"]


def test_code_of_own_agents_is_in_their_description() -> None:
    first, again, other = (describe_agent(method_with(code)()) for code in ("1e-3 * w", "1e-3 * w", "1e3 * w"))
    assert first == again
    assert first != other
    assert first["config"] == other["config"]
    json.dumps(first)
    assert "code" not in describe_agent(DQN())


def test_what_is_own() -> None:
    assert is_own(double)
    assert is_own(Scaling)
    assert not any(map(is_own, (np.mean, jax.jit, DQN, partial, len, json, optax.adam, type(jax.jit(double)))))
