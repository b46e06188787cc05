"""Types that all modules use.

Shapes beside fields are without the lane axis: functions are written for one lane, and `lanes.py` maps them with vmap.
`[]` is a scalar, `[*obs]` one observation, `[outputs]` one value (prediction) or one per action (control).
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax import Array

Key: TypeAlias = Array
Task: TypeAlias = Any  # a pytree of arrays: the parameters of one task of a world
WorldState: TypeAlias = Any
AgentState: TypeAlias = Any


class Hypers(types.SimpleNamespace):
    """Named numbers that may differ between lanes of one program, such as `Hypers(lr=0.1)`. A pytree."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(vars(self).items()))


jax.tree_util.register_pytree_with_keys(
    Hypers,
    lambda hypers: (
        [(jax.tree_util.GetAttrKey(name), value) for name, value in vars(hypers).items()],
        tuple(vars(hypers)),
    ),
    lambda names, values: Hypers(**dict(zip(names, values, strict=True))),
)


@dataclass(frozen=True)
class ObsSpec:
    """Describes one observation."""

    shape: tuple[int, ...]
    dtype: str
    num_states: int = 0
    """number of states, for Discrete observations; 0 for any other observation"""
    max_value: float = 255.0
    """the largest value of uint8 images"""
    images: np.ndarray | None = field(default=None, compare=False, repr=False)
    """[num_states, rows, columns, channels] the network's input for each state, for Discrete observations"""

    def zeros(self) -> np.ndarray:
        """An observation of the right shape and dtype."""
        return np.zeros(self.shape, self.dtype)


@dataclass(frozen=True)
class EnvSpec:
    """What an agent needs to know of its environment to be built."""

    obs: ObsSpec
    num_actions: int
    num_tasks: int = 1
    discount: float = 0.99


class TimeStep(NamedTuple):
    """The world's answer to an action."""

    obs: Array  # [*obs]  where the action led
    reward: Array  # []
    discount: Array  # []  the world's discount factor, and 0 only if the episode truly terminated
    last: Array  # []  the episode ends here, for whatever reason
    reset_obs: Array | None = None
    """[*obs] what the agent sees next, from worlds that reset themselves: the first of a new episode after `last`, else `obs`"""
    completed: Array | None = None  # []  the episode ended and was not cut off by a task switch; `last` if not given


class TaskObs(NamedTuple):
    """The observation of a task-aware agent."""

    obs: Array  # [*obs]
    task: Array  # []


class Transition(NamedTuple):
    """One transition, as given to `learn`."""

    obs: Array  # [*obs]
    action: Array  # []
    reward: Array  # []
    discount: Array  # []  0 on termination, where there is no bootstrap
    next_obs: Array  # [*obs]
    last: Array  # []
    valid: Array  # []  False while this lane waits for others: `learn` must then leave the state unchanged


MAX_COUNT = 2**31 - 1  # of steps and episodes, and places in a buffer: they are 32-bit integers


@dataclass(frozen=True)
class Episodes:
    """A duration in episodes. `lead` is added to the episode count, as if `lead` episodes came before the first."""

    count: int
    lead: int = 0


@dataclass(frozen=True)
class Steps:
    """A duration in steps."""

    count: int


Duration: TypeAlias = Episodes | Steps
