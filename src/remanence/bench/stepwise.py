"""An ordinary script: one seed at a time, one step at a time, in NumPy and Python.

The engine is compared with it, so it is written like a research script: an environment with `reset` and `step`, an agent that
learns from each transition, an evaluation after each episode. Two styles differ only in how weights are stored and actions
drawn: `USUAL` has one-hot features and dot products, `LEAN` plain lists of floats.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from remanence.streams import Stream
from remanence.worlds import CornerGrid
from remanence.worlds.true_values import Truth


class Grid:
    """The corner grid as an object: cells are numbered row by row; entering a corner ends the episode."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.corners = {(0, 0): 0, (0, size - 1): 1, (size - 1, 0): 2, (size - 1, size - 1): 3}
        self.rewards = [0.0, 0.0, 0.0, 0.0]
        self.reset()

    def reset(self) -> int:
        self.row = self.column = self.size // 2
        return self.row * self.size + self.column

    def step(self, action: int) -> tuple[int, float, bool]:
        """Moves up, down, left or right; returns the next state, the reward, and whether the episode ended."""
        if action == 0:
            self.row = max(self.row - 1, 0)
        elif action == 1:
            self.row = min(self.row + 1, self.size - 1)
        elif action == 2:
            self.column = max(self.column - 1, 0)
        else:
            self.column = min(self.column + 1, self.size - 1)
        corner = self.corners.get((self.row, self.column))
        reward = 0.0 if corner is None else self.rewards[corner]
        return self.row * self.size + self.column, reward, corner is not None


class Weights(Protocol):
    """A value for every state."""

    def __getitem__(self, state: int, /) -> float: ...

    def add_scaled_gradient(self, state: int, amount: float) -> None: ...

    def plus(self, other: Weights) -> Weights:
        """The current sum of two value functions."""
        ...

    def table(self) -> np.ndarray: ...


class OneHot:
    """Linear function approximation on one-hot features, as in scripts that also support other features."""

    def __init__(self, values: np.ndarray) -> None:
        self.weights = values
        self.features = np.eye(len(values))

    def __getitem__(self, state: int, /) -> float:
        return np.dot(self.weights, self.features[state])

    def add_scaled_gradient(self, state: int, amount: float) -> None:
        self.weights += amount * self.features[state]

    def plus(self, other: Weights) -> OneHot:
        return OneHot(self.weights + other.table())

    def table(self) -> np.ndarray:
        return self.weights


class PlainList(list):
    """A plain list: the fastest table in Python, where indexing an array takes several times as long."""

    def add_scaled_gradient(self, state: int, amount: float) -> None:
        self[state] += amount

    def plus(self, other: Weights) -> PlainList:
        return PlainList((self.table() + other.table()).tolist())

    def table(self) -> np.ndarray:
        return np.array(self)


class Style(NamedTuple):
    """How weights are stored and actions drawn."""

    blank: Callable[[int], Weights]  # (states) -> weights, all zero
    policy: Callable[[int], Callable[[], int]]  # (seed) -> a function that draws random actions


def _numpy_policy(seed: int) -> Callable[[], int]:
    rng = np.random.default_rng(seed)
    return lambda: rng.integers(4)  # type: ignore[return-value]


def _plain_policy(seed: int) -> Callable[[], int]:
    draw = random.Random(seed).random
    return lambda: int(4 * draw())


USUAL = Style(lambda states: OneHot(np.zeros(states)), _numpy_policy)
LEAN = Style(lambda states: PlainList([0.0] * states), _plain_policy)


class TD:
    """TD(0)."""

    def __init__(self, style: Style, states: int, lr: float) -> None:
        self.weights, self.lr = style.blank(states), lr

    def learn(self, state: int, reward: float, discount: float, next_state: int) -> None:
        v = self.weights
        v.add_scaled_gradient(state, self.lr * (reward + discount * v[next_state] - v[state]))

    def consolidate(self) -> None:
        """Nothing to do."""

    def beliefs(self) -> tuple[np.ndarray, np.ndarray]:
        """The current values, and those that are kept when the task changes: the same."""
        table = self.weights.table()
        return table, table


class PTTD:
    """PT-TD (paper, Algorithm 1)."""

    def __init__(self, style: Style, states: int, permanent_lr: float, transient_lr: float) -> None:
        self.style, self.states = style, states
        self.permanent, self.transient = style.blank(states), style.blank(states)
        self.permanent_lr, self.transient_lr = permanent_lr, transient_lr
        self.visited: list[int] = []

    def learn(self, state: int, reward: float, discount: float, next_state: int) -> None:
        p, t = self.permanent, self.transient
        error = reward + discount * (p[next_state] + t[next_state]) - (p[state] + t[state])
        t.add_scaled_gradient(state, self.transient_lr * error)
        self.visited.append(state)

    def consolidate(self) -> None:
        """One pass over the visited states in order, towards the sum of both parts; then the transient part is reset."""
        target, p = self.permanent.plus(self.transient), self.permanent
        for state in self.visited:
            p.add_scaled_gradient(state, self.permanent_lr * (target[state] - p[state]))
        self.transient = self.style.blank(self.states)
        self.visited = []

    def beliefs(self) -> tuple[np.ndarray, np.ndarray]:
        permanent = self.permanent.table()
        return permanent + self.transient.table(), permanent


class Lived(NamedTuple):
    """The results of one life."""

    steps: int
    current: np.ndarray  # [episodes] RMSVE on the current task
    others: np.ndarray  # [episodes] mean RMSVE on the other tasks


def live(world: CornerGrid, stream: Stream, truth: Truth, agent: TD | PTTD, policy: Callable[[], int]) -> Lived:
    """One life, with both errors of the paper's Fig. 2 measured after every episode."""
    grid, steps = Grid(world.size), 0
    current, others = [], []
    assert isinstance(stream.order, tuple)
    for segment, task in enumerate(stream.order):
        if segment > 0:
            agent.consolidate()
        grid.rewards = stream.tasks[task].tolist()
        truth_now, truth_else = truth.values[task], np.delete(truth.values, task, axis=0)
        for _ in range(stream.segment_length.count):
            state, ended = grid.reset(), False
            while not ended:
                next_state, reward, ended = grid.step(policy())
                agent.learn(state, reward, 0.0 if ended else world.discount, next_state)
                state = next_state
                steps += 1
            now, retained = agent.beliefs()
            current.append(np.sqrt(np.dot(truth.weights, (now - truth_now) ** 2)))
            others.append(np.sqrt(((retained - truth_else) ** 2).mean(axis=1)).mean())
    return Lived(steps, np.array(current), np.array(others))
