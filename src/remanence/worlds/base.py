"""The contract between a world and the loop."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.types import Key, ObsSpec, Task, TimeStep, WorldState


class World(abc.ABC):
    """What every world derives from: a frozen dataclass of static shape. What differs between tasks comes in as `task`.

    The loop calls `reset` at the beginning of a life, and `restart` after a time step with `last`. A world that resets itself sets
    `resets_itself`, and its time steps have `reset_obs`.
    """

    num_actions: int
    discount: float
    """the problem's discount factor γ"""
    observation: ObsSpec
    """shape and dtype of observations; buffers store them with this dtype"""
    endless: bool = False
    """whether there are no episodes: `last` is always False, and the loop never resets"""
    resets_itself: bool = False
    rewards_of_task: bool = False
    """whether a task is the rewards that it gives, so that none is larger than its largest number"""
    row_by_row: bool = False
    """whether each row of the program costs as much as a lane, with or without one: then all lanes of a group run at once"""

    @abc.abstractmethod
    def reset(self, key: Key, task: Task) -> tuple[WorldState, Array]:
        """The beginning of an episode: its state, and the first observation."""

    def restart(self, key: Key, before: WorldState, task: Task, switched: Array) -> tuple[WorldState, Array]:
        """The beginning of an episode after another one, which ended in the state `before`; by default a `reset`.

        Args: switched: [] whether the segment changed too, and possibly the task.
        """
        del before, switched
        return self.reset(key, task)

    @abc.abstractmethod
    def step(self, key: Key, state: WorldState, action: Array, task: Task) -> tuple[WorldState, TimeStep]: ...

    def opened(self) -> AbstractContextManager[None]:
        """What a process needs to have while it runs lanes in this world; by default nothing."""
        return nullcontext()

    def devices_for(self, lanes: int, available: int) -> int:
        """How many devices share a group of lanes."""
        del lanes
        return available


class HostedWorld(World):
    """A world with a part outside of the compiled program, which checkpoints save and restore.

    It is `endless` or `resets_itself`: the loop calls `reset` once per lane. `states` has leaves [lanes, ...].
    """

    def step(self, key: Key, state: WorldState, action: Array, task: Task) -> tuple[WorldState, TimeStep]:
        return self.step_active(key, state, action, task, jnp.bool_(True))

    @abc.abstractmethod
    def step_active(
        self, key: Key, state: WorldState, action: Array, task: Task, active: Array
    ) -> tuple[WorldState, TimeStep]:
        """A step of a lane that is active; a lane that waits must leave its part outside of the program as it is."""

    @abc.abstractmethod
    def save(self, states: Any) -> dict[str, np.ndarray]:
        """The parts outside of the program, as named arrays."""

    @abc.abstractmethod
    def load(self, states: Any, saved: dict[str, np.ndarray]) -> Any:
        """The same states, with their parts made from what `save` gave."""

    @property
    def can_be_saved(self) -> bool:
        return True

    def notes(self, states: Any) -> list[Any]:
        """What is known of lanes that are done, beside their curves; None for nothing."""
        return [None] * len(jax.tree.leaves(states)[0])

    @abc.abstractmethod
    def drop(self, states: Any) -> None:
        """Deletes the parts of lanes that are done."""


def state_numbers(count: int, images: np.ndarray | None = None) -> ObsSpec:
    """Discrete observations: the index of the state, in the smallest integer type that holds it."""
    dtype = "int16" if count <= np.iinfo(np.int16).max + 1 else "int32"
    return ObsSpec((), dtype, num_states=count, images=images)
