"""How an environment is restored from a checkpoint: from the state it offers, or by repeating its actions. Never from code.

An environment offers its state by two methods: `get_state()` returns a dict of arrays and JSON values, and `set_state(state)`
takes it. The state of its random generator is saved beside it. All others are made anew, and the actions of the life are repeated
with the same seed: a checksum of all observations and rewards tells whether the environment came to the same point.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from remanence.core.errors import UserError
from remanence.gym.contract import HostStep
from remanence.gym.spaces import Spaces

BY_STATE, BY_REPLAY, NOT_AT_ALL = "state", "replay", ""
_OUTCOME = struct.Struct("<dd??")


class Tape:
    """The actions of a life, and a checksum of all that the environment answered."""

    def __init__(self, num_actions: int) -> None:
        self.actions = array("B" if num_actions <= 256 else "i")
        self.checksum = 0

    def begin(self, obs: np.ndarray) -> None:
        self.checksum = zlib.crc32(obs.tobytes(), self.checksum)

    def add(self, action: int, seen: HostStep) -> None:
        self.actions.append(action)
        checksum = zlib.crc32(_OUTCOME.pack(seen.reward, seen.discount, seen.last, seen.completed), self.checksum)
        checksum = zlib.crc32(seen.obs.tobytes(), checksum)
        self.checksum = zlib.crc32(seen.reset_obs.tobytes(), checksum) if seen.last else checksum


def offers_state(env: Any) -> bool:
    """Whether an environment offers its state, and all wrappers around it are known or offer theirs."""
    return _owner(env) is not None


def take_state(env: Any) -> dict[str, Any]:
    """The state of an environment that offers it, its generator, and what Gymnasium's own wrappers know."""
    owner = _owner(env)
    generator = getattr(env.unwrapped, "_np_random", None)
    return {
        "state": owner.get_state(),
        "generator": None if generator is None else generator.bit_generator.state,
        "elapsed": [layer._elapsed_steps for layer in _layers(env) if _is_time_limit(layer)],
    }


def give_state(env: Any, saved: Mapping[str, Any]) -> None:
    """Continues from a state; the environment was reset before, as Gymnasium asks."""
    _owner(env).set_state(saved["state"])
    if saved["generator"] is not None:
        env.unwrapped.np_random.bit_generator.state = saved["generator"]
    limits = [layer for layer in _layers(env) if _is_time_limit(layer)]
    for layer, elapsed in zip(limits, saved["elapsed"], strict=True):
        layer._elapsed_steps = elapsed


def _layers(env: Any) -> Iterator[Any]:
    """An environment and what it wraps, from the outside."""
    while env is not None:
        yield env
        env = getattr(env, "env", None)


def _is_time_limit(layer: Any) -> bool:
    from gymnasium.wrappers import TimeLimit

    return type(layer) is TimeLimit


def _owner(env: Any) -> Any:
    """The outermost layer that offers a state; None if a wrapper around it may have a state that is not known."""
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    for layer in _layers(env):
        methods = (getattr(layer, name, None) for name in ("get_state", "set_state"))
        if all(map(callable, methods)):
            return layer
        if type(layer) not in (OrderEnforcing, PassiveEnvChecker, TimeLimit):
            return None
    return None


def packed(value: Any, name: str) -> dict[str, np.ndarray]:
    """Arrays and JSON values as named arrays: the arrays themselves, and a text of the rest."""
    arrays: dict[str, np.ndarray] = {}

    def plain(part: Any) -> Any:
        if isinstance(part, np.ndarray) and part.dtype.kind in "biufc":
            arrays[f"array{len(arrays)}"] = part
            return {"array": f"array{len(arrays) - 1}"}
        if isinstance(part, np.generic):
            return part.item()
        if isinstance(part, dict) and all(isinstance(key, str) for key in part):
            return {"dict": {key: plain(one) for key, one in part.items()}}
        if isinstance(part, list | tuple):
            return [plain(one) for one in part]
        if part is None or isinstance(part, bool | int | float | str):
            return part
        raise UserError(f"get_state of {name} must return arrays and JSON values; it returned a {type(part).__name__}")

    text = json.dumps(plain(value))
    return {**arrays, "text": np.frombuffer(text.encode(), np.uint8)}


def unpacked(saved: Mapping[str, np.ndarray]) -> Any:
    """Undoes `packed`; tuples become lists."""

    def full(part: Any) -> Any:
        if isinstance(part, list):
            return [full(one) for one in part]
        if isinstance(part, dict):
            return saved[part["array"]] if "array" in part else {key: full(one) for key, one in part["dict"].items()}
        return part

    return full(json.loads(saved["text"].tobytes()))


class Trial:
    """A few steps with fixed actions: what identifies an environment, and whether it repeats itself."""

    STEPS = 20

    def __init__(self, env: Any, spaces: Spaces) -> None:
        self.env, self.encode = env, spaces.encode
        rng = np.random.default_rng(0)
        self.actions = [spaces.first_action + int(rng.integers(spaces.actions)) for _ in range(self.STEPS)]

    def all_answers(self) -> list[np.ndarray]:
        return self.answers(self.actions, begin=True)

    def answers(self, actions: Sequence[int], begin: bool = False) -> list[np.ndarray]:
        """All observations and rewards."""
        found = [self.encode(self.env.reset(seed=0)[0])] if begin else []
        for action in actions:
            obs, reward, terminated, truncated, _ = self.env.step(action)
            found += [self.encode(obs), np.array([reward, terminated, truncated], np.float64)]
            if terminated or truncated:
                found.append(self.encode(self.env.reset()[0]))
        return found


def same(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return len(one) == len(other) and all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def fingerprint(answers: Sequence[np.ndarray]) -> str:
    """A checksum, with numbers rounded: the same on machines that differ in their last digits."""
    checksum = 0
    for answer in answers:
        rounded = np.round(answer.astype(np.float64), 3) + 0.0  # no negative zero
        checksum = zlib.crc32(rounded.tobytes(), checksum)
    return f"{checksum:08x}"


def how_restored(first: Any, second: Any, spaces: Spaces) -> tuple[str, str]:
    """How two new environments of one kind can be restored, tried for a few steps; and the fingerprint of their kind.

    The fingerprint of environments that do not repeat themselves is empty.
    """
    one, other = Trial(first, spaces), Trial(second, spaces)
    answers = one.all_answers()
    repeats = same(answers, other.all_answers())
    found = fingerprint(answers) if repeats else ""
    if offers_state(first) and _state_works(one, other):
        return BY_STATE, found
    return (BY_REPLAY if repeats else NOT_AT_ALL), found


def _state_works(one: Trial, other: Trial) -> bool:
    """Whether the second environment goes on like the first one, from a state in the middle."""
    middle = Trial.STEPS // 2
    one.answers(one.actions[:middle], begin=True)
    saved = unpacked(packed(take_state(one.env), type(one.env.unwrapped).__name__))
    other.answers((), begin=True)
    give_state(other.env, saved)
    return same(one.answers(one.actions[middle:]), other.answers(one.actions[middle:]))
