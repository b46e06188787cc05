"""Values and visits of a Markov reward process by linear solve, in double precision."""

from __future__ import annotations

import numpy as np
import scipy

from remanence.core.errors import UserError


def state_values(transitions: np.ndarray, rewards: np.ndarray, discount: float) -> np.ndarray:
    """The value function.

        v = (I − γ P)⁻¹ r                                          (paper, Theorem 3)

    Args:
        transitions: [states, states] P; rows of terminal states are zero.
        rewards: [..., states] expected reward on leaving each state; leading axes are separate tasks.
    Returns: [..., states].
    """
    system = np.eye(len(transitions)) - discount * transitions
    return np.linalg.solve(system, np.asarray(rewards, np.float64).T).T


def expected_visits(transitions: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How often each state is visited in an episode, on average: n = start (I − P)⁻¹.

    Args: transitions: [states, states], zero rows for terminal states.  start: [states] probabilities.
    Returns: [states].
    """
    return np.linalg.solve((np.eye(len(transitions)) - transitions).T, np.asarray(start, np.float64))


def stationary_distribution(transitions: np.ndarray) -> np.ndarray:
    """The stationary distribution: d = d P, Σ d = 1. Transient states have 0.

    Args: transitions: [states, states] P, with rows that sum to 1.
    Returns: [states].
    """
    recurrent = _closed_classes(transitions)
    if len(recurrent) > 1:
        shown = " and ".join(str(members[:6].tolist()) for members in recurrent[:2])
        raise UserError(
            f"P has no unique stationary distribution: the states {shown} are {len(recurrent)} recurrent classes; "
            "a chain must have only one"
        )
    (members,) = recurrent
    chain = transitions[np.ix_(members, members)]
    system = np.vstack([chain.T - np.eye(len(members)), np.ones(len(members))])
    shares = np.linalg.lstsq(system, np.append(np.zeros(len(members)), 1.0), rcond=None)[0]
    visits = np.zeros(len(transitions))
    visits[members] = np.maximum(shares, 0.0)  # least squares may leave −1e-17
    return visits / visits.sum()


def _closed_classes(transitions: np.ndarray) -> list[np.ndarray]:
    """The recurrent classes: groups of states that reach each other and nothing else."""
    count, label = scipy.sparse.csgraph.connected_components(transitions > 0, directed=True, connection="strong")
    leaves = {int(label[i]) for i, j in np.argwhere(transitions > 0) if label[i] != label[j]}
    return [np.flatnonzero(label == group) for group in range(count) if group not in leaves]
