"""What becomes of the two parts of a PT agent: measured at every consolidation, on the states visited since the last one.

    absorbed   ⟨V^P_new − V^P, V^T⟩ / ⟨V^T, V^T⟩      the share of V^T that V^P took over
    kept       ⟨V^T_new, V^T⟩ / ⟨V^T, V^T⟩            the share of V^T that is left
    jump       √ mean (V_new − V)²                    how far the sum V = V^P + V^T moved

absorbed + kept = 1 if nothing is forgotten; more than 1 counts a part of V^T twice. Agents without a permanent part have V^P = 0.
A life measures this only if asked (`LifeConfig.watch_parts`): it then also holds the largest reward so far and the agent's first
weights. Computing those again from their key would take memory only for a moment, but a sixth of the time to compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.base import Agent, Visited
from remanence.core.types import AgentState


class PartsStats(NamedTuple):
    """Of one lane; `absorbed` to `transient_drift` are those of the last consolidation."""

    start: Any  # the first weights of V^P and V^T
    largest_reward: Array  # [] the largest |reward| so far
    absorbed: Array  # []
    kept: Array  # []
    jump: Array  # []
    permanent_drift: Array  # [] Euclidean distance of the weights of V^P from their start, after it learned
    transient_drift: Array  # [] the same for V^T, before it decays


def begin(agent: AgentState) -> PartsStats:
    zero = jnp.float32(0)
    return PartsStats(_weights(agent), zero, zero, jnp.float32(1), zero, zero, zero)


def see_reward(parts: PartsStats, reward: Array) -> PartsStats:
    return parts._replace(largest_reward=jnp.maximum(parts.largest_reward, jnp.abs(reward)))


def at_consolidation(parts: PartsStats, agent: Agent, before: AgentState, after: AgentState) -> PartsStats:
    """Compares an agent before and after a consolidation."""
    ends = _weights(after)[0], _weights(before)[1]
    permanent_drift, transient_drift = map(_distance, ends, parts.start)
    parts = parts._replace(permanent_drift=permanent_drift, transient_drift=transient_drift)
    if agent.visited is None:
        return parts
    seen = agent.visited(before)
    (permanent, transient), (new_permanent, new_transient) = (part_values(agent, one, seen) for one in (before, after))
    size = jnp.sum(seen.weight * transient**2)

    def share(values: Array, before: Array) -> Array:
        """Of V^T; where that is 0 there is nothing to share, and the last one stays."""
        return jnp.where(size > 0, jnp.sum(seen.weight * values * transient) / jnp.where(size > 0, size, 1.0), before)

    moved = new_permanent + new_transient - permanent - transient
    return parts._replace(
        absorbed=share(new_permanent - permanent, parts.absorbed),
        kept=share(new_transient, parts.kept),
        jump=jnp.sqrt(mean(moved**2, seen)),
    )


def part_values(agent: Agent, state: AgentState, seen: Visited) -> tuple[Array, Array]:
    """V^P and V^T of visited states, each [n]; 0 and V for an agent without a permanent part."""
    values = jax.vmap(lambda obs, output: jax.tree.map(lambda v: v[output], agent.inspect(state, obs)))(
        seen.obs, seen.output
    )
    return values.get("permanent", jnp.zeros(len(seen.weight))), values.get("transient", values["value"])


def mean(values: Array, seen: Visited) -> Array:
    """Over visits; 0 if there are none."""
    return jnp.sum(seen.weight * values) / jnp.maximum(jnp.sum(seen.weight), 1.0)


def _weights(agent: AgentState) -> tuple[Any, Any]:
    """Of V^P and V^T; nothing for a part that the agent does not have."""
    return getattr(agent, "permanent", ()), getattr(agent, "transient", ())


def _distance(weights: Any, others: Any) -> Array:
    squares = [jnp.sum((a - b) ** 2) for a, b in zip(*map(jax.tree.leaves, (weights, others)), strict=True)]
    return jnp.sqrt(jnp.sum(jnp.stack([jnp.float32(0), *squares])))
