"""Exact quantities of Markov processes. Imports no agent."""

from remanence.theory.decision_process import optimal_values
from remanence.theory.reward_process import expected_visits, state_values

__all__ = ["expected_visits", "optimal_values", "state_values"]
