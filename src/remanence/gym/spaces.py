"""What agents are shown of a Gymnasium environment: its spaces, and how its observations become arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.core.errors import UserError

DISCRETE, VECTOR, IMAGE = "number", "vector", "image"
CHANNELS = (1, 3, 4)  # of pictures: tells where the channels are


@dataclass(frozen=True)
class Spaces:
    """Observations as agents see them, and actions. Plain values only: a policy is saved with it."""

    kind: str
    """a number (of a state), a vector, or an image: rows, columns, channels"""
    env_shape: tuple[int, ...]
    """the shape of what the environment gives"""
    shape: tuple[int, ...]
    """the shape of what agents see"""
    dtype: str
    actions: int
    states: int = 0
    """how many, where an observation is the number of a state"""
    first_state: int = 0
    first_action: int = 0
    choices: tuple[int, ...] = ()
    """for observations of several numbers, how many values each may have: agents see one bit for each"""
    first_choices: tuple[int, ...] = ()
    channels_first: bool = False
    max_value: int = 255
    """the largest value of images of bytes"""

    def encode(self, obs: Any) -> np.ndarray:
        """One observation as agents see it: a copy, as environments may write the next one into the same array."""
        array = np.asarray(obs)
        if array.shape != self.env_shape:
            raise UserError(
                f"the environment gave an observation of shape {array.shape}, its space says {self.env_shape}"
            )
        return self._encoded(array)

    def encode_many(self, obs: Any) -> tuple[np.ndarray, bool]:
        """One observation or many: [n, *shape], and whether there were many."""
        array = np.asarray(obs)
        if array.shape == self.env_shape:
            return self._encoded(array)[None], False
        if array.shape[1:] != self.env_shape or array.ndim != len(self.env_shape) + 1:
            raise UserError(f"an observation has shape {self.env_shape}, many of them (n, …); got {array.shape}")
        return np.stack([self._encoded(one) for one in array]), True

    def _encoded(self, array: np.ndarray) -> np.ndarray:
        if self.kind == DISCRETE:
            return np.asarray(array - self.first_state, self.dtype)
        if self.choices:
            ranges = zip(self.first_choices, self.choices, array.flat, strict=True)
            return np.concatenate([np.arange(first, first + n) == chosen for first, n, chosen in ranges])
        if self.channels_first:
            array = np.moveaxis(array, 0, -1)
        return np.array(array, self.dtype, order="C").reshape(self.shape)


def read_spaces(observations: Any, actions: Any) -> Spaces:
    """The spaces of an environment, or what is wrong with them."""
    from gymnasium import spaces

    if not isinstance(actions, spaces.Discrete):
        help = (
            ": continuous actions must be made discrete by a wrapper (gymnasium.wrappers.TransformAction)"
            if isinstance(actions, spaces.Box)
            else ""
        )
        raise UserError(f"our agents choose among a number of actions (Discrete), not from {actions}{help}")
    acting: dict[str, Any] = {"actions": int(actions.n), "first_action": int(actions.start)}
    if isinstance(observations, spaces.Discrete):
        states = {"states": int(observations.n), "first_state": int(observations.start)}
        return Spaces(DISCRETE, (), (), "int32", **states, **acting)
    if isinstance(observations, spaces.MultiDiscrete):
        choices, firsts = (tuple(np.ravel(one).tolist()) for one in (observations.nvec, observations.start))
        bits = {"choices": choices, "first_choices": firsts}
        return Spaces(VECTOR, observations.nvec.shape, (sum(choices),), "bool", **bits, **acting)
    if isinstance(observations, spaces.MultiBinary):
        return Spaces(VECTOR, observations.shape, (math.prod(observations.shape),), "bool", **acting)
    if not isinstance(observations, spaces.Box):
        raise UserError(
            f"our agents see vectors, images or numbers of states, not {type(observations).__name__} observations: choose or join "
            "their parts by a wrapper (gymnasium.wrappers.FlattenObservation, or minigrid's ImgObsWrapper)"
        )
    return _of_box(observations, acting)


def _of_box(box: Any, acting: dict[str, Any]) -> Spaces:
    shape, dtype = box.shape, box.dtype
    # Larger integers than int32 holds: networks see them as float32 anyway.
    kept = str(dtype) if str(dtype) in ("bool", "uint8", "int32") else "float32"
    if len(shape) < 2:
        return Spaces(VECTOR, shape, (math.prod(shape),), kept, **acting)
    if dtype == np.uint8:
        acting["max_value"] = max(int(box.high.max()), 1)
    if len(shape) == 2:
        return Spaces(IMAGE, shape, (*shape, 1), kept, **acting)
    if len(shape) > 3:
        raise UserError(f"images have rows, columns and channels: observations of shape {shape} need a wrapper")
    first, *_, last = shape
    square_after = shape[1] == last != first  # frames stacked in front
    if last not in CHANNELS and (first in CHANNELS or square_after):
        return Spaces(IMAGE, shape, (*shape[1:], first), kept, channels_first=True, **acting)
    return Spaces(IMAGE, shape, shape, kept, **acting)
