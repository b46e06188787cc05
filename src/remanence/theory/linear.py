"""Theorems 1 to 3 and 5 with linear features, as far as they carry over.

Values are Φ w. TD's expected update is w ← w + α Φᵀ D (r + γ P Φ w − Φ w): its fixed point is not v but the projected one,
Φ w* = Π (r + γ P Φ w*), where Π projects on the features in the norm weighted by d.

* Theorem 1 holds unchanged: the proof does not depend on Φ.
* Theorem 2: Π T is a contraction with factor γ in the norm weighted by the stationary distribution. In the maximum norm, and
  for other sampling distributions, it is not.
* Theorem 3: w^T = w* − w^P, if both parts use the same features. The sum is TD's fixed point; it is v only if v lies in the span.
* Theorem 5: E_τ[w*_τ] for constant step sizes per feature, under the same assumptions.
* Theorems 7 and 8 need ω, the smallest eigenvalue of Φᵀ D Φ, and speak of ‖w − w*‖. Theorem 9 carries over (`moments.py`).
"""

from __future__ import annotations

import numpy as np

from remanence.core.errors import UserError


def check_features(features: np.ndarray, num_states: int) -> np.ndarray:
    """Checks features [states, features]; raises a `UserError` unless the columns are independent."""
    features = np.asarray(features, np.float64)
    if features.ndim != 2 or len(features) != num_states:
        raise UserError(f"features must be [{num_states}, features], a row per state; their shape is {features.shape}")
    rank = int(np.linalg.matrix_rank(features))
    if rank < features.shape[1]:
        raise UserError(
            f"features must be independent: {features.shape[1]} columns have rank {rank}; leave {features.shape[1] - rank} out"
        )
    return features


def projection(features: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[states, states] Π = Φ (Φᵀ D Φ)⁻¹ Φᵀ D."""
    weighted = features.T * visits
    return features @ np.linalg.solve(weighted @ features, weighted)


def linear_fixed_point(
    transitions: np.ndarray, rewards: np.ndarray, discount: float, features: np.ndarray, visits: np.ndarray
) -> np.ndarray:
    """[features] w* with Φᵀ D (r + γ P Φ w* − Φ w*) = 0."""
    weighted = features.T * visits
    return np.linalg.solve(weighted @ (features - discount * transitions @ features), weighted @ rewards)


def linear_transient_fixed_point(
    transitions: np.ndarray,
    rewards: np.ndarray,
    discount: float,
    features: np.ndarray,
    visits: np.ndarray,
    permanent: np.ndarray,
) -> np.ndarray:
    """[features] w^T for a frozen permanent estimate given as values [states], which need not use these features.

    Solves Φᵀ D (r + γ P (V^P + Φ w) − V^P − Φ w) = 0; equals w* − w^P if V^P = Φ w^P.
    """
    surplus = rewards + discount * transitions @ permanent - permanent
    return linear_fixed_point(transitions, surplus, discount, features, visits)
