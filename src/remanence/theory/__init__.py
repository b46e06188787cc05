"""Exact quantities of Markov processes and of the agents that learn in them. Imports no agent."""

from remanence.theory.decision_process import optimal_values
from remanence.theory.forgetting import (
    contraction,
    error_bounds,
    exact_forgetting_times,
    forgetting_times,
    retention_errors,
    task_distances,
)
from remanence.theory.lifetimes import BestLifetime, StreamMoments, best_lifetime, stream_moments
from remanence.theory.linear import linear_fixed_point, linear_transient_fixed_point, projection
from remanence.theory.moments import Curve, Response, learning_curve, response
from remanence.theory.permanent import common_values, jumpstart_loss, permanent_moments
from remanence.theory.process import RewardProcess, load_process
from remanence.theory.reward_process import expected_visits, state_values, stationary_distribution
from remanence.theory.shares import Shares, inflation, lifetime, mean_lifetime, share_left
from remanence.theory.step_sizes import best_schedule, best_step_size, stability_limit, steady_state
from remanence.theory.transient import ModifiedProcess, modified_process, transient_fixed_point, transient_operator

__all__ = [
    "BestLifetime",
    "Curve",
    "ModifiedProcess",
    "Response",
    "RewardProcess",
    "Shares",
    "StreamMoments",
    "best_lifetime",
    "best_schedule",
    "best_step_size",
    "common_values",
    "contraction",
    "error_bounds",
    "exact_forgetting_times",
    "expected_visits",
    "forgetting_times",
    "inflation",
    "jumpstart_loss",
    "learning_curve",
    "lifetime",
    "linear_fixed_point",
    "linear_transient_fixed_point",
    "load_process",
    "mean_lifetime",
    "modified_process",
    "optimal_values",
    "permanent_moments",
    "projection",
    "response",
    "retention_errors",
    "share_left",
    "stability_limit",
    "state_values",
    "stationary_distribution",
    "steady_state",
    "stream_moments",
    "task_distances",
    "transient_fixed_point",
    "transient_operator",
]
