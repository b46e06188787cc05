"""The spaces of a Gymnasium environment, and how its observations become arrays for our agents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.core.describe import later
from remanence.core.errors import UserError
from remanence.core.types import MAX_COUNT, EnvSpec, ObsSpec

DISCRETE, VECTOR, IMAGE = "number", "vector", "image"
CHANNELS = (1, 3, 4)  # usual numbers of channels: used to find the channel axis of images


@dataclass(frozen=True)
class Spaces:
    """Observations as agents see them, and actions. Plain values only: policies are saved with it."""

    kind: str
    """DISCRETE, VECTOR, or IMAGE (rows, columns, channels)"""
    env_shape: tuple[int, ...]
    """the shape of the environment's observations"""
    shape: tuple[int, ...]
    """the shape of the observations agents see"""
    dtype: str
    actions: int
    states: int = 0
    """number of states, for Discrete observations"""
    first_state: int = 0
    first_action: int = 0
    choices: tuple[int, ...] = ()
    """for MultiDiscrete observations, the number of values of each component: agents see them one-hot"""
    first_choices: tuple[int, ...] = ()
    channels_first: bool = False
    max_value: int = 255
    """the largest value of uint8 images"""
    parts: tuple[tuple[str | int, Spaces], ...] = later(())
    """of Dict and Tuple observations, by key or place: agents see them one after the other, as one vector"""

    def env_spec(self, tasks: int, discount: float = 0.99) -> EnvSpec:
        """What agents must know of the environment."""
        obs = ObsSpec(self.shape, self.dtype, self.states, self.max_value)
        return EnvSpec(obs, self.actions, tasks, discount)

    def encode(self, obs: Any) -> np.ndarray:
        """One observation as agents see it. Always a copy: environments may reuse their array."""
        if self.parts:
            return np.concatenate([part._as_vector(obs[key]) for key, part in self.parts]).astype(self.dtype)
        array = np.asarray(obs)
        if array.shape != self.env_shape:
            raise UserError(
                f"the environment returned an observation of shape {array.shape}, but its space has shape {self.env_shape}"
            )
        return self._encoded(array)

    def encode_many(self, obs: Any) -> tuple[np.ndarray, bool]:
        """One observation or a batch, as [n, *shape], and whether it was a batch: of Dict or Tuple observations, a list."""
        if self.parts:
            many = isinstance(obs, list)
            try:
                return np.stack([self.encode(one) for one in (obs if many else [obs])]), many
            except (TypeError, LookupError, ValueError):
                names = ", ".join(str(key) for key, _ in self.parts)
                raise UserError(f"an observation has numbers in the parts {names}; got {obs!r:.60}") from None
        array = np.asarray(obs)
        self._check_numbers(array, obs)
        if array.shape == self.env_shape:
            return self._encoded(array)[None], False
        if array.shape[1:] != self.env_shape or array.ndim != len(self.env_shape) + 1:
            raise UserError(f"an observation has shape {self.env_shape}, a batch of them (n, …); got {array.shape}")
        return np.stack([self._encoded(one) for one in array]), True

    def _check_numbers(self, array: np.ndarray, obs: Any) -> None:
        """Raises for what no environment with these spaces returns."""
        if array.dtype.kind not in "biuf":
            raise UserError(f"an observation consists of numbers; got {obs!r:.60}")
        if self.kind == DISCRETE:
            last = self.first_state + self.states - 1
            if not ((array >= self.first_state) & (array <= last) & (array == np.floor(array))).all():
                raise UserError(f"a state is an integer from {self.first_state} to {last}; got {obs!r:.60}")

    def _as_vector(self, obs: Any) -> np.ndarray:
        """An observation as a part of a vector: states one-hot, uint8 images from 0 to 1."""
        seen = self.encode(obs)
        if self.kind == DISCRETE:
            return np.arange(self.states) == seen
        return (seen / self.max_value if self._is_uint8_image else seen).reshape(-1)

    @property
    def _is_uint8_image(self) -> bool:
        return self.kind == IMAGE and self.dtype == "uint8"

    def _encoded(self, array: np.ndarray) -> np.ndarray:
        if self.kind == DISCRETE:
            return np.asarray(array - self.first_state, self.dtype)
        if self.choices:
            ranges = zip(self.first_choices, self.choices, array.flat, strict=True)
            return np.concatenate([np.arange(first, first + n) == chosen for first, n, chosen in ranges])
        if self.channels_first:
            array = np.moveaxis(array, 0, -1)
        copy = np.array(array, self.dtype, order="C")
        return copy if copy.shape == self.shape else copy.reshape(self.shape)


