"""Pools of Gymnasium environments: create them, step them, and set their tasks and parameters."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from remanence.core.errors import UserError
from remanence.gym.contract import Failure, ObsCheck, checked_step
from remanence.gym.factories import EnvFactory
from remanence.gym.hosted import HostStep
from remanence.gym.spaces import Spaces
from remanence.streams import Schedule


class EnvWorker:
    """The environments of one lane, one per factory.

    After every step, the task and the parameter of the next step are set, before a possible reset: some parameters take effect
    only at a reset. If a switch truncates an episode, the step is the last one of the episode, but the episode is not completed.
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
        self.steps, self.episodes = 0, 0  # completed episodes
        self._envs: dict[int, Any] = {}
        self._seeded: set[int] = set()
        self._prepared_for, self._task, self._value = -1, -1, object()
        self._checks: dict[int, ObsCheck] = {}
        self.failure: Failure | None = None
        self.largest_reward = 0.0

    def begin(self) -> np.ndarray:
        self._prepare()
        return self._reset()

    def step(self, action: int) -> HostStep:
        """One step. If the environment fails, the life goes on without it and records NaN: other lanes are not disturbed."""
        if self.failure is None:
            time = self.steps
            try:
                return self._step(action)
            except Exception as error:
                what = f"it returned {error}" if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                self.failure = Failure(self._name, self.seed, time, what, error)
                self.steps = time
                self.close()
        self.steps += 1
        ends = not self.schedule.by_steps  # as soon as possible
        self.episodes += ends
        obs = np.zeros(self.spaces.shape, self.spaces.dtype)
        return HostStep(obs, math.nan, self.discount, ends, ends, obs)

    def _step(self, action: int) -> HostStep:
        spaces = self.spaces
        env_obs, reward, terminated, truncated = checked_step(self._env.step(action + spaces.first_action))
        obs = self._seen(env_obs)
        self.largest_reward = max(self.largest_reward, abs(reward))
        completed = bool(terminated or truncated)
        self.steps += 1
        last = completed or self._is_truncated()
        self.episodes += completed
        self._prepare()
        discount = 0.0 if terminated else self.discount
        return HostStep(obs, reward, discount, last, completed, self._reset() if last else obs)

    def close(self) -> None:
        for env in self._envs.values():
            with contextlib.suppress(Exception):  # errors of close() do not matter
                env.close()
        self._envs.clear()

    @property
    def _clock(self) -> int:
        return self.steps if self.schedule.by_steps else self.episodes

    @property
    def _env(self) -> Any:
        return self._envs[self._number]

    @property
    def _number(self) -> int:
        return self._task if self.schedule.environments else 0

    @property
    def _name(self) -> str:
        """The environment, for messages."""
        env = self._envs.get(self._number)
        return getattr(getattr(env, "spec", None), "id", None) or type(getattr(env, "unwrapped", env)).__name__

    def _seen(self, obs: Any) -> np.ndarray:
        """A checked observation as agents see it."""
        if self._number not in self._checks:
            self._checks[self._number] = ObsCheck(self._env.observation_space)
        return self.spaces.encode(self._checks[self._number](obs))

    def _is_truncated(self) -> bool:
        table = self.schedule
        return table.truncate_on_switch and table.by_steps and table.task(self._clock) != self._task

    def _prepare(self) -> None:
        """Sets the task and the parameter of the next step."""
        time = self._clock
        if time == self._prepared_for:
            return
        self._prepared_for, self._task = time, self.schedule.task(time)
        if self._number not in self._envs:
            self._envs[self._number] = self.env_factories[self._number].next(self.lane)
        if self.schedule.change is None:
            return
        value = self.schedule.value(time)
        if value is not self._value:  # values may be any objects, also arrays
            self.schedule.change(self._env, value)
            self._value = value

    def _reset(self) -> np.ndarray:
        """Starts the next episode. An environment is seeded once, as Gymnasium recommends."""
        seeded = self._number in self._seeded
        self._seeded.add(self._number)
        obs, _ = self._env.reset() if seeded else self._env.reset(seed=self.seed)
        return self._seen(obs)


class EnvPool:
    """The environments of all lanes; every lane has its own."""

    def __init__(
        self, env_factories: Sequence[EnvFactory], schedule: Schedule, spaces: Spaces, discount: float
    ) -> None:
        self._new_worker = lambda lane, seed: EnvWorker(env_factories, schedule, spaces, discount, lane, seed)
        self._numbers = itertools.count()
        self.workers: dict[int, EnvWorker] = {}
        self.failure: BaseException | None = None
        """what an environment raised"""
        self.stopping = False

    def begin(self, seeds: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        with self._watching():
            began = []
            for seed in seeds:
                number = next(self._numbers)
                self.workers[number] = worker = self._new_worker(number, seed)
                began.append((number, worker.begin()))
            return began

    def step(self, lanes: Sequence[int], times: Sequence[int], actions: Sequence[int]) -> list[HostStep]:
        with self._watching():
            steps_taken = []
            for lane, time, action in zip(lanes, times, actions, strict=True):
                worker = self.workers[lane]
                if worker.steps != time:
                    raise RuntimeError(f"step {time} of a lane that is at step {worker.steps}")
                steps_taken.append(worker.step(action))
            return steps_taken

    @property
    def failures(self) -> dict[int, Failure]:
        """Lives whose environment failed, by the seed of the environment."""
        return {worker.seed: worker.failure for worker in self.workers.values() if worker.failure}

    @property
    def largest_reward(self) -> float:
        """The largest reward of all lanes so far, without its sign."""
        return max((worker.largest_reward for worker in self.workers.values()), default=0.0)

    def leave(self, lane: int) -> None:
        self.workers[lane].close()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    @property
    def steps(self) -> int:
        """Steps of all lanes."""
        return sum(worker.steps for worker in list(self.workers.values()))

    @property
    def episodes(self) -> int:
        return sum(worker.episodes for worker in list(self.workers.values()))

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Stores an exception, because the compiled program passes on only its text. Lanes on other devices then stop too."""
        if self.stopping:
            raise RuntimeError("stopped")
        try:
            yield
        except BaseException as error:
            self.failure = self.failure or error
            self.stopping = True
            raise
