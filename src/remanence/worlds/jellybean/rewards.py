"""Rewards of collected items, and when they change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from remanence.core.errors import UserError

DISCOUNT = 0.9  # of the paper's agents: the world itself has none


@dataclass(frozen=True)
class RewardSchedule:
    """Tasks in turn, each with one reward per kind of item. The map does not depend on them."""

    tasks: tuple[tuple[float, ...], ...] = ((2.0, 0.1, -1.0), (-1.0, 0.1, 2.0))  # blue, green, red
    every: int | None = 150_000
    """steps per task; None: the first task only"""

    def __post_init__(self) -> None:
        if not self.tasks or len({len(task) for task in self.tasks}) > 1:
            raise UserError(f"every task needs one reward for each kind of item; got {self.tasks}")
        if self.every is not None and self.every < 1:
            raise UserError(f"a task must last at least one step, or None for no switches; got {self.every}")

    def task(self, time: np.ndarray | int) -> np.ndarray:
        """The number of the task after `time` steps."""
        return np.zeros_like(time) if self.every is None else np.asarray(time) // self.every % len(self.tasks)

    def rewards(self, time: np.ndarray | int, collected_now: np.ndarray) -> np.ndarray:
        """The reward of that step. `collected`: 0 for nothing, else 1 + the kind of the item."""
        return self.table[self.task(time), collected_now]

    @cached_property
    def table(self) -> np.ndarray:
        """[tasks, 1 + kinds]"""
        return np.array([(0.0, *task) for task in self.tasks])