def spaces_of(spec: EnvSpec) -> Spaces | None:
    """The spaces of a world of ours, which an agent was built for; None if observations are shown to it as images of states."""
    obs = spec.obs
    if obs.images is not None:
        return None
    kind = DISCRETE if obs.num_states else IMAGE if len(obs.shape) == 3 else VECTOR
    return Spaces(kind, obs.shape, obs.shape, obs.dtype, spec.num_actions, obs.num_states, max_value=int(obs.max_value))


def read_spaces(observations: Any, actions: Any) -> Spaces:
    """Reads the spaces of an environment; raises a `UserError` if our agents cannot use them."""
    from gymnasium import spaces

    if not isinstance(actions, spaces.Discrete):
        help = (
            ": use a wrapper to make continuous actions discrete (gymnasium.wrappers.TransformAction)"
            if isinstance(actions, spaces.Box)
            else ""
        )
        raise UserError(f"our agents need a Discrete action space, not {actions}{help}")
    for what, space in (("actions", actions), ("states", observations)):
        if isinstance(space, spaces.Discrete) and space.n > MAX_COUNT:
            raise UserError(f"at most {MAX_COUNT:,} {what} can be counted; {space} has {space.n:,}")
    if 0 in (getattr(observations, "shape", None) or ()):
        raise UserError(
            f"observations need at least one number; those of {observations} have none (shape {observations.shape})"
        )
    acting: dict[str, Any] = {"actions": int(actions.n), "first_action": int(actions.start)}
    if parts := tuple((key, read_spaces(space, actions)) for key, space in named_parts(observations).items()):
        size = sum(part.states or math.prod(part.shape) for _, part in parts)
        bits = all(part.states or part.dtype == "bool" for _, part in parts)
        return Spaces(VECTOR, (), (size,), "bool" if bits else "float32", **acting, parts=parts)
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
            f"our agents need vectors, images or Discrete observations, not {type(observations).__name__}: choose or flatten "
            "their parts with a wrapper (gymnasium.wrappers.FlattenObservation, or minigrid's ImgObsWrapper)"
        )
    return _of_box(observations, acting)


def named_parts(space: Any) -> dict[str | int, Any]:
    """The spaces that a Dict or Tuple consists of, by key or place; those of any other space: none."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return dict(space.items())
    return dict(enumerate(space)) if isinstance(space, spaces.Tuple) else {}


def _of_box(box: Any, acting: dict[str, Any]) -> Spaces:
    shape, dtype = box.shape, box.dtype
    # Integers larger than int32: networks see them as float32 anyway.
    seen_dtype = str(dtype) if str(dtype) in ("bool", "uint8", "int32") else "float32"
    if len(shape) < 2:
        return Spaces(VECTOR, shape, (math.prod(shape),), seen_dtype, **acting)
    if dtype == np.uint8:
        acting["max_value"] = max(int(box.high.max()), 1)
    if len(shape) == 2:
        return Spaces(IMAGE, shape, (*shape, 1), seen_dtype, **acting)
    if len(shape) > 3:
        raise UserError(f"images need rows, columns and channels: observations of shape {shape} need a wrapper")
    first, *_, last = shape
    square_after = shape[1] == last != first  # frames stacked in front
    if last not in CHANNELS and (first in CHANNELS or square_after):
        return Spaces(IMAGE, shape, (*shape[1:], first), seen_dtype, channels_first=True, **acting)
    return Spaces(IMAGE, shape, shape, seen_dtype, **acting)
