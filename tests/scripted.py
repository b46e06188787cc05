"""Environments whose every step is known beforehand, and an agent that writes down what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import remanence
from remanence.agents import Agent
from remanence.live_env import LiveResults

STEPS = 40


class Corridor(gymnasium.Env):
    """Walk to the right end; the way is told by `kind`: a number, bits, or a picture."""

    length = 6

    def __init__(self, kind: str = "number") -> None:
        self.kind, self.action_space = kind, spaces.Discrete(2)
        self.observation_space = {
            "number": spaces.Discrete(self.length, start=3),
            "bits": spaces.MultiBinary(self.length),
            "choice": spaces.MultiDiscrete([self.length, 2]),
            "picture": spaces.Box(0, 255, (4, self.length, 1), np.uint8),
            "float picture": spaces.Box(0.0, 1.0, (1, 5, self.length), np.float64),
        }[kind]

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return self._see(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        there = self.cell == self.length - 1
        return self._see(), float(there), there, False, {}

    def _see(self) -> Any:
        if self.kind == "number":
            return self.cell + 3
        if self.kind == "choice":
            return np.array([self.cell, 1])
        line = np.arange(self.length) == self.cell
        if self.kind == "bits":
            return line.astype(np.int8)
        if self.kind == "picture":
            return np.tile(255 * line.astype(np.uint8), (4, 1))[..., None]
        return np.tile(line.astype(np.float64), (1, 5, 1))


class Script(gymnasium.Env):
    """Counts. Action 1 ends the episode for good, and so does step 3 of every other one; the others are cut off after 4.

    An observation is (episode, step in it, parameter at its last reset, parameter now); the reward is 100 · episode + step +
    parameter / 1000.
    """

    observation_space = spaces.Box(-1.0, 1e6, (4,), np.float32)
    action_space = spaces.Discrete(2, start=5)
    made: list[Script] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.episode, self.at, self.parameter, self.then = -1, 0, 0.0, 0.0
        self.closed, self.seeds, self.view = False, [], np.zeros(4, np.float32)
        Script.made.append(self)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[np.ndarray, dict]:
        self.seeds.append(seed)
        self.episode, self.at, self.then = self.episode + 1, 0, self.parameter
        return self._see(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in (5, 6)
        self.at += 1
        ended = action == 6 or (self.episode % 2 == 1 and self.at == 3)
        return self._see(), 100.0 * self.episode + self.at + self.parameter / 1000, ended, self.at == 4, {}

    def close(self) -> None:
        self.closed = True

    def _see(self) -> np.ndarray:
        """Always the same array: who wants to keep it must copy it."""
        self.view[:] = self.episode, self.at, self.then, self.parameter
        return self.view


def set_parameter(env: Any, value: float) -> None:
    env.unwrapped.parameter = value


def notebook(steps: int = STEPS, acts: Callable = lambda _: jnp.int32(0), **options: Any) -> Agent:
    """Writes every transition down as the loop gave it."""

    def learn(state: Any, hypers: Any, transition: Any, key: Any) -> Any:
        del hypers, key
        kept, n = state
        here = jnp.where(transition.valid, n, steps)
        kept = {name: kept[name].at[here].set(getattr(transition, name), mode="drop") for name in kept}
        return kept, n + transition.valid

    form = {"obs": (4,), "action": (), "reward": (), "discount": (), "next_obs": (4,), "last": ()}
    return Agent(
        init=lambda *_: ({name: jnp.zeros((steps, *shape)) for name, shape in form.items()}, jnp.int32(0)),
        act=lambda *given: acts(given[2]),
        learn=learn,
        consolidate=lambda state, *_: state,
        inspect=lambda *_: {"value": jnp.zeros(2)},
        **options,
    )


def written(results: LiveResults, name: str = "agent", seed: int = 0) -> dict[str, np.ndarray]:
    kept, n = results.policy(name, seed).state
    assert n == results.lanes["steps"][0]
    return kept


def quiet(*arguments: Any, **options: Any) -> LiveResults:
    return remanence.live(*arguments, progress=False, **options)


def curve(results: LiveResults, metric: str, name: str = "agent") -> np.ndarray:
    return results.matrix(name, metric)[0]
