"""The equations, one small pure function each. `docs/equations.md` lists where each stands in the paper and in the tests."""

from __future__ import annotations

from jax import Array


def td_error(value: Array, reward: Array, discount: Array, next_value: Array) -> Array:
    """How far the estimate is from what one more step says.

        δ_t = R_{t+1} + γ v(S_{t+1}) − v(S_t)                     (paper, §2; with v = V^P + V^T in Eq. 5)

    `discount` is γ, and 0 where the episode truly ended. All arguments: [].
    """
    return reward + discount * next_value - value


def permanent_error(target: Array, permanent: Array) -> Array:
    """How far the permanent value is from what both parts knew together when consolidation began.

        V^PT(S_k) − V^P_k(S_k)                                     (paper, Eq. 4; Algorithm 1, line 7)

    `target` is V^P_old(S_k) + V^T(S_k), frozen when consolidation begins, while V^P_k moves as the buffer is read in
    order. Both arguments: [].
    """
    return target - permanent


def decayed(transient: Array, decay: float | Array) -> Array:
    """What is left of the transient part after consolidation.

    w^T ← λ w^T                                                (paper, Algorithm 2, line 9; λ = 0 is the reset of Algorithm 1)
    """
    return decay * transient
