"""The equations, one small pure function each. `docs/equations.md` lists where each stands in the paper and in the tests."""

from __future__ import annotations

from collections.abc import Callable

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


def n_step_return(rewards: Array, discounts: Array, last: Array) -> tuple[Array, Array, Array]:
    """What the next n steps pay, up to the end of the episode.

        G = Σ_{i<m} (Π_{j<i} γ_j) R_{t+1+i},     Γ = Π_{j<m} γ_j,     y = G + Γ v(S_{t+m})          (not in the paper; Sutton 1988)

    m is n, or the number of steps up to the first `last` one. γ_j is 0 where the episode truly ended, so nothing is bootstrapped
    there; where it was truncated, v of its last state is.

    Args: all [..., n]. Returns: G, Γ and m − 1, each [...].
    """
    begins = jnp.ones_like(discounts[..., :1])
    counts = jnp.concatenate([begins, jnp.cumprod(1.0 - last[..., :-1], axis=-1)], axis=-1)
    weights = jnp.concatenate([begins, jnp.cumprod(discounts[..., :-1], axis=-1)], axis=-1)
    paid = jnp.sum(counts * weights * rewards, axis=-1)
    return paid, jnp.prod(jnp.where(counts > 0, discounts, 1.0), axis=-1), jnp.sum(counts, -1).astype(jnp.int32) - 1


def double_value(choosing: Array, evaluating: Array) -> Array:
    """The next state's value in Double DQN: one network chooses the action, the other one evaluates it.

        v(S') = q_target(S', argmax_a q(S', a))            (not in the paper; van Hasselt et al. 2016; q = Q^P + Q^T for PT agents)

    Args: choosing, evaluating: values of the actions, [actions] each.
    """
    return evaluating[jnp.argmax(choosing)]


def dueling(value: Array, advantages: Array) -> Array:
    """Action values from the value of the state and the advantages of its actions.

        q(s, a) = v(s) + A(s, a) − mean_b A(s, b)                              (not in the paper; Wang et al. 2016)

    Args: value: [..., 1]. advantages: [..., actions].
    """
    return value + advantages - jnp.mean(advantages, axis=-1, keepdims=True)


def squared(error: Array) -> Array:
    """δ²: the paper's loss. Its gradient is 2δ."""
    return error**2


def huber(error: Array) -> Array:
    """½ δ² for |δ| ≤ 1, and |δ| − ½ beyond: its gradient is δ, cut off at ±1          (not in the paper; Mnih et al. 2015)."""
    return jnp.where(jnp.abs(error) <= 1.0, 0.5 * error**2, jnp.abs(error) - 0.5)


def transient_loss(
    transient: Array,
    permanent: Array,
    target: Array,
    valid: Array,
    loss: Callable[[Array], Array] = squared,
) -> Array:
    """The squared TD error of V^P + V^T, a mean over the batch. Only V^T has a gradient.

        ½ ∇_{w^T} mean (y − V^P(S_j) − V^T(S_j))²  =  − mean δ_j ∇ V^T(S_j)        (paper, Eq. 5, App. A; Algorithm 4, lines 10, 11)

    Samples that are not `valid` count as if their error were 0.

    Args:
        transient, permanent, target: V^T and V^P of the sampled states (of the actions taken, in control), and y, each [batch].
        loss: of the errors, [batch] -> [batch].
    """
    error = jax.lax.stop_gradient(target) - jax.lax.stop_gradient(permanent) - transient
    return jnp.mean(loss(jnp.where(valid, error, 0.0)))


def soft_copy(target: Array, weights: Array, tau: float) -> Array:
    """The target network after a copy of the share τ.

    w_target ← (1 − τ) w_target + τ w             (τ = 1 in the paper, Algorithm 4, line 12; Lillicrap et al. 2016)
    """
    return (1.0 - tau) * target + tau * weights


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
