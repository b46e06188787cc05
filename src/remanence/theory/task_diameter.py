"""The process of the paper's task-diameter experiment (App. C.2): seven tasks, all at the same distance from each other."""

from __future__ import annotations

import math

import numpy as np

from remanence.core.errors import UserError
from remanence.theory.process import RewardProcess

DISCOUNT = 0.9  # as in the other prediction tasks; the appendix gives none
REWARD_NOISE = 0.1  # standard deviation
PRINTED_TRANSITIONS = np.array(
    [
        [0.18, 0.19, 0.08, 0.16, 0.10, 0.11, 0.18],
        [0.04, 0.05, 0.01, 0.00, 0.40, 0.00, 0.51],
        [0.00, 0.20, 0.00, 0.05, 0.28, 0.06, 0.41],
        [0.17, 0.14, 0.09, 0.26, 0.15, 0.19, 0.01],
        [0.16, 0.16, 0.16, 0.24, 0.17, 0.00, 0.11],
        [0.25, 0.02, 0.24, 0.24, 0.08, 0.05, 0.11],
        [0.00, 0.25, 0.19, 0.44, 0.05, 0.00, 0.07],
    ]
)
# Printed with two digits, rows 1 and 3 sum to 1.01 and row 5 to 0.99.
TRANSITIONS = PRINTED_TRANSITIONS / PRINTED_TRANSITIONS.sum(axis=1, keepdims=True)


def equidistant_values(diameter: float, states: int = 7, seed: int = 0) -> np.ndarray:
    """[states tasks, states] value functions at equal distances from each other: a randomly rotated regular simplex.

    Its center is drawn from N(0, I), the same for all diameters. Forgetting everything is costly because the center is not the
    origin; the appendix does not say how far away it is.
    """
    if not (math.isfinite(diameter) and diameter > 0):
        raise UserError(f"the distance between tasks must be a positive number; got {diameter}")
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=states)
    rotation, _ = np.linalg.qr(rng.normal(size=(states, states)))
    corners = np.eye(states) - 1 / states  # at distance √2 from each other, around the origin
    return centre + diameter / math.sqrt(2) * corners @ rotation.T


def task_diameter_process(diameter: float) -> RewardProcess:
    """Rewards that make these the true values: r_τ = (I − γ P) v_τ, with noise."""
    rewards = equidistant_values(diameter) @ (np.eye(len(TRANSITIONS)) - DISCOUNT * TRANSITIONS).T
    return RewardProcess(TRANSITIONS, rewards, DISCOUNT, variance=REWARD_NOISE**2)
