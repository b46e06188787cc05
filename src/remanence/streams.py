"""Which task is live when, and what the agent is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.errors import UserError
from remanence.types import Span, Task


@dataclass(frozen=True)
class Stream:
    """A sequence of tasks. Switching is indexing an array: nothing is recompiled and no environment is rebuilt."""

    tasks: Any  # pytree, leaves [num_tasks, ...]
    order: tuple[int, ...]  # which task is live in each segment
    span: Span  # how long a segment lasts
    told: bool  # whether the agent learns that the task changed (semi-continual) or not (continual)
    ends_episode: bool = False  # whether a switch in the middle of an episode also ends it

    def __post_init__(self) -> None:
        if not self.order:
            raise UserError("a stream needs at least one segment")
        if self.span.count < 1:
            raise UserError(
                f"a segment must last at least one {type(self.span).__name__[:-1].lower()}; got {self.span.count}"
            )
        strange = [task for task in self.order if not 0 <= task < self.num_tasks]
        if strange:
            raise UserError(f"a stream of {self.num_tasks} tasks cannot visit task {strange[0]}")

    @property
    def num_tasks(self) -> int:
        return int(np.shape(jax.tree.leaves(self.tasks)[0])[0])

    @property
    def segments(self) -> int:
        return len(self.order)

    def task_id(self, segment: Array) -> Array:
        """The number of the task that is live in a segment; the last one goes on for ever."""
        return jnp.asarray(self.order, jnp.int32)[jnp.minimum(segment, self.segments - 1)]

    def task(self, segment: Array) -> Task:
        """The task that is live in a segment."""
        number = self.task_id(segment)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], self.tasks)


def cyclic(num_tasks: int, segments: int) -> tuple[int, ...]:
    """Tasks in turn: 0, 1, …, and again."""
    return tuple(segment % num_tasks for segment in range(segments))
