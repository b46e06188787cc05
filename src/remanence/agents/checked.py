"""What all configurations of agents share: every field is checked when one is made."""

from __future__ import annotations

import ast
import dataclasses
import math
import reprlib
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from remanence.agents.base import AT_SWITCH, ConsolidateEvery, check_hyper
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.shares import AUTO
from remanence.core.errors import UserError
from remanence.core.types import MAX_COUNT, Episodes, Steps

POSITIVE = ("max_grad_norm", "reward_clip", "reward_scale")
Interval = int | Steps | Episodes | None  # a number of steps, or of episodes; None: known task boundaries


class CheckedConfig:
    """Checks every field of a new configuration."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = _plain(getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            if value != AUTO or field.default != AUTO:
                _check(field.name, value, hints[field.name])


def consolidation_interval(every: Interval) -> ConsolidateEvery:
    if every is None:
        return AT_SWITCH
    return Steps(every) if isinstance(every, int) else every


def _plain(value: Any) -> Any:
    """NumPy values and lists as Python numbers and tuples: configurations are hashed, compared and written to files."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray | list):
        return tuple(_plain(one) for one in value)
    return value


def _without_quotes(name: str, value: Any, hint: Any) -> str:
    """Advice for a number that was written as text."""
    try:
        number = ast.literal_eval(value) if isinstance(value, str) else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return (
        f": a number has no quotes, {name}={number}" if isinstance(number, int | float) and _fits(number, hint) else ""
    )


def _check(name: str, value: Any, hint: Any) -> None:
    """Raises for values that cannot work."""
    if not _fits(value, hint):
        raise UserError(f"{name} must be {_type_names(hint)}; got {value!r}{_without_quotes(name, value, hint)}")
    if name.endswith("lr") or name in ("decay", "absorb"):
        if value is not None:
            check_hyper(name, value)
    elif name == "epsilon":
        epsilon_greedy(value)
    elif name == "scale" and value is not None and not value > 0:
        raise UserError(f"scale must be positive; got scale={value}")
    elif name == "hidden" and any(units < 1 for units in value or ()):
        raise UserError(f"a layer needs at least one unit; got hidden={value}")
    elif name in POSITIVE and value is not None and not 0 < value < math.inf:
        raise UserError(f"{name} must be positive; got {value}")
    elif float in (hint, *typing.get_args(hint)):
        return  # a whole number here is no count
    elif isinstance(value, int | Steps | Episodes) and not isinstance(value, bool):
        _check_count(name, value if isinstance(value, int) else value.count)


def _check_count(name: str, count: int) -> None:
    if count < 1 and name != "min_batches":
        raise UserError(f"{name} must be at least 1; got {count}")
    if count > MAX_COUNT:
        raise UserError(
            f"{name} must be at most {MAX_COUNT:,}, because steps are counted in 32 bits; got {reprlib.repr(count)}"
        )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type that the field declares."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, arguments[0]) for one in value)
    if origin is Callable:
        return callable(value)
    if hint is float:
        is_int = isinstance(value, int) and not isinstance(value, bool)
        return isinstance(value, float) or (is_int and abs(value) <= sys.float_info.max)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if getattr(hint, "_is_protocol", False):
        members = [name for name, member in vars(hint).items() if callable(member) and not name.startswith("_")]
        return not isinstance(value, type) and all(hasattr(value, name) for name in members)
    if isinstance(hint, type):
        return isinstance(value, hint)
    return True  # other kinds of hints are checked where they are used


def _type_names(hint: Any) -> str:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(map(_type_names, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return f"a tuple of {_type_names(typing.get_args(hint)[0])}"
    if typing.get_origin(hint) is Callable:
        return "a function"
    return "None" if hint is type(None) else getattr(hint, "__name__", str(hint))
