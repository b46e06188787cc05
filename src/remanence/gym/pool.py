"""Gymnasium environments of the lanes of a life: makes them, steps them, and puts their tasks and parameters in place."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from remanence.core.errors import UserError
from remanence.gym.factories import EnvFactory
from remanence.gym.hosted import HostStep
from remanence.gym.spaces import Spaces
from remanence.streams import Schedule


class EnvWorker:
    """One lane in its environments, one for each source.

    After every step the task and the parameter of the next one are put in place, before a reset if an episode is over: parameters
    that only count from a reset on are then in force. Where a switch cuts an episode off, the step is the last one of the episode,
    but the episode is not completed.
    """

    def __init__(
        self,
        env_factories: Sequence[EnvFactory],
        schedule: Schedule,
        spaces: Spaces,
        discount: float,
        lane: int,
        seed: int,
    ) -> None:
        self.env_factories, self.schedule, self.spaces, self.discount = env_factories, schedule, spaces, discount
        self.lane, self.seed = lane, seed
        self.steps, self.episodes = 0, 0  # an episode counts when it is completed
        self._made: dict[int, Any] = {}
        self._seeded: set[int] = set()
        self._ready_for, self._task, self._value = -1, -1, object()

    def begin(self) -> np.ndarray:
        self._make_ready()
        return self._reset()

    def step(self, action: int) -> HostStep:
        spaces = self.spaces
        env_shape, reward, terminated, truncated, _ = self._env.step(action + spaces.first_action)
        reward = float(reward)
        if not math.isfinite(reward):
            raise UserError(f"the environment gave a reward that is no number: {reward}")
        obs = spaces.encode(env_shape)
        completed = bool(terminated or truncated)
        self.steps += 1
        last = completed or self._is_cut()
        self.episodes += completed
        self._make_ready()
        discount = 0.0 if terminated else self.discount
        return HostStep(obs, reward, discount, last, completed, self._reset() if last else obs)

    def close(self) -> None:
        for env in self._made.values():
            with contextlib.suppress(Exception):  # what an environment says when it is closed no longer matters
                env.close()
        self._made.clear()

    @property
    def _clock(self) -> int:
        return self.steps if self.schedule.by_steps else self.episodes

    @property
    def _env(self) -> Any:
        return self._made[self._number]

    @property
    def _number(self) -> int:
        return self._task if self.schedule.environments else 0

    def _is_cut(self) -> bool:
        table = self.schedule
        return table.truncate_on_switch and table.by_steps and table.task(self._clock) != self._task

    def _make_ready(self) -> None:
        """Task and parameter of the next step."""
        time = self._clock
        if time == self._ready_for:
            return
        self._ready_for, self._task = time, self.schedule.task(time)
        if self._number not in self._made:
            self._made[self._number] = self.env_factories[self._number].next(self.lane)
        if self.schedule.change is None:
            return
        value = self.schedule.value(time)
        if value is not self._value:  # values of switches may be anything, arrays too
            self.schedule.change(self._env, value)
            self._value = value

    def _reset(self) -> np.ndarray:
        """The next episode. An environment is seeded once, as Gymnasium wants it."""
        seeded = self._number in self._seeded
        self._seeded.add(self._number)
        obs, _ = self._env.reset() if seeded else self._env.reset(seed=self.seed)
        return self.spaces.encode(obs)


class EnvPool:
    """The environments of all lanes; every lane has its own."""

    def __init__(
        self, env_factories: Sequence[EnvFactory], schedule: Schedule, spaces: Spaces, discount: float
    ) -> None:
        self._enter = lambda lane, seed: EnvWorker(env_factories, schedule, spaces, discount, lane, seed)
        self._numbers = itertools.count()
        self.workers: dict[int, EnvWorker] = {}
        self.failure: BaseException | None = None
        """what a player's environment raised"""
        self.stopping = False

    def begin(self, seeds: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        with self._watching():
            began = []
            for seed in seeds:
                number = next(self._numbers)
                self.workers[number] = worker = self._enter(number, seed)
                began.append((number, worker.begin()))
            return began

    def step(self, lanes: Sequence[int], times: Sequence[int], actions: Sequence[int]) -> list[HostStep]:
        with self._watching():
            steps_taken = []
            for lane, time, action in zip(lanes, times, actions, strict=True):
                worker = self.workers[lane]
                if worker.steps != time:
                    raise RuntimeError(f"step {time} of a life that is at step {worker.steps}")
                steps_taken.append(worker.step(action))
            return steps_taken

    def leave(self, lane: int) -> None:
        self.workers[lane].close()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    @property
    def steps(self) -> int:
        """Of all lanes together."""
        return sum(worker.steps for worker in list(self.workers.values()))

    @property
    def episodes(self) -> int:
        return sum(worker.episodes for worker in list(self.workers.values()))

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Keeps what goes wrong: the compiled program passes on no more than a text. Lanes on other devices then stop too."""
        if self.stopping:
            raise RuntimeError("stopped")
        try:
            yield
        except BaseException as error:
            self.failure = self.failure or error
            self.stopping = True
            raise
