"""Streams of tasks: which task is live when.

A `Stream` is a sequence of tasks, for the engine. `Stationary`, `Drift` and `Switches` describe how a Gymnasium environment
changes; each compiles to a `Schedule`: a stream, and how to change the environment.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError, unknown
from remanence.core.prng import randint, seed_of
from remanence.core.types import Duration, Episodes, Key, Steps, Task

Change: TypeAlias = Callable[[Any, Any], None]  # (environment, value): sets a parameter of the environment
CYCLIC, RANDOM = "cyclic", "random"
MAX_SEGMENTS = 1_000_000  # of a stream for Gymnasium environments


@dataclass(frozen=True)
class RandomOrder:
    """The task of each segment is drawn uniformly, separately for each lane. Consecutive segments may have the same task."""

    segments: int

    def first(self, segments: int) -> RandomOrder:
        return RandomOrder(min(segments, self.segments))

    def task_id(self, segment: Array, key: Key, num_tasks: int) -> Array:
        return randint(jax.random.fold_in(key, segment), num_tasks)


@dataclass(frozen=True)
class OrderOfSeed:
    """The task of each segment, given for each seed: row n is that of seed n. Seeds beyond the last row start over."""

    rows: tuple[tuple[int, ...], ...]

    @property
    def segments(self) -> int:
        return len(self.rows[0])

    def first(self, segments: int) -> OrderOfSeed:
        return OrderOfSeed(tuple(row[:segments] for row in self.rows))

    def task_id(self, segment: Array, key: Key, num_tasks: int) -> Array:
        del num_tasks
        return jnp.asarray(self.rows, jnp.int32)[seed_of(key) % len(self.rows), segment]


@dataclass(frozen=True)
class Stream:
    """A sequence of tasks. A switch is an index into an array: nothing is recompiled and no environment is rebuilt."""

    tasks: Any  # pytree, leaves [num_tasks, ...]
    order: tuple[int, ...] | RandomOrder | OrderOfSeed  # which task is live in each segment
    segment_length: Duration  # steps or episodes per segment
    boundaries_known: bool  # whether the agent observes task switches (semi-continual) or not (continual)
    truncate_on_switch: bool = False  # whether a switch in the middle of an episode truncates it

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise UserError("a stream needs at least one segment")
        if self.segment_length.count < 1:
            unit = type(self.segment_length).__name__[:-1].lower()
            raise UserError(f"a segment must last at least one {unit}; got {self.segment_length.count}")
        if isinstance(self.order, OrderOfSeed) and len({len(row) for row in self.order.rows}) > 1:
            raise UserError("all seeds need the same number of segments")
        orders = self.order.rows if isinstance(self.order, OrderOfSeed) else (self.shared_order,)
        strange = [task for row in orders for task in row if task is not None and not 0 <= task < self.num_tasks]
        if strange:
            raise UserError(f"a stream of {self.num_tasks} tasks cannot visit task {strange[0]}")

    @property
    def num_tasks(self) -> int:
        return int(np.shape(jax.tree.leaves(self.tasks)[0])[0])

    @property
    def segments(self) -> int:
        return len(self.order) if isinstance(self.order, tuple) else self.order.segments

    @property
    def shared_order(self) -> list[int | None]:
        """The task of each segment; None if each lane has its own."""
        return list(self.order) if isinstance(self.order, tuple) else [None] * self.segments

    def windows(self, window: int) -> int:
        """The number of windows of a life: episodes, or windows of `window` steps, the last of a segment may be shorter."""
        length = self.segment_length.count
        return self.segments * (-(-length // window) if isinstance(self.segment_length, Steps) else length)

    def ends(self, window: int) -> list[int]:
        """The number of steps, or episodes, at the end of each window."""
        length = self.segment_length.count
        within = [min(end, length) for end in range(window, length + window, window)]
        return [segment * length + end for segment in range(self.segments) for end in within]

    def shortened(self, segments: int, segment_length: int) -> Stream:
        """The same stream with fewer or shorter segments."""
        order = self.order[:segments] if isinstance(self.order, tuple) else self.order.first(segments)
        return dataclasses.replace(
            self, order=order, segment_length=dataclasses.replace(self.segment_length, count=segment_length)
        )

    def task_id(self, segment: Array, key: Key) -> Array:
        """The index of the task in a segment, for the lane with this `task_key`. After the last segment, its task stays."""
        position = jnp.minimum(segment, self.segments - 1)
        if not isinstance(self.order, tuple):
            return self.order.task_id(position, key, self.num_tasks)
        return jnp.asarray(self.order, jnp.int32)[position]

    def task_key(self, of_seed: Key, drawn: Key) -> Key:
        """The key that decides a lane's tasks: that of its seed where the seed's order is given, else one to draw with."""
        return of_seed if isinstance(self.order, OrderOfSeed) else drawn

    def task_at(self, time: int) -> int:
        """The index of the task at a time, outside of compiled code. `time` counts steps or episodes, as `segment_length` does."""
        if not isinstance(self.order, tuple):
            raise TypeError("each lane has its own order")
        return self.order[min(time // self.segment_length.count, self.segments - 1)]

    def task(self, segment: Array, key: Key) -> Task:
        """The task in a segment."""
        number = self.task_id(segment, key)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], self.tasks)


def cyclic(num_tasks: int, segments: int) -> tuple[int, ...]:
    """Tasks in cyclic order: 0, 1, …, n − 1, 0, …"""
    return tuple(segment % num_tasks for segment in range(segments))


@dataclass(frozen=True)
class Schedule:
    """A stream for a Gymnasium environment, and how the environment changes.

    Times count steps or episodes, as the stream does.
    """

    stream: Stream
    """which task is live when; it never truncates, because only the environment pool can start another episode"""
    names: tuple[str, ...]
    """names of the tasks"""
    truncate_on_switch: bool = False
    """whether a switch to another task truncates the episode"""
    environments: bool = False
    """whether each task has its own environment; otherwise there is one environment"""
    change: Change | None = None
    value: Callable[[int], Any] = lambda _: None
    """time -> the value of the parameter"""

    @property
    def order(self) -> tuple[int, ...]:
        """The task of each segment."""
        assert isinstance(self.stream.order, tuple)
        return self.stream.order

    @property
    def segment_length(self) -> Duration:
        return self.stream.segment_length

    @property
    def duration(self) -> int:
        """Length of a life, in steps or episodes."""
        return self.stream.segments * self.segment_length.count

    @property
    def by_steps(self) -> bool:
        return isinstance(self.segment_length, Steps)

    def task(self, time: int) -> int:
        """The index of the task at a time."""
        return self.stream.task_at(time)


@dataclass(frozen=True)
class Stationary:
    """A stationary environment."""

    steps: int | None = None
    episodes: int | None = None

    def schedule(self, environments: Sequence[str]) -> Schedule:
        _only_one(environments)
        return Schedule(_numbered(1, (0,), _duration(self.steps, self.episodes)), tuple(environments))


@dataclass(frozen=True)
class Drift:
    """A parameter changes gradually, with every step (or every episode). The agent does not observe it.

    `change(env, value)` sets the parameter. It changes linearly from `start` to `end`, unless `path` is given: `path` maps the
    elapsed fraction of the life to the fraction of the distance from `start` to `end`, both between 0 and 1.
    """

    change: Change
    start: float
    end: float
    steps: int | None = None
    episodes: int | None = None
    path: Callable[[float], float] = float

    def __post_init__(self) -> None:
        if not (_is_number(self.start) and _is_number(self.end)):
            raise UserError(f"a parameter cannot drift from {self.start!r:.40} to {self.end!r:.40}")
        _check_function("change", self.change)
        _check_function("path", self.path)

    def schedule(self, environments: Sequence[str]) -> Schedule:
        _only_one(environments)
        duration = _duration(self.steps, self.episodes)

        def value(time: int) -> float:
            share = self.path(min(time / max(duration.count - 1, 1), 1.0))
            if not _is_number(share):
                raise UserError(f"path must return a number between 0 and 1; it returned {share!r:.40}")
            return self.start + share * (self.end - self.start)

        return Schedule(_numbered(1, (0,), duration), tuple(environments), change=self.change, value=value)


@dataclass(frozen=True)
class Switches:
    """Abrupt switches between tasks: values of a parameter, or several environments.

    With `change` and `values` there is one environment, and `change(env, value)` sets its parameter to each value in turn. Without
    them, `live` must be given several environments.
    """

    change: Change | None = None
    values: Sequence[Any] = ()
    every: int | Episodes = 10_000
    """steps between two switches; or `Episodes(n)`"""
    segments: int | None = None
    """number of segments, each with one task; default: two per task, or the length of `order`"""
    order: str | Sequence[int] = CYCLIC
    """cyclic; random (drawn once, the same for all seeds, and never the same task twice in a row); or the indices of the tasks"""
    boundaries_known: bool = False
    """whether agents observe task switches"""
    truncate_on_switch: bool | None = None
    """whether a switch truncates the episode; default: only a switch to another environment does"""

    def __post_init__(self) -> None:
        if not _is_list(self.values):
            raise UserError(f"values must be a list of values; got {self.values!r:.40}")
        if self.change is not None:
            _check_function("change", self.change)
        for name, flag in (
            ("boundaries_known", self.boundaries_known),
            ("truncate_on_switch", self.truncate_on_switch),
        ):
            if not isinstance(flag, bool | np.bool_) and (name == "boundaries_known" or flag is not None):
                raise UserError(f"{name} must be True or False; got {flag!r:.40}")
        if self.segments is not None and not (_is_integer(self.segments) and self.segments <= MAX_SEGMENTS):
            raise UserError(f"segments must be an integer, at most {MAX_SEGMENTS:,}; got {self.segments!r:.40}")
        if (self.change is None) != (not len(self.values)):
            raise UserError("to switch a parameter give both: change, a function (env, value), and values")

    def schedule(self, environments: Sequence[str]) -> Schedule:
        if self.change is not None:
            _only_one(environments)
        elif len(environments) < 2:
            raise UserError("Switches needs something to switch: give change and values, or several environments")
        names = [str(value) for value in self.values] if self.change else list(environments)
        segment_length = self.every if isinstance(self.every, Episodes) else Steps(self.every)
        _check(segment_length)
        stream = _numbered(len(names), self._order(len(names)), segment_length, self.boundaries_known)
        elsewhere = self.change is None
        if elsewhere and self.truncate_on_switch is False:
            raise UserError("an episode cannot continue in another environment: omit truncate_on_switch")

        values = tuple(self.values)  # the same objects at every call
        return Schedule(
            stream,
            tuple(names),
            truncate_on_switch=elsewhere or bool(self.truncate_on_switch),
            environments=elsewhere,
            change=self.change,
            value=lambda time: values[stream.task_at(time)] if values else None,
        )

    def _order(self, tasks: int) -> tuple[int, ...]:
        if not isinstance(self.order, str):
            if not _is_list(self.order) or not all(map(_is_integer, self.order)):
                raise UserError(f"order must be cyclic, random or a list of tasks, as integers; got {self.order!r:.40}")
            order = tuple(int(task) for task in self.order)
            strange = [task for task in order if not 0 <= task < tasks]
            if strange:
                raise UserError(f"with {tasks} tasks, numbered from 0, order cannot name task {strange[0]}")
            if self.segments is not None and self.segments != len(order):
                raise UserError(f"order lists {len(order)} tasks, but segments is {self.segments}: omit one of them")
            segments = len(order)
        elif self.order not in (CYCLIC, RANDOM):
            raise unknown("order of tasks", self.order, (CYCLIC, RANDOM))
        else:
            segments = 2 * tasks if self.segments is None else self.segments
            order = cyclic(tasks, segments) if self.order == CYCLIC else _shuffled(tasks, segments)
        if segments < 1:
            raise UserError(f"a stream needs at least one segment; got {segments}")
        return order


def _numbered(tasks: int, order: tuple[int, ...], segment_length: Duration, boundaries_known: bool = False) -> Stream:
    """A stream whose tasks are their own indices."""
    return Stream(np.arange(tasks, dtype=np.int32), order, segment_length, boundaries_known)


def _shuffled(tasks: int, segments: int) -> tuple[int, ...]:
    rng = np.random.default_rng(0)
    order = [int(rng.integers(tasks))]
    while len(order) < segments:
        order.append((order[-1] + int(rng.integers(1, tasks))) % tasks if tasks > 1 else 0)
    return tuple(order)


def _duration(steps: int | None, episodes: int | None) -> Duration:
    if (steps is None) == (episodes is None):
        raise UserError("give the length of the stream: either steps=… or episodes=…")
    duration = Steps(steps) if steps is not None else Episodes(episodes or 0)
    _check(duration)
    return duration


def _check(duration: Duration) -> None:
    if not _is_integer(duration.count) or duration.count < 1:
        unit = type(duration).__name__.lower()
        raise UserError(f"the number of {unit} must be an integer, at least 1; got {duration.count!r:.40}")


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    is_real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_real and bool(abs(value) <= sys.float_info.max)


def _check_function(name: str, function: Any) -> None:
    if not callable(function):
        raise UserError(f"{name} must be a function; got {function!r:.40}")


def _only_one(environments: Sequence[str]) -> None:
    if len(environments) > 1:
        raise UserError("for several environments, use Switches(every=…) without change and values")
