"""Optimal values of a Markov decision process by value iteration, in double precision."""

from __future__ import annotations

import numpy as np


def optimal_values(
    transitions: np.ndarray, rewards: np.ndarray, discount: float, tolerance: float = 1e-12, max_sweeps: int = 100_000
) -> np.ndarray:
    """The optimal action values.

        q(s, a) = r(s, a) + γ Σ_s' P(s' | s, a) max_a' q(s', a')

    Iterates until no value changes by more than `tolerance`.

    Args:
        transitions: [states, actions, states] P; rows of terminal states are zero.
        rewards: [..., states, actions]; leading axes are separate tasks.
    Returns: [..., states, actions].
    """
    values = np.zeros_like(np.asarray(rewards, np.float64))
    for _ in range(max_sweeps):
        improved = rewards + discount * np.einsum("san,...n->...sa", transitions, values.max(axis=-1))
        change = np.abs(improved - values).max()
        values = improved
        if change <= tolerance:
            return values
    raise ArithmeticError(f"value iteration did not converge within {max_sweeps} sweeps")
