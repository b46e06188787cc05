"""What the permanent value function learns from task to task (paper, Theorems 5 and 6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from remanence.theory.process import RewardProcess


def common_values(process: RewardProcess) -> np.ndarray:
    """[states] E_τ[v_τ], the fixed point of the permanent update (Theorem 5)."""
    return process.expect(process.values)


def jumpstart_loss(process: RewardProcess, estimate: np.ndarray) -> np.ndarray:
    """The error of an estimate on the next task, before any data.

        J(u) = ½ E_τ ‖u − v_τ‖²                                                 (Theorem 6)

    Args: estimate: [..., states].  Returns: [...].
    """
    distances = estimate[None] - process.values.reshape(process.num_tasks, *(1,) * (estimate.ndim - 1), -1)
    return 0.5 * process.expect((distances**2).sum(axis=-1))


class Moments(NamedTuple):
    """Moments of the permanent estimate, before the first task and after each."""

    mean: np.ndarray  # [tasks met + 1, states]
    covariance: np.ndarray  # [tasks met + 1, states, states]


def permanent_moments(process: RewardProcess, step_sizes: np.ndarray, start: np.ndarray | float = 0.0) -> Moments:
    """Mean and covariance of the permanent estimate when each task is learned to convergence before consolidation.

        V^P ← V^P + α_k (v_τ − V^P),  τ drawn independently each time

    With α_k = 1/k this is the running mean of the values met: unbiased from the first task on, covariance Cov_τ(v_τ) / k.
    With a constant α the covariance tends to α / (2 − α) · Cov_τ(v_τ).

    Args: step_sizes: [tasks met], or [tasks met, states] if states are visited unequally.
    """
    centre = common_values(process)
    away = process.values - centre
    spread = process.expect(away[:, :, None] * away[:, None, :])
    mean = [np.broadcast_to(np.asarray(start, np.float64), centre.shape)]
    covariance = [np.zeros_like(spread)]
    for step in step_sizes:
        retained, taken = 1.0 - np.broadcast_to(step, centre.shape), np.broadcast_to(step, centre.shape)
        mean.append(retained * mean[-1] + taken * centre)
        covariance.append(np.outer(retained, retained) * covariance[-1] + np.outer(taken, taken) * spread)
    return Moments(np.stack(mean), np.stack(covariance))
