"""Exact quantities of Markov reward processes. Imports no agent."""

from remanence.theory.reward_process import expected_visits, state_values

__all__ = ["expected_visits", "state_values"]
