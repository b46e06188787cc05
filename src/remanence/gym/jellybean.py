"""Jelly Bean World as a Gymnasium environment."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from remanence.core.errors import UserError
from remanence.worlds.jellybean.items import Item, preset
from remanence.worlds.jellybean.pictures import view_text, world_picture
from remanence.worlds.jellybean.random import MODULUS
from remanence.worlds.jellybean.rewards import DISCOUNT, RewardSchedule
from remanence.worlds.jellybean.world import ACTIONS, JellyBeanWorlds

PATH = 400  # cells of the path that `render` shows


class JellyBeanEnv(gymnasium.Env[np.ndarray, int]):
    """One agent that walks on an infinite map and collects items; episodes never end.

    Observation: [view, view, 3], the colors of cells around the agent, by x and by y upwards. Actions: 0 up, 1 left, 2 right,
    3 down. `reset(seed=s)` starts in the original simulator's world of seed s; without a seed, in another random world. `info` has
    the agent's `position`, the number of items `collected` of each kind, the number of the current `task` and the `discount`.
    Without a schedule, setting `task` changes the current task, from the next step on.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        preset: str = "paper",
        items: Sequence[Item] | None = None,
        rewards: Sequence[Sequence[float]] = RewardSchedule.tasks,
        switch_every: int | None = RewardSchedule.every,
        task: int = 0,
        deleted_item_lifetime: int | None = None,
        vision_range: int | None = None,
        patch_size: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Arguments that are None are as in the preset.

        Args:
            rewards: tasks, each with one reward per kind of item.
            switch_every: steps per task, all tasks in turn; None: `task` only.
        """
        changes = {
            "items": None if items is None else tuple(items),
            "deleted_item_lifetime": deleted_item_lifetime,
            "vision_range": vision_range,
            "patch_size": patch_size,
        }
        rules = _preset(preset)
        self.rules = dataclasses.replace(rules, **{name: new for name, new in changes.items() if new is not None})
        self.schedule = RewardSchedule(tuple(tuple(task) for task in rewards), switch_every)
        if len(self.schedule.tasks[0]) != self.rules.num_kinds:
            raise UserError(
                f"a task needs {self.rules.num_kinds} rewards, one for each kind; got {self.schedule.tasks[0]}"
            )
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"the render mode must be one of {self.metadata['render_modes']}; got '{render_mode}'")
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (self.rules.view, self.rules.view, 3), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))  # type: ignore[assignment]
        self._worlds: JellyBeanWorlds | None = None
        self._task: int | None = None
        if switch_every is None or task:
            self.task = task
        self._path: deque[tuple[int, int]] = deque(maxlen=PATH)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        chosen = int(self.np_random.integers(2, MODULUS)) if seed is None else seed
        self._worlds = JellyBeanWorlds(self.rules, [chosen])
        self._path.clear()
        return self._observation(), self._info(self.task)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        task = self.task
        self._path.append((int(self.worlds.places[0, 0]), int(self.worlds.places[0, 1])))
        _, collected_now = self.worlds.step(np.array([action]))
        return self._observation(), float(self.schedule.table[task, collected_now[0]]), False, False, self._info(task)

    def render(self) -> np.ndarray | str | None:  # type: ignore[override]
        if self.render_mode == "rgb_array":
            return world_picture(self.worlds, path=list(self._path))
        if self.render_mode == "ansi":
            return view_text(self.worlds.views[0], [item.name for item in self.rules.items])
        return None

    @property
    def num_tasks(self) -> int:
        return len(self.schedule.tasks)

    @property
    def task(self) -> int:
        """The number of the current task."""
        if self._task is not None:
            return self._task
        return int(self.schedule.task(0 if self._worlds is None else int(self._worlds.time[0])))

    @task.setter
    def task(self, number: int) -> None:
        if self.schedule.every is not None:
            raise UserError("tasks change by the schedule here: give switch_every=None to choose them yourself")
        if not 0 <= number < self.num_tasks:
            raise UserError(f"there are {self.num_tasks} tasks, numbered from 0; got {number}")
        self._task = int(number)

    @property
    def worlds(self) -> JellyBeanWorlds:
        """The world, as a batch of one lane."""
        if self._worlds is None:
            raise UserError("the world has not started: call reset() first")
        return self._worlds

    def _observation(self) -> np.ndarray:
        return self.worlds.paint(self.worlds.views[0])

    def _info(self, task: int) -> dict[str, Any]:
        return {
            "position": self.worlds.places[0].copy(),
            "collected": self.worlds.collected[0].copy(),
            "task": task,
            "discount": DISCOUNT,
        }


_preset = preset  # the constructor has an argument of the same name
