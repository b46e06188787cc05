"""Exports a world as a Gymnasium environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array

from remanence.core.errors import UserError
from remanence.core.prng import make_key, unwrap_keys, wrap_keys
from remanence.core.types import Task, TimeStep, WorldState
from remanence.worlds.base import World


class _Process:
    """Lets forked processes know that this one has used JAX: in such a child, JAX waits forever for threads it does not have."""

    used = stale = False


def _forked() -> None:
    _Process.stale = _Process.used


os.register_at_fork(after_in_child=_forked)


class Episode(NamedTuple):
    """A running episode. Step n uses `fold_in(key, n)`."""

    key: Array  # [2] raw words: faster to pass to jax than keys
    step: Array  # []
    world: WorldState


class Program(NamedTuple):
    """The compiled functions of a world, for one lane."""

    begin: Callable[[np.ndarray, Task, Episode | None, bool], tuple[Episode, Array]]
    """(two random uint32 words, task, the episode before, whether the task changed since) -> episode, observation"""
    step: Callable[[Episode, int, Task], tuple[Episode, Array, Array]]
    """(episode, action, task) -> episode, observation, [reward, discount, last]"""


@cache
def compiled(world: World) -> Program:
    """The program of a world: compiled once, and shared by all environments of equal worlds."""

    def begin(words: Array, task: Task, before: Episode | None, switched: Array) -> tuple[Episode, Array]:
        k_reset, k_steps = jax.random.split(jax.random.fold_in(make_key(words[0]), words[1]))
        if before is None:
            state, obs = world.reset(k_reset, task)
        else:
            state, obs = world.restart(k_reset, before.world, task, switched)
        return Episode(unwrap_keys(k_steps), jnp.int32(0), state), _shown(obs)

    def step(episode: Episode, action: Array, task: Task) -> tuple[Episode, Array, Array]:
        key = jax.random.fold_in(wrap_keys(episode.key, make_key(0)), episode.step)
        state, seen = world.step(key, episode.world, jnp.int32(action), task)
        # One array for all scalars: fetching an array costs about as much as the step itself.
        return Episode(episode.key, episode.step + 1, state), _shown(seen.obs), _numbers(seen)

    return Program(jax.jit(begin), jax.jit(step))


def space_of(world: World, task: Task) -> spaces.Space:
    """The observation space of a world: Discrete for states, uint8 in {0, 1} for bits."""
    obs = jax.eval_shape(lambda: world.reset(make_key(0), task)[1])
    if obs.dtype == bool:
        return spaces.Box(0, 1, obs.shape, np.uint8)
    if np.issubdtype(obs.dtype, np.floating):
        return spaces.Box(-np.inf, np.inf, obs.shape, obs.dtype)
    if world.observation.num_states:
        return spaces.Discrete(world.observation.num_states)
    limits = np.iinfo(obs.dtype)
    return spaces.Box(limits.min, limits.max, obs.shape, obs.dtype)  # type: ignore[arg-type]


class WorldEnv(gymnasium.Env[Any, int]):
    """A world with several tasks, one of which is current.

    An episode is `terminated` if the world's discount is 0, otherwise `truncated`. `info` has the number of the current `task` and
    the `discount`. All randomness comes from `np_random`: after `reset(seed=s)`, episodes repeat bit for bit. Another
    reset is the world's `restart`. Setting `task` changes the current task, from the next step on.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        world: World,
        tasks: Any,
        task: int = 0,
        render_mode: str | None = None,
        observation_space: spaces.Space | None = None,
    ) -> None:
        """
        Args:
            world: frozen and hashable; equal worlds share their compiled program.
            tasks: pytree, leaves [tasks, ...].
            task: the number of the current task.
            observation_space: only needed if observations are real numbers with bounds.
        """
        if _Process.stale:
            raise UserError(
                "this process was forked from one that had already made a world: spawn it instead, for a vector with "
                'gymnasium.make_vec(…, vectorization_mode="async", vector_kwargs={"context": "spawn"})'
            )
        _Process.used = True
        self.world, self.tasks = world, tasks
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"the render mode must be one of {self.metadata['render_modes']}; got '{render_mode}'")
        self.render_mode = render_mode
        # A single lane is faster on the CPU, even if there is an accelerator.
        place = jax.devices("cpu")[0]
        self._tasks = [
            jax.device_put(jax.tree.map(lambda leaf, number=number: np.asarray(leaf)[number], tasks), place)
            for number in range(len(jax.tree.leaves(tasks)[0]))
        ]
        self.task = task
        self._program = compiled(world)
        self._episode: Episode | None = None
        self._last_task = task
        self._over = True
        self.observation_space = observation_space or space_of(world, self._tasks[0])
        self.action_space = spaces.Discrete(world.num_actions)  # type: ignore[assignment]

    @property
    def num_tasks(self) -> int:
        return len(self._tasks)

    @property
    def task(self) -> int:
        """The number of the current task."""
        return self._task

    @task.setter
    def task(self, number: int) -> None:
        if not 0 <= number < self.num_tasks:
            raise UserError(f"there are {self.num_tasks} tasks, numbered from 0; got {number}")
        self._task = int(number)

    @property
    def live_task(self) -> Any:
        """The parameters of the current task: a pytree of arrays."""
        return jax.tree.map(np.asarray, self._tasks[self._task])

    @property
    def state(self) -> WorldState:
        """The world's state."""
        if self._episode is None:
            raise UserError("the world has not started: call reset() first")
        return self._episode.world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        words = self.np_random.integers(2**32, size=2, dtype=np.uint32)
        before = self._episode if seed is None and type(self.world).restart is not World.restart else None
        self._episode, obs = self._program.begin(words, self._tasks[self._task], before, self._task != self._last_task)
        self._over, self._last_task = False, self._task
        return self._seen(obs), {"task": self._task, "discount": float(np.float32(self.world.discount))}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._over or self._episode is None:
            raise UserError("the episode is over, or has not started: call reset() first")
        if not 0 <= action < self.world.num_actions:
            raise UserError(f"actions are 0 to {self.world.num_actions - 1} here; got {action}")
        self._episode, obs, numbers = self._program.step(self._episode, int(action), self._tasks[self._task])
        self._last_task = self._task
        reward, discount, last = np.asarray(numbers).tolist()
        self._over = last > 0
        terminated = self._over and discount == 0
        info = {"task": self._task, "discount": discount}
        return self._seen(obs), reward, terminated, self._over and not terminated, info

    def render(self) -> Any:
        if self.render_mode == "rgb_array":
            return self.picture()
        return self.text() if self.render_mode == "ansi" else None

    def picture(self) -> np.ndarray:
        """[height, width, 3] an RGB image of the world, uint8."""
        raise NotImplementedError

    def text(self) -> str:
        """The world as text."""
        raise NotImplementedError

    def _seen(self, obs: Array) -> Any:
        """An observation for Gymnasium: an integer, or a copy of the array."""
        seen = np.array(obs)
        return np.int64(seen) if isinstance(self.observation_space, spaces.Discrete) else seen


def _shown(obs: Array) -> Array:
    return obs.astype(jnp.uint8) if obs.dtype == bool else obs


def _numbers(seen: TimeStep) -> Array:
    return jnp.stack([jnp.float32(seen.reward), jnp.float32(seen.discount), jnp.float32(seen.last)])
