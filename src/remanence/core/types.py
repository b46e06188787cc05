"""The words every other module uses.

Shapes are written beside fields, without the lane axis: functions are written for one lane, and `lanes.py` maps them.
`[]` is one number, `[*obs]` one observation, `[outputs]` one value (prediction) or one per action (control).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax import Array

Key: TypeAlias = Array
Task: TypeAlias = Any  # a pytree of arrays: what distinguishes one task of a world from another
WorldState: TypeAlias = Any
AgentState: TypeAlias = Any
Hypers: TypeAlias = Any  # a pytree of numbers that may differ between lanes


@dataclass(frozen=True)
class ObsSpec:
    """What one observation is like."""

    shape: tuple[int, ...]
    dtype: str
    num_states: int = 0
    """how many states there are, where an observation is the number of a state; 0 for any other observation"""
    max_value: float = 255.0
    """the largest value of uint8 images"""
    images: np.ndarray | None = field(default=None, compare=False, repr=False)
    """[num_states, rows, columns, channels] what a network sees of each state, where an observation is the number of a state"""

    def zeros(self) -> np.ndarray:
        """An observation of the right shape and dtype."""
        return np.zeros(self.shape, self.dtype)


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know of its environment before it is built."""

    obs: ObsSpec
    num_actions: int
    num_tasks: int = 1
    discount: float = 0.99


class TimeStep(NamedTuple):
    """What the world says after an action."""

    obs: Array  # [*obs]  where the action led; the world never resets itself
    reward: Array  # []
    discount: Array  # []  the world's discount factor, and 0 only if the episode truly terminated
    last: Array  # []  the episode ends here, for whatever reason
    begun: Array | None = None  # [*obs]  what the agent sees next, from worlds that begin the next episode themselves
    completed: Array | None = None  # []  the episode ended and was not cut off by a task switch; `last` if not given


class TaskObs(NamedTuple):
    """What an agent sees that is told which task is live."""

    obs: Array  # [*obs]
    task: Array  # []


class Transition(NamedTuple):
    """What the agent learns from."""

    obs: Array  # [*obs]
    action: Array  # []
    reward: Array  # []
    discount: Array  # []  0 at a true end, so that nothing is bootstrapped there
    next_obs: Array  # [*obs]
    last: Array  # []
    valid: Array  # []  False while this lane waits for others: `learn` must then leave everything as it was


@dataclass(frozen=True)
class Episodes:
    """A span counted in episodes; `lead` counts as if so many episodes had been lived before the first."""

    count: int
    lead: int = 0


@dataclass(frozen=True)
class Steps:
    """A span counted in steps."""

    count: int


Duration: TypeAlias = Episodes | Steps
