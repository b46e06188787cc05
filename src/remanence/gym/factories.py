"""Environment factories: from functions or names, for single environments or the sub-environments of a vector environment."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from remanence.core.errors import UserError

Maker: TypeAlias = Callable[[], Any]  # -> a Gymnasium environment, or a vector environment
Adapter: TypeAlias = Callable[[Any], Any]  # wraps an environment

_returned: list[weakref.ref] = []  # environments that users' functions made


class EnvFactory:
    """Makes one environment per lane.

    The sub-environments of a synchronous vector environment are used separately: lane i gets sub-environment i. So the autoreset
    mode of the vector environment does not matter.
    """

    def __init__(self, make: Maker, adapter: Adapter | None = None) -> None:
        self._make, self._adapter = make, adapter
        self._waiting: dict[int, Any] = {}
        self._parts = 1  # environments that one call makes
        self._vectors: list[Any] = []  # referenced: some close their sub-environments when they are garbage-collected
        self._lock = threading.Lock()

    def make(self) -> list[Any]:
        """Calls the function once: a single environment, or the sub-environments of a vector environment."""
        from gymnasium import Env
        from gymnasium.vector import SyncVectorEnv

        env = self._make()
        parts = [env]
        if isinstance(env, SyncVectorEnv):
            self._vectors.append(env)
            parts = list(env.envs)
        for one in parts:
            if isinstance(one, Env):
                self._check_new(one.unwrapped)
        return parts if self._adapter is None else [self._adapter(one) for one in parts]

    def next(self, lane: int) -> Any:
        """A new environment for this lane. Thread-safe."""
        with self._lock:
            if lane % self._parts not in self._waiting:
                envs = self.make()
                self._waiting, self._parts = dict(enumerate(envs)), len(envs)
            return self._waiting.pop(lane % self._parts)

    def _check_new(self, env: Any) -> None:
        alive = [one for one in _returned if one() is not None]
        if any(one() is env for one in alive):
            raise UserError("your function returned the same environment twice: it must return a new one at each call")
        _returned[:] = [*alive, weakref.ref(env)]


def named_makers(env: Any) -> dict[str, Maker]:
    """Functions that make the user's environments, by name."""
    if isinstance(env, Mapping):
        pairs = [(str(name), one) for name, one in env.items()]
    elif isinstance(env, Sequence) and not isinstance(env, str):
        pairs = [(one if isinstance(one, str) else f"environment {n}", one) for n, one in enumerate(env)]
    else:
        pairs = [(env if isinstance(env, str) else "environment", env)]
    if not pairs:
        raise UserError("no environment: give a function that returns one")
    found: dict[str, Maker] = {}
    for name, one in pairs:
        found[f"{name} again" if name in found else name] = _maker(one)
    if len(found) < len(pairs):
        raise UserError("give each environment its own name: {name: function that makes it, …}")
    return found


def _maker(env: Any) -> Maker:
    import gymnasium

    if isinstance(env, str):
        import remanence.gym  # noqa: F401  registers our worlds

        return lambda: gymnasium.make(env)
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv) or not callable(env):
        raise UserError(
            "give a function that makes the environment, lambda: gymnasium.make(…), or its name: every seed needs a new one"
        )
    return env
