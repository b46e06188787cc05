"""True values of the worlds: exact by a linear solve where possible, else by Monte Carlo with a known standard error."""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from remanence.core.backend import cache_directory
from remanence.core.frames import join_frames
from remanence.core.prng import make_key, randint
from remanence.core.types import Key
from remanence.theory import expected_visits, state_values
from remanence.worlds.base import World
from remanence.worlds.grids.continuous import ContinuousGrid
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.rooms.world import Rooms


@dataclass(frozen=True)
class Truth:
    """True values at evaluation points, for every task."""

    points: np.ndarray  # [points, *obs]
    values: np.ndarray  # [tasks, points]
    weights: np.ndarray  # [points] of the squared error on the current task; they sum to 1
    final: np.ndarray  # [points] where episodes end: the value is 0 by definition, whatever a value function says there
    standard_error: np.ndarray | None = None  # [tasks, points], where the values were estimated


def random_walk(world: CornerGrid, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reward process of the uniformly random policy: P [states, states] and r [tasks, states]."""
    transitions = np.zeros((world.num_states, world.num_states))
    rewards = np.zeros((len(tasks), world.num_states))
    for state in set(range(world.num_states)) - set(world.corners.tolist()):
        for cell in world.successors[state]:
            transitions[state, cell] += 1 / world.num_actions
            rewards[:, state] += np.asarray(tasks, np.float64) @ (world.corners == cell) / world.num_actions
    return transitions, rewards


def corner_grid_truth(world: CornerGrid, tasks: np.ndarray, by_visits: bool = True) -> Truth:
    """Exact values of the random policy; goals are points without error.

    Args: by_visits: whether weights are the expected visits from the start, goals included; else all states weigh the same.
    """
    transitions, rewards = random_walk(world, tasks)
    visits = expected_visits(transitions, np.eye(world.num_states)[world.start])
    return Truth(
        points=np.arange(world.num_states, dtype=np.int32),
        values=state_values(transitions, rewards, world.discount),
        weights=visits / visits.sum() if by_visits else np.full(world.num_states, 1 / world.num_states),
        final=np.isin(np.arange(world.num_states), world.corners),
    )


def continuous_grid_truth(world: ContinuousGrid, tasks: np.ndarray, episodes: int = 10_000, seed: int = 0) -> Truth:
    """Monte Carlo values of the random policy on a regular lattice of points, cached on disk."""
    points = world.evaluation_points().astype(np.float32)
    parameters = {"world": repr(world), "points": len(points), "episodes": episodes, "seed": seed, "method": 3}

    def compute() -> dict[str, np.ndarray]:
        goals = np.eye(4, dtype=np.float32)
        return monte_carlo_returns(world, points, goals, episodes, seed)._asdict()

    returns = Returns(**_cached(parameters, compute))
    values = np.asarray(tasks) @ returns.mean
    spread = np.einsum("ti,ijp,tj->tp", tasks, returns.second_moment, tasks) - values**2
    return Truth(
        points=points,
        values=values,
        weights=np.full(len(points), 1 / len(points)),
        final=np.zeros(len(points), bool),
        standard_error=np.sqrt(np.maximum(spread, 0) / returns.episodes),
    )


def rooms_truth(
    world: Rooms,
    tasks: np.ndarray,
    states: int = 256,
    rollouts: int = 2048,
    frames: int = 1,
    repeat_first: bool = False,
    seed: int = 0,
) -> Truth:
    """Monte Carlo values of the random policy from exact states of the simulator, cached on disk.

    The states are visited by the random policy, each at a random time of a walk; each comes with the agent's input there,
    including the frames before it: before the start of the episode zero, or with `repeat_first` its first frame. The part of the
    return beyond a rollout's horizon is below a millionth.
    """
    parameters = {
        "world": repr(world),
        "states": states,
        "rollouts": rollouts,
        "frames": frames,
        "seed": seed,
        "method": 1,
        **({"repeat_first": True} if repeat_first else {}),
    }

    def compute() -> dict[str, np.ndarray]:
        k_walk, k_roll = jax.random.split(make_key(seed))
        met, points = jax.jit(jax.vmap(partial(_meet, world, frames, repeat_first)))(jax.random.split(k_walk, states))
        gains = _returns_from(world, met, rollouts, k_roll)  # [states, rollouts, prizes]
        return {
            "points": np.asarray(points),
            "mean": gains.mean(axis=1),
            "second": np.einsum("sri,srj->sij", gains, gains, optimize=True) / rollouts,
        }

    cached = _cached(parameters, compute)
    values = np.asarray(tasks, np.float64) @ cached["mean"].T
    spread = np.einsum("ti,sij,tj->ts", tasks, cached["second"], tasks) - values**2
    return Truth(
        points=cached["points"],
        values=values,
        weights=np.full(states, 1 / states),
        final=np.zeros(states, bool),
        standard_error=np.sqrt(np.maximum(spread, 0) / rollouts),
    )


WALK = 200  # the time of an evaluation state is drawn among this number of steps


def _meet(world: Rooms, frames: int, repeat_first: bool, key: Key) -> tuple[Any, Array]:
    """A state at a random time of a random walk, and the agent's input there."""
    task = jnp.zeros(world.num_prizes)
    k_index, k_reset, k_steps = jax.random.split(key, 3)

    def step(carry: tuple[Any, Array, Array], t: Array) -> tuple[tuple[Any, Array, Array], tuple[Any, Array, Array]]:
        state, _, age = carry
        k_act, k_begin = jax.random.split(jax.random.fold_in(k_steps, t))
        after, seen = world.apply(state, randint(k_act, world.num_actions), task)
        again, first = world.reset(k_begin, task)
        following = jax.tree.map(lambda a, b: jnp.where(seen.last, a, b), again, after)
        following_obs = jnp.where(seen.last, first, seen.obs)
        return (following, following_obs, jnp.where(seen.last, 0, age + 1)), carry

    begun, obs = world.reset(k_reset, task)
    _, walked = jax.lax.scan(step, (begun, obs, jnp.int32(0)), jnp.arange(WALK))
    index = randint(k_index, WALK)
    state, _, age = jax.tree.map(lambda leaf: leaf[index], walked)
    if frames == 1:
        return state, walked[1][index]
    back = jnp.arange(frames - 1, -1, -1)
    if repeat_first:
        back = jnp.minimum(back, age)
    stack = walked[1][jnp.maximum(index - back, 0)]
    stack = jnp.where((back <= age).reshape(-1, *(1,) * (stack.ndim - 1)), stack, False)
    return state, join_frames(stack[None])[0]


def _returns_from(world: Rooms, starts: Any, rollouts: int, key: Key) -> np.ndarray:
    """[states, rollouts, prizes] discounted returns of each prize separately."""
    horizon = math.ceil(math.log(1e-7) / math.log(world.discount))
    prizes = jnp.eye(world.num_prizes)

    def roll(start: Any, key: Key) -> Array:
        def step(carry: tuple[Any, Array, Array], t: Array) -> tuple[tuple[Any, Array, Array], None]:
            state, gain, weight = carry
            action = randint(jax.random.fold_in(key, t), world.num_actions)
            state, seen = jax.vmap(lambda prize: world.apply(state, action, prize))(prizes)
            state, discount = jax.tree.map(lambda leaf: leaf[0], (state, seen.discount))
            return (state, gain + weight * seen.reward, weight * discount), None

        begun = (start, jnp.zeros(world.num_prizes), jnp.float32(1))
        return jax.lax.scan(step, begun, jnp.arange(horizon))[0][1]

    def block(start: Any, key: Key) -> Array:
        return jax.vmap(partial(roll, start))(jax.random.split(key, rollouts))

    states = len(jax.tree.leaves(starts)[0])
    program = jax.jit(lambda starts, keys: jax.lax.map(lambda pair: block(*pair), (starts, keys)))
    return np.asarray(program(starts, jax.random.split(key, states)), np.float64)


class Returns(NamedTuple):
    """Moments of the discounted returns from each start, for each task.

    Returns are linear in the rewards, so one set of rollouts gives the moments of any mixture of the tasks.
    """

    mean: np.ndarray  # [tasks, starts]
    second_moment: np.ndarray  # [tasks, tasks, starts]
    episodes: np.ndarray  # [] number of episodes from each start


class _Walk(NamedTuple):
    """One lane of rollouts."""

    state: Array
    weight: Array  # [] γ^t
    gain: Array  # [tasks] discounted return so far
    step: Array  # []
    episodes: Array  # []
    gains: Array  # [episodes, tasks] the return of every finished episode


def monte_carlo_returns(
    world: World, starts: np.ndarray, tasks: np.ndarray, episodes: int, seed: int, walkers: int = 64
) -> Returns:
    """Runs at least `episodes` episodes of the random policy from every start. The world's state must be its observation.

    Every walker completes the same number of episodes: stopping after a number of steps would favor short ones.
    """
    each = -(-episodes // walkers)
    bases = jnp.asarray(tasks)

    def step(walk: _Walk, start: Array, key: Key) -> _Walk:
        k_act, k_world = jax.random.split(jax.random.fold_in(key, walk.step))
        action = randint(k_act, world.num_actions)
        state, seen = jax.vmap(lambda task: world.step(k_world, walk.state, action, task))(bases)
        state, last = jax.tree.map(
            lambda leaf: leaf[0], (state, seen.last)
        )  # the same for all tasks: only rewards differ
        gain = walk.gain + walk.weight * seen.reward
        slot = jnp.where(last, walk.episodes, each)  # out of range, hence dropped, unless an episode ended
        return _Walk(
            state=jnp.where(last, start, state),
            weight=jnp.where(last, 1.0, walk.weight * world.discount),
            gain=jnp.where(last, 0.0, gain),
            step=walk.step + 1,
            episodes=walk.episodes + last,
            gains=walk.gains.at[slot].set(gain, mode="drop"),
        )

    def roll(all_starts: Array, keys: Key) -> Array:
        def begin(start: Array) -> _Walk:
            return _Walk(
                state=start,
                weight=jnp.float32(1),
                gain=jnp.zeros(len(bases)),
                step=jnp.int32(0),
                episodes=jnp.int32(0),
                gains=jnp.zeros((each, len(bases))),
            )

        return jax.lax.while_loop(
            lambda walk: jnp.any(walk.episodes < each),
            lambda walk: jax.vmap(step)(walk, all_starts, keys),
            jax.vmap(begin)(all_starts),
        ).gains

    mesh = Mesh(np.array(jax.devices()), ("walkers",))
    split = PartitionSpec("walkers")
    program = jax.jit(jax.shard_map(roll, mesh=mesh, in_specs=split, out_specs=split, check_vma=False))
    lanes = np.repeat(np.asarray(starts), walkers, axis=0)
    lanes = np.concatenate([lanes, np.repeat(lanes[-1:], -len(lanes) % mesh.size, axis=0)])
    gains = program(jnp.asarray(lanes), jax.random.split(make_key(seed), len(lanes)))
    gains = np.asarray(gains, np.float64)[: len(starts) * walkers].reshape(len(starts), walkers * each, len(bases))
    played = np.int64(walkers * each)
    return Returns(
        gains.mean(axis=1).T, np.einsum("pei,pej->ijp", gains, gains, optimize=True) / played, np.asarray(played)
    )


def _cached(parameters: dict, compute: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of `compute`, from the cache if it was called with the same config before."""
    name = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]
    directory = cache_directory("truth")
    if directory is None:
        return compute()
    path = directory / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as cached:
            return dict(cached)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)  # damaged: computed again below
    arrays = compute()
    partial = path.with_suffix(f".{os.getpid()}.tmp.npz")
    np.savez(partial, allow_pickle=False, **arrays)
    os.replace(partial, path)
    return arrays
