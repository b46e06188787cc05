"""A wrapper that switches the tasks of an environment, for agents of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from remanence.core.errors import UserError
from remanence.core.types import Duration, Episodes, Steps
from remanence.streams import RandomOrder, Stream

RANDOM = "random"


class HasTasks(Protocol):
    """What an environment needs for a stream of tasks; all of ours have it."""

    task: int
    """the number of the current task: can be set at any time"""

    @property
    def num_tasks(self) -> int: ...


class TaskSwitching(gymnasium.Wrapper, RecordConstructorArgs):
    """Switches the task of an environment every `episodes` episodes or `steps` steps, forever.

    The first reset, and every reset with a seed, starts the stream from the beginning. A reset without a seed only starts the
    next episode. `info["task"]` is the task that gave the reward of the step. With `observe_task`, the observation has the task
    too, for task-aware agents: there it is the task of the next action.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        *,
        episodes: int | None = None,
        steps: int | None = None,
        order: Sequence[int] | str | None = None,
        truncate_on_switch: bool = False,
        observe_task: bool = False,
    ) -> None:
        """
        Args:
            env: has `num_tasks` and a settable `task`, as all worlds of this package.
            episodes: length of a task in episodes; give this or `steps`.
            steps: length of a task in steps.
            order: task numbers, repeated; default: all in turn; "random": uniformly at random each time, possibly the same again.
            truncate_on_switch: whether a switch truncates the episode.
            observe_task: whether observations are {"obs": …, "task": …}.
        """
        arguments = {
            "episodes": episodes,
            "steps": steps,
            "truncate_on_switch": truncate_on_switch,
            "observe_task": observe_task,
        }
        RecordConstructorArgs.__init__(
            self, order=order if order is None or isinstance(order, str) else tuple(order), **arguments
        )
        gymnasium.Wrapper.__init__(self, env)
        self.stream = _stream(
            _tasked(env).num_tasks, _duration(episodes, steps), order, observe_task, truncate_on_switch
        )
        if observe_task:
            task = spaces.Discrete(self.stream.num_tasks)
            self.observation_space = spaces.Dict({"obs": env.observation_space, "task": task})
        self._restart(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._restart(seed)
        elif self._under_way:  # also an episode that the caller abandoned
            self._episodes += 1
        self._under_way = False
        self._switch()
        obs, info = self.env.reset(seed=seed, options=options)
        return self._shown(obs), {**info, "task": self._task}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        task = self._task
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._under_way = True
        at_switch = (
            isinstance(self.stream.segment_length, Steps) and self._steps % self.stream.segment_length.count == 0
        )
        if at_switch and self.stream.truncate_on_switch and not terminated:
            truncated = True
        if at_switch and not (terminated or truncated):
            self._switch()  # the observation must have the task of the next action
        return self._shown(obs), reward, terminated, truncated, {**info, "task": task}

    def _restart(self, seed: int | None) -> None:
        # A spawned generator: the environment's generator uses the same seed.
        self._rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
        self._episodes = self._steps = 0
        self._under_way = False
        self._segment = -1
        self._task = 0

    def _switch(self) -> None:
        """Sets the task of the current segment."""
        clock = self._steps if isinstance(self.stream.segment_length, Steps) else self._episodes
        while self._segment < clock // self.stream.segment_length.count:
            self._segment += 1
            fixed = self.stream.shared_order[self._segment % self.stream.segments]
            self._task = int(self._rng.integers(self.stream.num_tasks)) if fixed is None else fixed
            _tasked(self.env).task = self._task

    def _shown(self, obs: Any) -> Any:
        return {"obs": obs, "task": np.int64(self._task)} if self.stream.boundaries_known else obs


def _tasked(env: gymnasium.Env) -> HasTasks:
    inner: Any = env.unwrapped
    if not (hasattr(inner, "num_tasks") and hasattr(inner, "task")):
        raise UserError(f"{inner} has no tasks: a stream needs an environment with `num_tasks` and a settable `task`")
    return inner


def _duration(episodes: int | None, steps: int | None) -> Duration:
    if (episodes is None) == (steps is None):
        raise UserError("give the length of a task in episodes or in steps, not both")
    return Steps(steps) if episodes is None else Episodes(episodes)  # type: ignore[arg-type]


def _stream(
    num_tasks: int,
    segment_length: Duration,
    order: Sequence[int] | str | None,
    boundaries_known: bool,
    truncate_on_switch: bool,
) -> Stream:
    if isinstance(order, str) and order != RANDOM:
        raise UserError(f"an order is a list of tasks or '{RANDOM}'; got '{order}'")
    numbers = range(num_tasks) if order is None else order
    fixed = RandomOrder(1) if isinstance(numbers, str) else tuple(int(number) for number in numbers)
    return Stream(np.arange(num_tasks), fixed, segment_length, boundaries_known, truncate_on_switch)
