"""Where environments come from: functions or names that make them, alone or as the parts of a vector."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from remanence.core.errors import UserError

Maker: TypeAlias = Callable[[], Any]  # -> a Gymnasium environment, or a vector of them
Adapter: TypeAlias = Callable[[Any], Any]  # wraps an environment


class EnvFactory:
    """Gives one environment after the other.

    The parts of a synchronous vector environment are given one by one: each life has the part of its number, and what the
    vector would do at the end of an episode, which differs between vectors, does not matter.
    """

    def __init__(self, make: Maker, adapter: Adapter | None = None) -> None:
        self._make, self._adapter = make, adapter
        self._waiting: dict[int, Any] = {}
        self._parts = 1  # of what one call makes
        self._vectors: list[Any] = []  # some vectors close their parts when nobody holds them any more
        self._given: list[weakref.ref] = []
        self._lock = threading.Lock()

    def make(self) -> list[Any]:
        """What one call makes: a single environment, or the parts of a vector."""
        from gymnasium import Env
        from gymnasium.vector import SyncVectorEnv

        made = self._make()
        parts = [made]
        if isinstance(made, SyncVectorEnv):
            self._vectors.append(made)
            parts = list(made.envs)
        for one in parts:
            if isinstance(one, Env):
                self._check_new(one.unwrapped)
        return parts if self._adapter is None else [self._adapter(one) for one in parts]

    def next(self, lane: int) -> Any:
        """One for this life that nobody had before, whichever device asks."""
        with self._lock:
            if lane % self._parts not in self._waiting:
                made = self.make()
                self._waiting, self._parts = dict(enumerate(made)), len(made)
            return self._waiting.pop(lane % self._parts)

    def _check_new(self, env: Any) -> None:
        if any(one() is env for one in self._given):
            raise UserError(
                "your function gave the same environment twice: it must make a new one whenever it is called"
            )
        self._given.append(weakref.ref(env))


def env_factories(env: Any, adapter: Adapter | None) -> dict[str, EnvFactory]:
    """The sources a user named, by name."""
    if isinstance(env, Mapping):
        listed = [(str(name), one) for name, one in env.items()]
    elif isinstance(env, Sequence) and not isinstance(env, str):
        listed = [(one if isinstance(one, str) else f"environment {n}", one) for n, one in enumerate(env)]
    else:
        listed = [(env if isinstance(env, str) else "environment", env)]
    if not listed:
        raise UserError("no environment: give a function that makes one")
    found: dict[str, EnvFactory] = {}
    for name, one in listed:
        found[f"{name} again" if name in found else name] = EnvFactory(_maker(one), adapter)
    if len(found) < len(listed):
        raise UserError("give environments names of their own, {name: function that makes it, …}")
    return found


def _maker(env: Any) -> Maker:
    import gymnasium

    if isinstance(env, str):
        import remanence.gym  # noqa: F401  our own worlds have names too

        return lambda: gymnasium.make(env)
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv) or not callable(env):
        raise UserError(
            "give a function that makes the environment, lambda: gymnasium.make(…), or its name: every life has one of its own"
        )
    return env
