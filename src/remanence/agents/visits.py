"""Memories of visits, and the update of the permanent part from them (paper, Eq. 4 and App. A)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from remanence.agents import ring as rings
from remanence.agents.base import Visited
from remanence.agents.linear import Value, table_entries
from remanence.agents.ring import Ring
from remanence.agents.td import Problem
from remanence.core.errors import UserError
from remanence.core.types import Key, Transition
from remanence.updates import permanent_error


class VisitMemory(NamedTuple):
    """A memory of visits, as pure functions over its state."""

    init: Callable[[Key], Any]
    add: Callable[[Any, Transition], Any]
    permanent_update: Callable[[Any, Any, Any, float | Array, Array | bool], Any]
    """(visits, permanent, transient, lr, active) -> permanent"""
    after_consolidation: Callable[[Any], Any]  # the memory after a consolidation
    dropped: Callable[[Any], Array]  # the number of dropped visits
    visited: Callable[[Any], Visited]


def visit_counts(problem: Problem, value: Value) -> VisitMemory:
    """For tables: visit counts. Exact, and no visit is dropped.

    In a table, updates of one entry do not change the others, and each moves it by ᾱ of the distance to a fixed target. After n
    visits, in any order,

        V^P_new(s) = V^P_old(s) + (1 − (1 − ᾱ)^n(s)) V^T(s)

    so counts suffice for a pass over all visits.
    """
    if value.closed_form_step is None:
        raise UserError("only a table needs no buffer: give the size of the buffer")
    closed_form_step = value.closed_form_step

    def add(visits: Any, transition: Transition) -> Any:
        once = jnp.where(transition.valid, 1.0, 0.0)
        return value.add_scaled_gradient(visits, transition.obs, problem.output(transition.action), once)

    def permanent_update(visits: Any, permanent: Any, transient: Any, lr: float | Array, active: Array | bool) -> Any:
        del active
        return closed_form_step(permanent, permanent + transient, visits, lr)

    return VisitMemory(
        init=lambda key: jnp.zeros_like(value.init(key)),
        add=add,
        permanent_update=permanent_update,
        after_consolidation=jnp.zeros_like,
        dropped=lambda _: jnp.int32(0),
        visited=table_entries,
    )


def visit_buffer(problem: Problem, value: Value, example_obs: ArrayLike, capacity: int, clear: bool) -> VisitMemory:
    """For any value function: the visits themselves; the permanent part is updated with each of them, in order.

    Args:
        example_obs: [*obs] an observation, for the buffer's shape and dtype.
        capacity: how many visits are stored, the newest ones.
        clear: whether consolidation empties the buffer, as in the paper; the authors' continual agent does not.
    """
    if capacity < 1:
        raise UserError(f"a buffer must hold at least one sample; got {capacity}")

    def add(ring: Ring, transition: Transition) -> Ring:
        return rings.append(ring, (transition.obs, problem.output(transition.action)), transition.valid)

    def permanent_update(ring: Ring, permanent: Any, transient: Any, lr: float | Array, active: Array | bool) -> Any:
        before = permanent  # targets are fixed during the pass

        def update_one(permanent: Any, visit: tuple[Array, Array], valid: Array) -> Any:
            obs, output = visit
            target = (value.apply(before, obs) + value.apply(transient, obs))[output]
            error = permanent_error(target, value.apply(permanent, obs)[output])
            return value.add_scaled_gradient(permanent, obs, output, jnp.where(valid, lr * error, 0.0))

        return rings.fold(update_one, permanent, ring, active)

    def visited(ring: Ring) -> Visited:
        obs, output = jax.tree.map(lambda leaf: leaf[:-1], ring.items)
        held = jnp.arange(len(output)) < rings.size(ring)
        return Visited(obs, output.astype(jnp.int32), held.astype(jnp.float32))

    return VisitMemory(
        init=lambda _: rings.make_ring((example_obs, np.int8(0)), capacity),
        add=add,
        permanent_update=permanent_update,
        after_consolidation=rings.emptied if clear else lambda ring: ring,
        # A buffer that is never cleared is meant to hold the newest visits only: none counts as dropped.
        dropped=rings.overwritten if clear else lambda _: jnp.int32(0),
        visited=visited,
    )
