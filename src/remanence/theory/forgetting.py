"""How soon TD forgets, and error bounds of TD and PT-TD on a new task (paper, Theorems 7 and 8).

Both theorems follow TD along its mean path, v ← v + α D (r + γ P v − v) with α = (1 − γ) / 4, whose error contracts:

    ‖v_{t+k} − v_τ‖² ≤ C^k ‖v_t − v_τ‖²,   C = exp(−(1 − γ)² ω / 4),

where ω is the smallest eigenvalue of the feature covariance Φᵀ D Φ: for tables, the smallest d(s). The printed proof of Theorem 7
takes exp(−(1 − γ²) / 4), as if ω were 1, and bounds the distance to the old task by Δ (1 − C^k); what follows from the
triangle inequality is Δ (1 − C^{k/2})². Here the corrected form is the default; the printed one is an option.
"""

from __future__ import annotations

import numpy as np

from remanence.theory.moments import learning_curve
from remanence.theory.permanent import common_values
from remanence.theory.process import RewardProcess


def mean_path_step_size(discount: float) -> float:
    """The step size for which the contraction is proved."""
    return (1.0 - discount) / 4.0


def contraction(process: RewardProcess, printed: bool = False) -> float:
    """C, an upper bound on the factor of the squared error per step; 1 if some state is never visited."""
    if printed:
        return float(np.exp(-(1.0 - process.discount**2) / 4.0))
    return float(np.exp(-((1.0 - process.discount) ** 2) * process.visits.min() / 4.0))


def task_distances(process: RewardProcess) -> np.ndarray:
    """[tasks i] E_τ ‖v_τ − v_i‖²: the mean squared distance of the next task from task i."""
    apart = ((process.values[:, None] - process.values[None]) ** 2).sum(axis=-1)
    return process.expect(apart)


def retention_errors(process: RewardProcess, permanent: np.ndarray) -> np.ndarray:
    """[tasks i] D_i = ‖V^P − v_i‖²: the error of the permanent estimate on task i."""
    return ((permanent - process.values) ** 2).sum(axis=-1)


def forgetting_times(process: RewardProcess, permanent: np.ndarray | None = None, printed: bool = False) -> np.ndarray:
    """[tasks i] k_i: after this many steps of the next task, V^P is closer to v_i than TD's estimate, which started at v_i.

        k_i = 2 log(1 − √(D_i / E_τ Δ_{τ,i})) / log C      k_0 = max_i k_i       (Theorem 7, corrected)
        k_i = log(1 − D_i / E_τ Δ_{τ,i}) / log C                                (as printed)

    Infinite where D_i ≥ E_τ Δ_{τ,i}: the permanent estimate is too far from task i, and the theorem says nothing.

    Args: permanent: [states] V^P; its fixed point if not given.
    """
    permanent = common_values(process) if permanent is None else permanent
    with np.errstate(divide="ignore", invalid="ignore"):
        share = retention_errors(process, permanent) / task_distances(process)
        left = 1.0 - share if printed else (1.0 - np.sqrt(share)) ** 2
        times = np.log(left) / np.log(contraction(process, printed))
    return np.where(share < 1.0, times, np.inf)


def exact_forgetting_times(
    process: RewardProcess,
    permanent: np.ndarray | None = None,
    step_size: float | None = None,
    horizon: int = 1000,
    samples: int = 1,
    mean_path: bool = False,
) -> np.ndarray:
    """[tasks i] the smallest k from which E_τ E‖v_{t+k} − v_i‖² > D_i holds up to the horizon; infinite if it does not.

    The error is that of the exact learning curve (Theorem 9), or of the mean path the bounds are about.
    """
    permanent = common_values(process) if permanent is None else permanent
    step_size = mean_path_step_size(process.discount) if step_size is None else step_size
    curve = learning_curve(process, step_size, horizon, samples, start=process.values)  # [τ, i, k, states]
    variance = 0.0 if mean_path else curve.variance
    errors = (variance + (curve.mean - process.values[None, :, None]) ** 2).sum(axis=-1)
    forgotten = process.expect(errors) > retention_errors(process, permanent)[:, None]  # [i, k]
    held_back = np.where(forgotten, -1, np.arange(horizon + 1)).max(axis=1)
    return np.where(held_back < horizon, held_back + 1.0, np.inf)


def error_bounds(
    process: RewardProcess, steps: np.ndarray, permanent: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Upper bounds on E_τ ‖v_τ − v_{t+k}‖² of the mean path, for each step k of a new task (Theorem 8).

        TD, from v_i:       C^k E_τ ‖v_τ − v_i‖²
        PT-TD, from V^P:    C^k E_τ ‖v_τ − V^P‖²

    At the fixed point of V^P the second is the lower for every i and every k.

    Returns: [tasks i, steps] and [steps].
    """
    permanent = common_values(process) if permanent is None else permanent
    shrunk = contraction(process) ** np.asarray(steps)
    return task_distances(process)[:, None] * shrunk, process.expect(retention_errors(process, permanent)) * shrunk
