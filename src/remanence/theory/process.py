"""Markov reward processes that share states, one per task: the setting of all theorems."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from remanence.core.archives import DAMAGED, read_arrays
from remanence.core.errors import UserError
from remanence.theory.reward_process import state_values, stationary_distribution

MAX_BYTES = 2**28  # of a file
# Values whose fourth power is still a number: second moments are compared by their squares.
MAX_VALUE = 1e60
SUM_TOLERANCE = 1e-8  # printed tables are rounded, but their rows must still add up


@dataclass(frozen=True, eq=False)
class RewardProcess:
    """Tasks over the same states, each a continuing Markov reward process, and their probabilities.

    Arguments are broadcast: one matrix for all tasks, one reward vector, one variance are enough.
    """

    transitions: np.ndarray
    """[tasks, states, states] P_π; or [states, states] if tasks share it"""
    rewards: np.ndarray
    """[tasks, states] expected on leaving a state, or [tasks, states, states] on each transition"""
    discount: float
    probabilities: Any = None
    """[tasks] probability of each task; default: uniform"""
    variance: Any = 0.0
    """[tasks, states], [states] or one number: the variance c(s) of the reward around its expectation"""

    def __post_init__(self) -> None:
        transitions, rewards = _array("P", self.transitions), np.atleast_2d(_array("r", self.rewards))
        states = transitions.shape[-1] if transitions.ndim in (2, 3) else 0
        if states == 0 or transitions.shape[-2] != states:
            raise UserError(
                f"P must be a square matrix [states, states], or one per task; its shape is {transitions.shape}"
            )
        if rewards.shape[1:] not in ((states,), (states, states)):
            raise UserError(
                f"r must be [tasks, {states}] (on leaving a state) or [tasks, {states}, {states}] (on a transition), "
                f"to fit P with {states} states; its shape is {rewards.shape}"
            )
        tasks = len(rewards)
        if tasks == 0:
            raise UserError("r must hold the rewards of at least one task")
        if transitions.ndim == 3 and len(transitions) != tasks:
            raise UserError(f"P is given for {len(transitions)} tasks, r for {tasks}: the numbers must agree")
        if not (math.isfinite(self.discount) and 0.0 <= self.discount < 1.0):
            raise UserError(f"the discount γ must be in [0, 1); got {self.discount}")
        _check_stochastic(transitions)
        probabilities = np.full(tasks, 1 / tasks) if self.probabilities is None else _array("p", self.probabilities)
        _check_probabilities(probabilities, tasks)
        variance = _array("the reward variance c", self.variance)
        if variance.shape not in ((), (states,), (tasks, states)):
            raise UserError(
                f"the reward variance c must be one number, [{states}] or [{tasks}, {states}]; its shape is {variance.shape}"
            )
        if (variance < 0).any():
            raise UserError(f"the reward variance c cannot be negative; got {variance.min():g}")
        largest = float(np.abs(rewards).max()) / (1.0 - self.discount)
        if max(largest, math.sqrt(variance.max())) > MAX_VALUE:
            raise UserError(
                f"values of this process may reach {largest:.2g}, more than {MAX_VALUE:g}: scale its rewards"
            )
        for name, array in (  # full arrays from here on
            ("transitions", np.broadcast_to(transitions, (tasks, states, states))),
            ("rewards", rewards),
            ("probabilities", probabilities),
            ("variance", np.broadcast_to(variance, (tasks, states))),
        ):
            object.__setattr__(self, name, array)

    @property
    def num_tasks(self) -> int:
        return len(self.rewards)

    @property
    def num_states(self) -> int:
        return self.transitions.shape[-1]

    @cached_property
    def expected_rewards(self) -> np.ndarray:
        """[tasks, states] r_π."""
        return self.rewards if self.rewards.ndim == 2 else (self.transitions * self.rewards).sum(axis=-1)

    @cached_property
    def values(self) -> np.ndarray:
        """[tasks, states] v_τ."""
        pairs = zip(self.transitions, self.expected_rewards, strict=True)
        return np.stack([state_values(transitions, rewards, self.discount) for transitions, rewards in pairs])

    @cached_property
    def visits(self) -> np.ndarray:
        """[tasks, states] d_τ, the stationary distribution."""
        return np.stack([stationary_distribution(transitions) for transitions in self.transitions])

    def expect(self, of_tasks: np.ndarray) -> np.ndarray:
        """E_τ: [tasks, ...] -> [...]."""
        return np.tensordot(self.probabilities, of_tasks, axes=1)


def load_process(path: Path) -> RewardProcess:
    """Reads P, r, γ, and optionally p and c, from a JSON or npz file."""
    try:
        values = _read(path)
    except FileNotFoundError as error:
        raise UserError(f"there is no file '{path}'") from error
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"'{path}' cannot be read as {path.suffix[1:]}: {error or type(error).__name__}") from error
    missing = [name for name in ("P", "r", "gamma") if name not in values]
    if missing:
        raise UserError(
            f"'{path}' lacks {', '.join(missing)}: it needs P (transitions), r (rewards per task) and gamma; "
            "p (task probabilities) and c (reward variance) are optional"
        )
    strange = sorted(set(values) - {"P", "r", "gamma", "p", "c"})
    if strange:
        raise UserError(f"'{path}' has {', '.join(strange)}, which is unknown: use P, r, gamma, p and c")
    discount = _array("gamma", values["gamma"])
    if discount.size != 1:
        raise UserError(f"gamma must be one number; its shape is {discount.shape}")
    return RewardProcess(values["P"], values["r"], float(discount.reshape(())), values.get("p"), values.get("c", 0.0))


def _read(path: Path) -> dict[str, Any]:
    if path.suffix == ".npz":
        return dict(read_arrays(path, MAX_BYTES))
    if path.suffix == ".json":
        if path.stat().st_size > MAX_BYTES:
            raise UserError(
                f"'{path}' is larger than {MAX_BYTES / 2**20:,.0f} MiB: too large for a process of this kind"
            )
        values = json.loads(path.read_text(), object_pairs_hook=_without_repetition)
        if not isinstance(values, dict):
            raise ValueError("an object with P, r and gamma is expected")
        return values
    raise UserError(f"'{path}' is neither .json nor .npz")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _array(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":  # text would be read as numbers
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{name} must be a regular array of numbers") from error
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name} must hold finite numbers; at {list(place)} it holds {array[place]}")
    return array


def _check_stochastic(transitions: np.ndarray) -> None:
    """Raises a `UserError` that names the first row that is not a distribution."""
    for place in np.ndindex(transitions.shape[:-1]):
        row = transitions[place]
        where = f"row {place[-1]} of P" + (f" of task {place[0]}" if transitions.ndim == 3 else "")
        if (row < 0).any():
            raise UserError(f"{where} holds a negative probability: {row.min():g} in column {int(row.argmin())}")
        if abs(row.sum() - 1) > SUM_TOLERANCE:
            raise UserError(f"{where} must sum to 1; it sums to {row.sum():.10g}")


def _check_probabilities(probabilities: np.ndarray, tasks: int) -> None:
    if probabilities.shape != (tasks,):
        raise UserError(f"p must give one probability for each of {tasks} tasks; its shape is {probabilities.shape}")
    if (probabilities < 0).any():
        raise UserError(
            f"the probability of task {int(probabilities.argmin())} cannot be negative; got {probabilities.min():g}"
        )
    if abs(probabilities.sum() - 1) > SUM_TOLERANCE:
        raise UserError(f"the task probabilities must sum to 1; they sum to {probabilities.sum():.10g}")
