"""Finds functions `change(env, value)` that change nothing: they set an attribute that the environment never reads."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

from remanence.core.errors import UserError
from remanence.streams import Change

ATTEMPTS = 3  # values after which an environment that is always the same looks unchanged
_ABSENT = object()


class Witness:
    """Calls `change` and looks at what it changes.

    Raises a `UserError` for an attribute of a wrapper that hides the environment's own; warns of a new attribute, or of no change.
    """

    def __init__(self, change: Change, env: Any, name: str) -> None:
        self.change, self.env, self.name = change, env, name
        self.values: list[Any] = []
        self.states: set[bytes | None] = set()

    def __call__(self, value: Any) -> None:
        before = [(layer, dict(vars(layer))) for layer in _layers(self.env)]
        self.change(self.env, value)
        for layer, attributes in before:
            for attribute in vars(layer).keys() - attributes.keys():
                self._judge(layer, attribute)
        if len(self.values) < ATTEMPTS and not any(value is other for other in self.values):
            self.values.append(value)
            self.states.add(_state(self.env))

    def _judge(self, layer: Any, attribute: str) -> None:
        """A new attribute: of a wrapper, where the environment has its own; or one that nothing has read so far."""
        inner = self.env.unwrapped
        if hasattr(type(layer), attribute):  # its class has one, which the new value replaces
            return
        if layer is not inner and getattr(inner, attribute, _ABSENT) is not _ABSENT:
            raise UserError(
                f"it sets {attribute} on the wrapper {type(layer).__name__}, where {type(inner).__name__} does not see it: "
                f"write env.unwrapped.{attribute} = value"
            )
        if not self.values:
            where = type(layer).__name__
            warnings.warn(
                f"changing {self.name} sets a new attribute, {where}.{attribute}, which it did not have before: is the name right?",
                stacklevel=2,
            )

    def warn_if_nothing_changed(self) -> None:
        """Warns if several values left the same environment. One that cannot be compared (it has parts in C) is trusted."""
        if len(self.values) > 1 and len(self.states) == 1 and None not in self.states:
            few = " and ".join(f"{value!r:.40}" for value in self.values[:2])
            warnings.warn(
                f"changing {self.name} seems to have no effect: it is the same with {few}. Set the parameter on env.unwrapped",
                stacklevel=2,
            )


def _layers(env: Any) -> Iterator[Any]:
    """The wrappers from outside to inside, then the environment."""
    while env is not None and hasattr(env, "__dict__"):
        yield env
        env = vars(env).get("env")


def _state(env: Any) -> bytes | None:
    """All attributes of all layers; None if some cannot be read."""
    try:
        return pickle.dumps([{**vars(layer), "env": None} for layer in _layers(env)])
    except Exception:  # what a class does when it is pickled is its own affair
        return None
