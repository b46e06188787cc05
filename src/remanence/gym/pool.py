"""Pools of Gymnasium environments: create them, step them, and set their tasks and parameters."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.core.errors import NotRestored, UserError
from remanence.gym.contract import Failure, HostStep, Notes, ObsCheck, checked_step
from remanence.gym.factories import Adapter, EnvFactory, Maker
from remanence.gym.restoring import BY_REPLAY, NOT_AT_ALL, Tape, give_state, packed, take_state, unpacked
from remanence.gym.spaces import Spaces
from remanence.streams import Schedule


@dataclass(frozen=True, eq=False)
class EnvSource:
    """What makes the environments of a run, in any process."""

    makers: tuple[Maker, ...]
    adapter: Adapter | None
    schedule: Schedule
    spaces: Spaces
    discount: float
    restored: str = NOT_AT_ALL
    """how a checkpoint restores them"""
    parts: int = 1
    """environments that one call of a maker makes"""
    use_jax: bool = False
    """whether they run jax programs of their own"""


class EnvWorker:
    """The environments of one lane, one per factory.

    After every step, the task and the parameter of the next step are set, before a possible reset: some parameters take effect
    only at a reset. If a switch truncates an episode, the step is the last one of the episode, but the episode is not completed.
    """

    def __init__(
        self,
        env_factories: Sequence[EnvFactory],
        source: EnvSource,
        lane: int,
        seed: int,
    ) -> None:
        self.env_factories, self.restored = env_factories, source.restored
        self.schedule, self.spaces, self.discount = source.schedule, source.spaces, source.discount
        self.lane, self.seed = lane, seed
        self.steps, self.episodes = 0, 0  # completed episodes
        self._envs: dict[int, Any] = {}
        self._env: Any = None  # the current one, and the check of its observations
        self._check: Any = None
        self._seeded: set[int] = set()
        self._prepared_for, self._task, self._value = -1, -1, object()
        self._nothing_changes = len(set(source.schedule.order)) == 1 and source.schedule.change is None
        self._checks: dict[int, ObsCheck] = {}
        self.failure: Failure | None = None
        self.largest_reward = 0.0
        self.tape = Tape(self.spaces.actions) if self.restored == BY_REPLAY else None

    def begin(self) -> np.ndarray:
        self._prepare()
        obs = self._reset()
        if self.tape is not None:
            self.tape.begin(obs)
        return obs

    def step(self, action: int) -> HostStep:
        """One step. If the environment fails, the life goes on without it and records NaN: other lanes are not disturbed."""
        if self.failure is None:
            time = self.steps
            try:
                seen = self._step(action)
                if self.tape is not None:
                    self.tape.add(action, seen)
                return seen
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

    @property
    def notes(self) -> Notes:
        return Notes(self.largest_reward, self.failure)

    def save(self) -> dict[str, np.ndarray]:
        """All that `restore` needs, as arrays."""
        failure = self.failure and [self.failure.env, self.failure.step, self.failure.what]
        about: dict[str, Any] = {"clocks": [self.steps, self.episodes, self.largest_reward], "failure": failure}
        about |= {"lane": self.lane, "seed": self.seed}
        if failure is None and self.tape is not None:
            about |= {"actions": np.array(self.tape.actions), "checksum": self.tape.checksum}
        elif failure is None:
            about["states"] = {str(number): take_state(env) for number, env in self._envs.items()}
        return packed(about, self._name)

    def restore(self, about: Mapping[str, Any]) -> None:
        """Comes to the point at which `save` was called; raises `NotRestored` if that is not possible."""
        clocks, failure = about["clocks"], about["failure"]
        if failure is not None:
            self.failure = Failure(failure[0], self.seed, *failure[1:])
        elif self.tape is not None:
            self._replay(about["actions"].tolist(), about["checksum"])
        else:
            self._continue(clocks, about["states"])
        self.steps, self.episodes, self.largest_reward = clocks

    def _replay(self, actions: Sequence[int], checksum: int) -> None:
        assert self.tape is not None
        self.begin()
        for action in actions:
            self.step(action)
        if self.failure is not None or self.tape.checksum != checksum:
            raise NotRestored(f"{self._name} does not repeat itself with the same seed and the same actions")

    def _continue(self, clocks: Sequence[Any], states: Mapping[str, Any]) -> None:
        self.steps, self.episodes = clocks[:2]
        for number, state in states.items():
            self._envs[int(number)] = env = self.env_factories[int(number)].next(self.lane)
            env.reset(seed=self.seed)
            self._seeded.add(int(number))
            if self.schedule.change is not None:
                self._value = self.schedule.value(self._clock)
                self.schedule.change(env, self._value)
            give_state(env, state)
        self._prepared_for, self._task = self._clock, self.schedule.task(self._clock)
        self._enter()

    def close(self) -> None:
        for env in self._envs.values():
            with contextlib.suppress(Exception):  # errors of close() do not matter
                env.close()
        self._envs.clear()

    @property
    def _clock(self) -> int:
        return self.steps if self.schedule.by_steps else self.episodes

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
        return self.spaces.encode(self._check(obs))

    def _is_truncated(self) -> bool:
        table = self.schedule
        return table.truncate_on_switch and table.by_steps and table.task(self._clock) != self._task

    def _prepare(self) -> None:
        """Sets the task and the parameter of the next step."""
        if self._nothing_changes and self._prepared_for >= 0:
            return
        time = self._clock
        if time == self._prepared_for:
            return
        self._prepared_for, self._task = time, self.schedule.task(time)
        if self._number not in self._envs:
            self._envs[self._number] = self.env_factories[self._number].next(self.lane)
        self._enter()
        if self.schedule.change is None:
            return
        value = self.schedule.value(time)
        if value is not self._value:  # values may be any objects, also arrays
            self.schedule.change(self._env, value)
            self._value = value

    def _enter(self) -> None:
        """Makes the environment of the current task the current one."""
        number = self._number
        self._env = self._envs.get(number)
        if self._env is not None and number not in self._checks:
            self._checks[number] = ObsCheck(self._env.observation_space)
        self._check = self._checks.get(number)

    def _reset(self) -> np.ndarray:
        """Starts the next episode. An environment is seeded once, as Gymnasium recommends."""
        seeded = self._number in self._seeded
        self._seeded.add(self._number)
        obs, _ = self._env.reset() if seeded else self._env.reset(seed=self.seed)
        return self._seen(obs)


class EnvPool:
    """The environments of all lanes; every lane has its own."""

    def __init__(self, source: EnvSource) -> None:
        self.source = source
        self.env_factories = [EnvFactory(make, source.adapter) for make in source.makers]
        self._numbers = itertools.count()
        self.workers: dict[int, EnvWorker] = {}
        self.failure: BaseException | None = None
        """what an environment raised"""
        self.stopping = False

    def __enter__(self) -> EnvPool:
        """Stores what is raised inside, because the compiled program passes on only its text. Lanes on other devices stop too."""
        if self.stopping:
            raise RuntimeError("stopped")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, where: Any) -> None:
        if error is not None:
            self.failure = self.failure or error
            self.stopping = True

    def begin(self, seeds: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        """A lane's number and first observation, for each seed."""
        began = []
        for seed in seeds:
            number = next(self._numbers)
            self.workers[number] = worker = EnvWorker(self.env_factories, self.source, number, seed)
            began.append((number, worker.begin()))
        return began

    def step(self, lane: int, time: int, action: int) -> HostStep:
        """One step of a lane that has taken `time` steps so far; raises if a step is repeated or skipped."""
        worker = self.workers[lane]
        if worker.steps != time:
            raise RuntimeError(f"step {time} of a lane that is at step {worker.steps}")
        return worker.step(action)

    def save(self, lane: int) -> dict[str, np.ndarray]:
        """The environment of a lane as arrays; none if the lane is done."""
        return self.workers[lane].save() if lane in self.workers else {}

    def restore(self, saved: Mapping[str, np.ndarray]) -> int:
        """The number of a new lane, whose environment is where the saved one was."""
        about = unpacked(saved)
        number = next(self._numbers)
        self.workers[number] = worker = EnvWorker(self.env_factories, self.source, about["lane"], about["seed"])
        worker.restore(about)
        return number

    def notes(self, lane: int) -> Notes:
        return self.workers[lane].notes

    def leave(self, lane: int) -> None:
        """The lane is done."""
        if lane in self.workers:
            self.workers.pop(lane).close()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
