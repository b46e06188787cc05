"""Values and visits of a Markov reward process by linear solve, in double precision."""

from __future__ import annotations

import numpy as np


def state_values(transitions: np.ndarray, rewards: np.ndarray, discount: float) -> np.ndarray:
    """The value function.

        v = (I − γ P)⁻¹ r                                          (paper, Theorem 3)

    Args:
        transitions: [states, states] P; rows of states where the process ends are zero.
        rewards: [..., states] expected reward on leaving each state; leading axes are separate tasks.
    Returns: [..., states].
    """
    system = np.eye(len(transitions)) - discount * transitions
    return np.linalg.solve(system, np.asarray(rewards, np.float64).T).T


def expected_visits(transitions: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How often each state is visited in an episode, on average: n = start (I − P)⁻¹.

    Args: transitions: [states, states], zero rows where the process ends.  start: [states] probabilities.
    Returns: [states].
    """
    return np.linalg.solve((np.eye(len(transitions)) - transitions).T, np.asarray(start, np.float64))
