"""The final policies that a run keeps: of each agent that acts, the one with the first seed; of `live`, all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from remanence.agents.base import hypers_of
from remanence.core.frames import join_frames
from remanence.runs.jobs import Lane
from remanence.runs.plan import Plan

if TYPE_CHECKING:
    from remanence.gym.policy import Policy

FIRST_SEED = 0


def keeps_policy(lane: Lane, plan: Plan) -> bool:
    """Whether the policy of a lane is kept: it has the first seed, and its agent has weights that decide its actions."""
    if plan.spaces is not None:
        return True
    if lane.seed != FIRST_SEED:
        return False
    agent, frames = lane.config.build(plan.spec), getattr(lane.config, "frames", 1)
    obs = jnp.asarray(plan.spec.obs.zeros())
    state = jax.eval_shape(lambda: agent.init(jax.random.key(0), hypers_of(lane.config)))
    seen = join_frames(jnp.stack([obs] * frames)[None])[0] if frames > 1 else obs
    values = jax.eval_shape(lambda state: agent.inspect(state, seen), state)
    outputs = values["value"].shape[-1] if "value" in values else 0  # predictions have one
    return outputs > 1 and any(leaf.ndim for leaf in jax.tree.leaves(agent.policy_state(state)))


def policy_of(lane: Lane, plan: Plan, state: Any) -> Policy | None:
    """The policy of a lane that is done; None if there can be none for the observations of its world."""
    from remanence.gym.policy import Policy
    from remanence.gym.spaces import spaces_of

    spaces = plan.spaces or spaces_of(plan.spec)
    if spaces is None:
        return None
    return Policy(lane.contender, lane.config, spaces, plan.spec.num_tasks, state, {"seed": lane.seed})
