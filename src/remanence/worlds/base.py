"""The contract between a world and the loop."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jax import Array

from remanence.core.types import Key, Task, TimeStep, WorldState


class World(Protocol):
    """Static shape only; frozen and hashable. What differs between tasks comes in as `task`, never as another world.

    A world never resets itself: after a time step with `last`, the loop calls `reset`. The exception is a world that says so
    (`resets_itself`), because only it can tell when that must be done.
    """

    @property
    def num_actions(self) -> int: ...

    @property
    def discount(self) -> float:
        """The problem's discount factor γ."""
        ...

    def reset(self, key: Key, task: Task) -> tuple[WorldState, Array]: ...

    def step(self, key: Key, state: WorldState, action: Array, task: Task) -> tuple[WorldState, TimeStep]: ...


@runtime_checkable
class Hosted(Protocol):
    """A world of which a part lives outside of the compiled program, and must be kept and restored with it.

    `states` are those of many lanes, [lanes, ...]. Only lanes that take part (`lockstep.is_active`) may be changed by a step.
    """

    def save(self, states: Any) -> dict[str, np.ndarray]: ...

    def load(self, states: Any, saved: dict[str, np.ndarray]) -> Any: ...

    def drop(self, states: Any) -> None:
        """Forgets lanes that are over."""
        ...


def resets_itself(world: World) -> bool:
    """Whether the world begins its episodes itself, and every time step tells in `begun` what the agent sees next."""
    return getattr(world, "resets_itself", False)


def is_endless(world: World) -> bool:
    """Whether no step of the world ever ends an episode, so that nothing must be made ready to begin another."""
    return getattr(world, "endless", False)
