"""The equations, one small pure function each. `docs/equations.md` lists where each stands in the paper and in the tests."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def td_target(reward: Array, discount: Array, next_value: Array) -> Array:
    """What one more step says the value is.

        y = R_{t+1} + γ v(S_{t+1})                                (paper, §2; Algorithm 4, line 10, before Q^P is taken away)

    For PT agents v = V^P + V^T; for control v is the value of the best action. `discount` is γ, and 0 where the episode truly
    ended. All arguments have one shape: [] or [batch].
    """
    return reward + discount * next_value


def td_error(value: Array, reward: Array, discount: Array, next_value: Array) -> Array:
    """How far the estimate is from what one more step says.

        δ_t = R_{t+1} + γ v(S_{t+1}) − v(S_t)                     (paper, §2; with v = V^P + V^T in Eq. 5)

    `discount` is γ, and 0 where the episode truly ended. All arguments: [].
    """
    return td_target(reward, discount, next_value) - value


def transient_loss(transient: Array, permanent: Array, target: Array, valid: Array) -> Array:
    """The squared TD error of V^P + V^T, a mean over the batch. Only V^T has a gradient.

        ½ ∇_{w^T} mean (y − V^P(S_j) − V^T(S_j))²  =  − mean δ_j ∇ V^T(S_j)        (paper, Eq. 5, App. A; Algorithm 4, lines 10, 11)

    Samples that are not `valid` count as if their error were 0.

    Args: transient, permanent: V^T and V^P of the sampled states (of the actions taken, in control). target: y. All: [batch].
    """
    error = jax.lax.stop_gradient(target) - jax.lax.stop_gradient(permanent) - transient
    return jnp.mean(jnp.where(valid, error, 0.0) ** 2)


def permanent_error(target: Array, permanent: Array) -> Array:
    """How far the permanent value is from what both parts knew together when consolidation began.

        V^PT(S_k) − V^P_k(S_k)                                     (paper, Eq. 4; Algorithm 1, line 7)

    `target` is V^P_old(S_k) + V^T(S_k), frozen when consolidation begins, while V^P_k moves as the buffer is read in
    order. All arguments have one shape: [] or [batch].
    """
    return target - permanent


def permanent_loss(
    permanent: Array, stored: Array, transient: Array, valid: Array, share: float | Array = 1.0
) -> Array:
    """The squared error of V^P, a mean over the batch. Only V^P has a gradient.

        ŷ = V^P_stored(S_j) + a V^T(S_j)                          (a = 1 in the paper)
        ½ ∇_{w^P} mean (ŷ − V^P(S_j))²  =  − mean (ŷ − V^P(S_j)) ∇ V^P(S_j)        (paper, Eq. 4; Algorithm 4, lines 15, 16)

    Samples that are not `valid` count as if their error were 0.

    Args: permanent: V^P as it is now. stored: V^P when the state was visited. transient: V^T. All: [batch]. share: a, [].
    """
    target = jax.lax.stop_gradient(absorbed(stored, transient, share))
    return jnp.mean(jnp.where(valid, permanent_error(target, permanent), 0.0) ** 2)


def absorbed(permanent: Array, transient: Array, share: float | Array) -> Array:
    """V^P after it has absorbed a share of V^T.

    V^P + a V^T             (not in the paper; a ≤ 1 − λ, see `agents/shares.py`)
    """
    return permanent + share * transient


def decayed(transient: Array, decay: float | Array) -> Array:
    """What is left of the transient part after consolidation.

    w^T ← λ w^T               (paper, Algorithm 2, line 9; Algorithm 4, line 17; λ = 0 is the reset of Algorithm 1)
    """
    return decay * transient
