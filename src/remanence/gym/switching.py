"""Tasks that change under an agent of another library: a stream around an environment."""

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

DRAWN = "drawn"


class HasTasks(Protocol):
    """What an environment must have to be fed a stream; all of ours do."""

    task: int
    """the number of the live task: can be set at any time"""

    @property
    def num_tasks(self) -> int: ...


class TaskSwitching(gymnasium.Wrapper, RecordConstructorArgs):
    """Makes another task of an environment live every so many episodes or steps, and goes on so for ever.

    A life begins with the first reset and with every reset that is given a seed: the stream then starts anew. A reset without a
    seed only begins the next episode. `info["task"]` is the task that was live in a step, and paid its reward. Agents that shall
    be told find it in their observation with `observe_task`: there it is the one that the next action will meet.
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
            env: has `num_tasks` and a `task` that can be set, as all worlds of this package.
            episodes: how long a task stays, in episodes; give this or `steps`.
            steps: the same in steps.
            order: numbers of tasks, over and over; all in turn if not given; "drawn": any, each time, which may keep the task.
            ends_episode: whether a switch in the middle of an episode cuts it off.
            observe_task: whether observations are {"obs": …, "task": …} instead of the environment's own.
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
        self.stream = _stream(_tasked(env).num_tasks, _span(episodes, steps), order, observe_task, truncate_on_switch)
        if observe_task:
            task = spaces.Discrete(self.stream.num_tasks)
            self.observation_space = spaces.Dict({"obs": env.observation_space, "task": task})
        self._begin_life(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._begin_life(seed)
        elif self._under_way:  # also an episode that someone outside cut off
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
            self._switch()  # the observation must tell of it before the next action
        return self._shown(obs), reward, terminated, truncated, {**info, "task": task}

    def _begin_life(self, seed: int | None) -> None:
        # Of its own: the environment's luck has the same seed.
        self._chance = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
        self._episodes = self._steps = 0
        self._under_way = False
        self._segment = -1
        self._task = 0

    def _switch(self) -> None:
        """Makes the task live whose turn it is."""
        clock = self._steps if isinstance(self.stream.segment_length, Steps) else self._episodes
        while self._segment < clock // self.stream.segment_length.count:
            self._segment += 1
            listed = self.stream.shared_order[self._segment % self.stream.segments]
            self._task = int(self._chance.integers(self.stream.num_tasks)) if listed is None else listed
            _tasked(self.env).task = self._task

    def _shown(self, obs: Any) -> Any:
        return {"obs": obs, "task": np.int64(self._task)} if self.stream.boundaries_known else obs


def _tasked(env: gymnasium.Env) -> HasTasks:
    inner: Any = env.unwrapped
    if not (hasattr(inner, "num_tasks") and hasattr(inner, "task")):
        raise UserError(
            f"{inner} has no tasks: an environment for a stream has `num_tasks` and a `task` that can be set"
        )
    return inner


def _span(episodes: int | None, steps: int | None) -> Duration:
    if (episodes is None) == (steps is None):
        raise UserError("a task lasts so many episodes or so many steps: give one of the two")
    return Steps(steps) if episodes is None else Episodes(episodes)  # type: ignore[arg-type]


def _stream(
    num_tasks: int,
    segment_length: Duration,
    order: Sequence[int] | str | None,
    boundaries_known: bool,
    truncate_on_switch: bool,
) -> Stream:
    if isinstance(order, str) and order != DRAWN:
        raise UserError(f"an order is a list of tasks or '{DRAWN}'; got '{order}'")
    numbers = range(num_tasks) if order is None else order
    listed = RandomOrder(1) if isinstance(numbers, str) else tuple(int(number) for number in numbers)
    return Stream(np.arange(num_tasks), listed, segment_length, boundaries_known, truncate_on_switch)
