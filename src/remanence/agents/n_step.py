"""n-step returns, computed when a batch is read: the replay buffer holds single transitions in their order."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from remanence.agents import ring as rings
from remanence.agents.replay import Replay, Sample
from remanence.agents.ring import Ring
from remanence.updates import n_step_return


def read_n_steps(replay: Replay, ring: Ring, ages: Array, n: int) -> Sample:
    """The transitions of these ages, [batch], each with the n − 1 that follow it in its episode as one transition.

    Its reward is what all of them pay, its next state that of the last one. Where fewer have followed so far, it has fewer.

    Args: replay: with "reward", "discount" and "last" beside each transition.
    """
    first = replay.read(ring, ages)
    if n == 1:
        return first
    following = ages[:, None] + jnp.arange(n)
    slots = (rings.overwritten(ring) + following) % replay.slots
    reward, discount, last = (ring.items["extras"][name][slots] for name in ("reward", "discount", "last"))
    reward, discount, more = n_step_return(reward, discount, last | (following >= rings.size(ring) - 1))
    end = replay.read(ring, ages + more)
    return first._replace(
        next_obs=end.next_obs,
        next_cached=end.next_cached,
        extras={**first.extras, "reward": reward, "discount": discount},
        valid=first.valid & end.valid,
    )
