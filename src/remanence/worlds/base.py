"""The contract between a world and the loop."""

from __future__ import annotations

from typing import Protocol

from jax import Array

from remanence.types import Key, Task, TimeStep, WorldState


class World(Protocol):
    """Static shape only; frozen and hashable. What differs between tasks comes in as `task`, never as another world.

    A world never resets itself: after a time step with `last`, the loop calls `reset`.
    """

    @property
    def num_actions(self) -> int: ...

    @property
    def discount(self) -> float:
        """The problem's discount factor γ."""
        ...

    def reset(self, key: Key, task: Task) -> tuple[WorldState, Array]: ...

    def step(self, key: Key, state: WorldState, action: Array, task: Task) -> tuple[WorldState, TimeStep]: ...
