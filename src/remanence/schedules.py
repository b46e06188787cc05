"""How an environment changes during a life: not at all, in switches the agent is told of or not, or little by little."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.core.types import Duration, Episodes, Steps
from remanence.streams import cyclic

Change: TypeAlias = Callable[[Any, Any], None]  # (environment, value): gives a parameter of the environment that value
CYCLIC, RANDOM = "cyclic", "random"


@dataclass(frozen=True)
class Schedule:
    """What is the case at each time of a life's clock: a step, or an episode where the span is counted in episodes."""

    segment_length: Duration
    """how long a segment lasts"""
    order: tuple[int, ...]
    """the task of each segment"""
    names: tuple[str, ...]
    """of the tasks"""
    boundaries_known: bool
    truncate_on_switch: bool
    """whether a switch ends the episode"""
    environments: bool = False
    """whether each task is an environment of its own; else there is one"""
    change: Change | None = None
    value: Callable[[int], Any] = lambda _: None
    """the parameter at each time"""

    @property
    def duration(self) -> int:
        return len(self.order) * self.segment_length.count

    @property
    def by_steps(self) -> bool:
        return isinstance(self.segment_length, Steps)

    def task(self, time: int) -> int:
        """The task at a time; the last one goes on for ever."""
        return self.order[min(time // self.segment_length.count, len(self.order) - 1)]


@dataclass(frozen=True)
class Stationary:
    """Nothing changes."""

    steps: int | None = None
    episodes: int | None = None

    def schedule(self, environments: Sequence[str]) -> Schedule:
        _only_one(environments)
        return Schedule(
            _span(self.steps, self.episodes),
            (0,),
            tuple(environments),
            boundaries_known=False,
            truncate_on_switch=False,
        )


@dataclass(frozen=True)
class Drift:
    """A parameter moves a little with every step (or every episode) of a life, and nobody is told.

    `change(env, value)` gives the parameter its value. It moves evenly from `start` to `end`, unless `path` says otherwise: how
    much of the way is gone when so much of the life is lived, both between 0 and 1.
    """

    change: Change
    start: float
    end: float
    steps: int | None = None
    episodes: int | None = None
    path: Callable[[float], float] = float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise UserError(f"a parameter cannot drift from {self.start} to {self.end}")

    def schedule(self, environments: Sequence[str]) -> Schedule:
        _only_one(environments)
        segment_length = _span(self.steps, self.episodes)

        def value(time: int) -> float:
            share = self.path(min(time / max(segment_length.count - 1, 1), 1.0))
            return self.start + share * (self.end - self.start)

        return Schedule(segment_length, (0,), tuple(environments), False, False, change=self.change, value=value)


@dataclass(frozen=True)
class Switches:
    """Tasks that take turns: the values of a parameter, or several environments.

    With `change` and `values`, the environment stays and `change(env, value)` gives its parameter each value in turn. Without,
    `live` must be given several environments.
    """

    change: Change | None = None
    values: Sequence[Any] = ()
    every: int | Episodes = 10_000
    """steps between two switches; or `Episodes(n)`"""
    segments: int | None = None
    """how many tasks a life has, one after the other; if not given, each one twice, or as many as `order` lists"""
    order: str | Sequence[int] = CYCLIC
    """cyclic; random (drawn once, the same for all seeds, and never the same task twice in a row); or the numbers of tasks"""
    boundaries_known: bool = False
    """whether agents hear of a switch when it happens"""
    truncate_on_switch: bool | None = None
    """whether a switch also ends the episode; if not given, only where it leads to another environment"""

    def __post_init__(self) -> None:
        if (self.change is None) != (not len(self.values)):
            raise UserError("to switch a parameter give both: change, a function (env, value), and values")

    def schedule(self, environments: Sequence[str]) -> Schedule:
        if self.change is not None:
            _only_one(environments)
        elif len(environments) < 2:
            raise UserError("nothing to switch between: give change and values, or a list of environments")
        names = [str(value) for value in self.values] if self.change else list(environments)
        segment_length = self.every if isinstance(self.every, Episodes) else Steps(self.every)
        _check(segment_length)
        order = self._order(len(names))
        elsewhere = self.change is None
        if elsewhere and self.truncate_on_switch is False:
            raise UserError("an episode cannot go on in another environment: leave ends_episode out")

        values = tuple(self.values)  # the same object whenever it is asked for

        def value(time: int) -> Any:
            return values[order[min(time // segment_length.count, len(order) - 1)]]

        return Schedule(
            segment_length,
            order,
            tuple(names),
            self.boundaries_known,
            elsewhere or bool(self.truncate_on_switch),
            elsewhere,
            self.change,
            *([value] if self.change else []),
        )

    def _order(self, tasks: int) -> tuple[int, ...]:
        if not isinstance(self.order, str):
            order = tuple(int(task) for task in self.order)
            strange = [task for task in order if not 0 <= task < tasks]
            if strange:
                raise UserError(f"with {tasks} tasks, numbered from 0, order cannot name task {strange[0]}")
            if self.segments is not None and self.segments != len(order):
                raise UserError(
                    f"order lists {len(order)} tasks, but segments is {self.segments}: leave one of them out"
                )
            segments = len(order)
        elif self.order not in (CYCLIC, RANDOM):
            raise unknown("order of tasks", self.order, (CYCLIC, RANDOM))
        else:
            segments = 2 * tasks if self.segments is None else self.segments
            order = cyclic(tasks, segments) if self.order == CYCLIC else _shuffled(tasks, segments)
        if segments < 1:
            raise UserError(f"a life needs at least one task; got {segments}")
        return order


def _shuffled(tasks: int, segments: int) -> tuple[int, ...]:
    rng = np.random.default_rng(0)
    order = [int(rng.integers(tasks))]
    while len(order) < segments:
        order.append((order[-1] + int(rng.integers(1, tasks))) % tasks if tasks > 1 else 0)
    return tuple(order)


def _span(steps: int | None, episodes: int | None) -> Duration:
    if (steps is None) == (episodes is None):
        raise UserError("say how long it lasts: steps=…, or episodes=…")
    segment_length = Steps(steps) if steps is not None else Episodes(episodes or 0)
    _check(segment_length)
    return segment_length


def _check(segment_length: Duration) -> None:
    if (
        isinstance(segment_length.count, bool)
        or not isinstance(segment_length.count, int | np.integer)
        or segment_length.count < 1
    ):
        unit = type(segment_length).__name__.lower()
        raise UserError(f"a life needs a whole number of {unit}, at least 1; got {segment_length.count!r}")


def _only_one(environments: Sequence[str]) -> None:
    if len(environments) > 1:
        raise UserError("several environments take turns by Switches(every=…), without change and values")
