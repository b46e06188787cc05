"""What an environment returns at every step, checked cheaply: an environment may break long after the check at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from remanence.core.errors import UserError
from remanence.gym.spaces import named_parts

# How far outside of its space a float may be: the rounding of its dtype.
TOLERANCE = 1e-6
# Up to this size, numbers are faster compared one by one than by NumPy.
FEW = 16
FLAG = (bool, np.bool_)


class HostStep(NamedTuple):
    """The result of one action, as numpy arrays and numbers."""

    obs: np.ndarray  # [*obs]  the next observation
    reward: float
    discount: float  # 0 at a termination
    last: bool
    completed: bool  # the episode ended, and not because of a task switch
    reset_obs: (
        np.ndarray
    )  # [*obs]  the observation to act on next: after `last`, the first one of a new episode; else obs


class Notes(NamedTuple):
    """What is known of a life beside its curves."""

    largest_reward: float
    """without its sign"""
    failure: Failure | None = None


@dataclass(frozen=True)
class Failure:
    """Why a life ended early."""

    env: str
    seed: int
    """the environment's"""
    step: int
    what: str
    error: Exception | None = None
    """None after a restart of the program"""


class ObsCheck:
    """Checks observations of one space. Only what the space can rule out is computed."""

    def __init__(self, space: Any) -> None:
        self.space, self.bounds, self.few_bounds = space, None, None
        self.shape = space.shape or ()
        self.parts = {key: ObsCheck(part) for key, part in named_parts(space).items()}
        if self.parts:
            return
        dtype = np.dtype(space.dtype)
        low, high = _bounds(space)
        self.kinds = "iu" if _is_discrete(space) else "f" + "iub" if dtype.kind == "f" else "iub"
        self.finite = dtype.kind == "f"
        if self.finite:  # limits that exclude infinity; comparisons exclude NaN
            low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
            low, high = low - TOLERANCE * np.maximum(1.0, np.abs(low)), high + TOLERANCE * np.maximum(1.0, np.abs(high))
            limits = np.finfo(dtype)
            self.bounds = [np.clip(bound, limits.min, limits.max).astype(dtype) for bound in (low, high)]
        elif dtype.kind == "b" or (low > np.iinfo(dtype).min).any() or (high < np.iinfo(dtype).max).any():
            self.bounds = [low, high]
        if self.bounds is not None and np.ndim(self.bounds[0]) == 1 and len(self.bounds[0]) <= FEW:
            self.few_bounds = [bound.tolist() for bound in self.bounds]

    def __call__(self, obs: Any) -> Any:
        """The observation as an array; of a Dict or Tuple, its parts by key or place."""
        if self.parts:
            return {key: check(obs[key]) for key, check in self.parts.items()}
        array = np.asarray(obs)
        if array.dtype.kind not in self.kinds:
            raise UserError(f"an observation of dtype {array.dtype} instead of {self.space.dtype}: {_short(obs)}")
        if array.shape != self.shape:
            raise UserError(f"an observation of shape {array.shape} instead of {self.space.shape}")
        if not self._is_inside(array):
            finite = not self.finite or np.isfinite(array).all()
            raise UserError(
                f"an observation {f'outside of {self.space}' if finite else 'that is not finite'}: {_short(obs)}"
            )
        return array

    def _is_inside(self, array: np.ndarray) -> bool:
        if self.few_bounds is not None:
            low, high = self.few_bounds
            for i, number in enumerate(array.tolist()):  # noqa: SIM110 (three times as fast as `all`)
                if not low[i] <= number <= high[i]:
                    return False
            return True
        if self.bounds is not None:
            low, high = self.bounds
            return bool(((array >= low) & (array <= high)).all())
        return True


def _is_discrete(space: Any) -> bool:
    from gymnasium import spaces

    return isinstance(space, spaces.Discrete)


def _bounds(space: Any) -> tuple[Any, Any]:
    """The smallest and the largest number, or arrays of them."""
    from gymnasium import spaces

    if _is_discrete(space):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.Box):
        return space.low, space.high
    return np.asarray(0), np.asarray(1)


def checked_step(answer: Any) -> tuple[Any, float, bool, bool]:
    """Observation, reward, terminated and truncated of a step; raises a `UserError` if they are none."""
    if not (isinstance(answer, tuple) and len(answer) == 5):
        raise UserError(f"{_short(answer)} instead of obs, reward, terminated, truncated, info")
    obs, reward, terminated, truncated, _ = answer
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, FLAG):
            raise UserError(f"{name} that is not True or False: {_short(value)}")
    return obs, checked_reward(reward), bool(terminated), bool(truncated)


def checked_reward(reward: Any) -> float:
    try:
        number = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"a reward that is not a finite number: {_short(reward)}")
    return number


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"
