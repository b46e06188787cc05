"""Which task is live when, and what the agent is told of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError
from remanence.core.prng import randint
from remanence.core.types import Duration, Key, Steps, Task


@dataclass(frozen=True)
class RandomOrder:
    """Every segment's task is drawn uniformly, by each lane for itself. A switch may keep the task."""

    segments: int


@dataclass(frozen=True)
class Stream:
    """A sequence of tasks. Switching is indexing an array: nothing is recompiled and no environment is rebuilt."""

    tasks: Any  # pytree, leaves [num_tasks, ...]
    order: tuple[int, ...] | RandomOrder  # which task is live in each segment
    segment_length: Duration  # how long a segment lasts
    boundaries_known: bool  # whether the agent learns that the task changed (semi-continual) or not (continual)
    truncate_on_switch: bool = False  # whether a switch in the middle of an episode also ends it

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise UserError("a stream needs at least one segment")
        if self.segment_length.count < 1:
            raise UserError(
                f"a segment must last at least one {type(self.segment_length).__name__[:-1].lower()}; got {self.segment_length.count}"
            )
        strange = [task for task in self.shared_order if task is not None and not 0 <= task < self.num_tasks]
        if strange:
            raise UserError(f"a stream of {self.num_tasks} tasks cannot visit task {strange[0]}")

    @property
    def num_tasks(self) -> int:
        return int(np.shape(jax.tree.leaves(self.tasks)[0])[0])

    @property
    def segments(self) -> int:
        return self.order.segments if isinstance(self.order, RandomOrder) else len(self.order)

    @property
    def shared_order(self) -> list[int | None]:
        """The task of each segment; None where lanes draw it."""
        return [None] * self.segments if isinstance(self.order, RandomOrder) else list(self.order)

    def windows(self, window: int) -> int:
        """How many pages a life has: episodes, or windows of so many steps."""
        lasts = self.segments * self.segment_length.count
        return lasts // window if isinstance(self.segment_length, Steps) else lasts

    def shortened(self, segments: int, segment_length: int) -> Stream:
        """The same stream with fewer or shorter segments."""
        order = (
            RandomOrder(min(segments, self.segments)) if isinstance(self.order, RandomOrder) else self.order[:segments]
        )
        return dataclasses.replace(
            self, order=order, segment_length=dataclasses.replace(self.segment_length, count=segment_length)
        )

    def task_id(self, segment: Array, key: Key) -> Array:
        """The number of the task that is live in a segment, for the lane with this key; the last one goes on for ever."""
        position = jnp.minimum(segment, self.segments - 1)
        if isinstance(self.order, RandomOrder):
            return randint(jax.random.fold_in(key, position), self.num_tasks)
        return jnp.asarray(self.order, jnp.int32)[position]

    def task(self, segment: Array, key: Key) -> Task:
        """The task that is live in a segment."""
        number = self.task_id(segment, key)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], self.tasks)


def cyclic(num_tasks: int, segments: int) -> tuple[int, ...]:
    """Tasks in turn: 0, 1, …, and again."""
    return tuple(segment % num_tasks for segment in range(segments))
