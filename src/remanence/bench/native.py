"""The practical limit: the same experiment as one hand-written loop, compiled by Numba, lanes on all cores.

It supports this world, these two agents and this measurement only; another experiment needs another loop. Its lead over the
engine is the cost of generality.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit, prange

from remanence.streams import Stream
from remanence.worlds import CornerGrid
from remanence.worlds.true_values import Truth

BUFFER = 4_096  # visited states kept for consolidation; 50 episodes visit 825 ± 95


class Tables(NamedTuple):
    """World, stream and true values as arrays."""

    start: int
    discount: np.float32
    successors: np.ndarray  # [states, actions]
    ends: np.ndarray  # [states] whether entering the state ends the episode
    rewards: np.ndarray  # [tasks, states] for entering the state
    order: np.ndarray  # [segments]
    segment_length: int
    values: np.ndarray  # [tasks, states]
    weights: np.ndarray  # [states]


def tabulate(world: CornerGrid, stream: Stream, truth: Truth) -> Tables:
    at_corner = np.equal.outer(world.corners, np.arange(world.num_states))  # [4, states]
    return Tables(
        start=world.start,
        discount=np.float32(world.discount),
        successors=world.successors.astype(np.int32),
        ends=np.isin(np.arange(world.num_states), world.corners),
        rewards=np.asarray(stream.tasks, np.float32) @ at_corner.astype(np.float32),
        order=np.array(stream.shared_order, np.int32),
        segment_length=stream.segment_length.count,
        values=truth.values.astype(np.float32),
        weights=truth.weights.astype(np.float32),
    )


Loop: TypeAlias = Callable[[Tables, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def compile_loop(consolidates: bool) -> Loop:
    """A loop over lanes: (tables, permanent_lr [lanes], transient_lr [lanes], seeds [lanes]) -> (steps [lanes], errors).

    `errors` is [lanes, episodes, 2]: RMSVE on the current task, mean RMSVE on the others. TD is PT-TD with a permanent part
    that stays zero: without `consolidates`, it is not in the machine code.
    """

    @njit(cache=False, fastmath=True)
    def measure(now: np.ndarray, retained: np.ndarray, tables: Any, task: int) -> tuple[Any, Any]:
        current, others = np.float32(0), np.float32(0)
        for state in range(now.size):
            current += tables.weights[state] * (now[state] - tables.values[task, state]) ** 2
        for other in range(len(tables.values)):
            if other != task:
                total = np.float32(0)
                for state in range(retained.size):
                    total += (retained[state] - tables.values[other, state]) ** 2
                others += np.sqrt(total / np.float32(retained.size))
        return np.sqrt(current), others / np.float32(len(tables.values) - 1)

    @njit(cache=False, fastmath=True)
    def live(
        tables: Any, permanent_lr: np.float32, transient_lr: np.float32, seed: np.uint64, errors: np.ndarray
    ) -> int:
        permanent = np.zeros(len(tables.successors), np.float32)
        combined = np.zeros(len(tables.successors), np.float32)  # V^P + V^T
        target = np.zeros(len(tables.successors), np.float32)
        visited = np.zeros(BUFFER, np.uint8)
        seen, episode, steps, counter = 0, 0, 0, seed
        for segment in range(len(tables.order)):
            if consolidates and segment > 0:
                target[:] = combined
                for index in range(seen):
                    state = visited[index]
                    permanent[state] += permanent_lr * (target[state] - permanent[state])
                combined[:] = permanent  # the transient part is reset to zero
                seen = 0
            task = tables.order[segment]
            for _ in range(tables.segment_length):
                state, ended = tables.start, False
                while not ended:
                    # SplitMix64 (Steele, Lea and Flood, 2014): one draw is a counter and a hash
                    counter += np.uint64(0x9E3779B97F4A7C15)
                    bits = (counter ^ (counter >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                    following = tables.successors[state, np.int64(bits >> np.uint64(62))]
                    ended = tables.ends[following]
                    ahead = np.float32(0) if ended else tables.discount * combined[following]
                    error = tables.rewards[task, following] + ahead - combined[state]
                    combined[state] += transient_lr * error
                    if consolidates and seen < BUFFER:
                        visited[seen] = state
                        seen += 1
                    state = following
                    steps += 1
                retained = permanent if consolidates else combined
                errors[episode, 0], errors[episode, 1] = measure(combined, retained, tables, task)
                episode += 1
        return steps

    @njit(cache=False, parallel=True)
    def live_all(
        tables: Any, permanent_lr: np.ndarray, transient_lr: np.ndarray, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        steps = np.zeros(len(seeds), np.int64)
        errors = np.zeros((len(seeds), len(tables.order) * tables.segment_length, 2), np.float32)
        for lane in prange(len(seeds)):
            steps[lane] = live(tables, permanent_lr[lane], transient_lr[lane], seeds[lane], errors[lane])
        return steps, errors

    return live_all
