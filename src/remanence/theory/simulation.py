"""Monte Carlo simulation of the rounds of samples, to check the exact moments."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from remanence.theory.process import RewardProcess


def simulate_rounds(
    process: RewardProcess,
    task: int,
    step_size: np.ndarray | float,
    rounds: int,
    samples: int,
    runs: int,
    seed: int,
    permanent: np.ndarray | float = 0.0,
    transient: np.ndarray | float = 0.0,
    features: np.ndarray | None = None,
    keep: Sequence[int] = (),
) -> dict[int, np.ndarray]:
    """Estimates V^P + V^T of many runs of PT-TD in one task, the permanent part frozen; with V^P = 0 this is TD from V^T.

    Args:
        step_size: one number or [rounds].
        permanent: [states] or [runs, states] (with features: weights).
        transient: the same, at the start.
        keep: rounds after which estimates are returned; default: the last.
    Returns: round -> [runs, features].
    """
    basis = np.eye(process.num_states) if features is None else np.asarray(features, np.float64)
    shape = (runs, basis.shape[1])
    frozen = np.broadcast_to(np.asarray(permanent, np.float64), shape)
    rewards = process.rewards[task]
    marks = np.array(sorted({*keep} or {rounds}))
    found = _simulate(
        np.cumsum(process.visits[task]),
        np.cumsum(process.transitions[task], axis=1),
        np.ascontiguousarray(np.broadcast_to(rewards.reshape(process.num_states, -1), (process.num_states,) * 2)),
        np.sqrt(process.variance[task]),
        process.discount,
        np.ascontiguousarray(np.broadcast_to(np.asarray(step_size, np.float64), (rounds,))),
        samples,
        np.ascontiguousarray(basis),
        np.ascontiguousarray(frozen),
        np.array(np.broadcast_to(np.asarray(transient, np.float64), shape)),
        marks,
        np.random.default_rng(seed),
    )
    return {int(mark): frozen + learned for mark, learned in zip(marks, found, strict=True)}


@numba.njit(nogil=True)
def _simulate(
    visits: np.ndarray,
    transitions: np.ndarray,
    rewards: np.ndarray,
    noise: np.ndarray,
    discount: float,
    step_sizes: np.ndarray,
    samples: int,
    basis: np.ndarray,
    permanent: np.ndarray,
    transient: np.ndarray,
    marks: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    runs, size = transient.shape
    last_state = len(visits) - 1
    recorded = np.empty((len(marks), runs, size))
    for run in range(runs):
        mark = 0
        for index in range(len(step_sizes)):
            change = np.zeros(size)
            for _ in range(samples):
                state = min(np.searchsorted(visits, rng.random(), side="right"), last_state)
                following = min(np.searchsorted(transitions[state], rng.random(), side="right"), last_state)
                reward = rewards[state, following] + noise[state] * rng.standard_normal()
                error = reward
                for i in range(size):
                    difference = discount * basis[following, i] - basis[state, i]
                    error += difference * (permanent[run, i] + transient[run, i])
                for i in range(size):
                    change[i] += basis[state, i] * error
            for i in range(size):
                transient[run, i] += step_sizes[index] * change[i]
            if mark < len(marks) and index + 1 == marks[mark]:
                recorded[mark, run] = transient[run]
                mark += 1
    return recorded
