"""The transient value function while the permanent one is frozen (paper, Theorems 2 to 4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from remanence.theory.reward_process import state_values


def transient_operator(
    transitions: np.ndarray, rewards: np.ndarray, discount: float, permanent: np.ndarray, transient: np.ndarray
) -> np.ndarray:
    """The expected target of the transient update, a contraction with factor γ in the maximum norm.

        T V^T = r + γ P V^P − V^P + γ P V^T                                     (Theorem 2)

    Args: transitions [states, states].  rewards, permanent, transient: [..., states].
    """
    return rewards + (discount * (permanent + transient)) @ transitions.T - permanent


def transient_fixed_point(
    transitions: np.ndarray, rewards: np.ndarray, discount: float, permanent: np.ndarray
) -> np.ndarray:
    """The fixed point of the transient part: the true value minus the permanent part.

    V^T = (I − γ P)⁻¹ r − V^P                                               (Theorem 3)
    """
    return state_values(transitions, rewards, discount) - permanent


class ModifiedProcess(NamedTuple):
    """The reward process of Theorem 4: its states x are the transitions (s, a, s') of the original."""

    members: np.ndarray  # [transitions, 3] s, a, s'
    transitions: np.ndarray  # [transitions, transitions]
    rewards: np.ndarray  # [transitions]
    chances: np.ndarray  # [transitions] π(a | s) P(s' | s, a)

    def mean_by_state(self, values: np.ndarray, num_states: int) -> np.ndarray:
        """[states] the mean of [transitions] over the actions and next states of each state."""
        return np.bincount(self.members[:, 0], weights=self.chances * values, minlength=num_states)


def modified_process(
    transitions: np.ndarray, rewards: np.ndarray, policy: np.ndarray, discount: float, permanent: np.ndarray
) -> ModifiedProcess:
    """Builds the process whose values are the transient fixed point.

        x = (s, a, s') is followed by x' = (s', a', s'') with probability π(a' | s') P(s'' | s', a') and pays
        r̃(x) = r(s, a) + γ V^P(s') − V^P(s).

    Its value at x is r(s, a) + γ v(s') − V^P(s): it depends on a and s'. The fixed point V^T(s) is its mean over
    a and s' (the printed proof says it is the same for all a and s').

    Args: transitions [states, actions, states].  rewards [states, actions].  policy [states, actions].
    """
    members = np.argwhere(policy[:, :, None] * transitions > 0)
    s, a, following = members.T
    chances = policy[s, a] * transitions[s, a, following]
    return ModifiedProcess(
        members,
        np.where(following[:, None] == s[None, :], chances[None, :], 0.0),
        rewards[s, a] + discount * permanent[following] - permanent[s],
        chances,
    )
