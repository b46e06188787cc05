"""How an environment changes during a life: not at all, in switches the agent is told of or not, or little by little."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.core.types import Episodes, Span, Steps
from remanence.streams import cyclic

Change: TypeAlias = Callable[[Any, Any], None]  # (environment, value): gives a parameter of the environment that value
CYCLIC, RANDOM = "cyclic", "random"


@dataclass(frozen=True)
class Timetable:
    """What is the case at each tick of a life's clock: a step, or an episode where the span is counted in episodes."""

    span: Span
    """how long a segment lasts"""
    order: tuple[int, ...]
    """the task of each segment"""
    names: tuple[str, ...]
    """of the tasks"""
    told: bool
    cuts: bool
    """whether a switch ends the episode"""
    environments: bool = False
    """whether each task is an environment of its own; else there is one"""
    change: Change | None = None
    value: Callable[[int], Any] = lambda _: None
    """the parameter at each tick"""

    @property
    def ticks(self) -> int:
        return len(self.order) * self.span.count

    @property
    def by_steps(self) -> bool:
        return isinstance(self.span, Steps)

    def task(self, tick: int) -> int:
        """The task at a tick; the last one goes on for ever."""
        return self.order[min(tick // self.span.count, len(self.order) - 1)]


@dataclass(frozen=True)
class Steady:
    """Nothing changes."""

    steps: int | None = None
    episodes: int | None = None

    def timetable(self, environments: Sequence[str]) -> Timetable:
        _only_one(environments)
        return Timetable(_span(self.steps, self.episodes), (0,), tuple(environments), told=False, cuts=False)


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

    def timetable(self, environments: Sequence[str]) -> Timetable:
        _only_one(environments)
        span = _span(self.steps, self.episodes)

        def value(tick: int) -> float:
            share = self.path(min(tick / max(span.count - 1, 1), 1.0))
            return self.start + share * (self.end - self.start)

        return Timetable(span, (0,), tuple(environments), False, False, change=self.change, value=value)


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
    told: bool = False
    """whether agents hear of a switch when it happens"""
    ends_episode: bool | None = None
    """whether a switch also ends the episode; if not given, only where it leads to another environment"""

    def __post_init__(self) -> None:
        if (self.change is None) != (not len(self.values)):
            raise UserError("to switch a parameter give both: change, a function (env, value), and values")

    def timetable(self, environments: Sequence[str]) -> Timetable:
        if self.change is not None:
            _only_one(environments)
        elif len(environments) < 2:
            raise UserError("nothing to switch between: give change and values, or a list of environments")
        names = [str(value) for value in self.values] if self.change else list(environments)
        span = self.every if isinstance(self.every, Episodes) else Steps(self.every)
        _check(span)
        order = self._order(len(names))
        elsewhere = self.change is None
        if elsewhere and self.ends_episode is False:
            raise UserError("an episode cannot go on in another environment: leave ends_episode out")

        values = tuple(self.values)  # the same object whenever it is asked for

        def value(tick: int) -> Any:
            return values[order[min(tick // span.count, len(order) - 1)]]

        return Timetable(
            span,
            order,
            tuple(names),
            self.told,
            elsewhere or bool(self.ends_episode),
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


def _span(steps: int | None, episodes: int | None) -> Span:
    if (steps is None) == (episodes is None):
        raise UserError("say how long it lasts: steps=…, or episodes=…")
    span = Steps(steps) if steps is not None else Episodes(episodes or 0)
    _check(span)
    return span


def _check(span: Span) -> None:
    if isinstance(span.count, bool) or not isinstance(span.count, int | np.integer) or span.count < 1:
        unit = type(span).__name__.lower()
        raise UserError(f"a life needs a whole number of {unit}, at least 1; got {span.count!r}")


def _only_one(environments: Sequence[str]) -> None:
    if len(environments) > 1:
        raise UserError("several environments take turns by Switches(every=…), without change and values")
