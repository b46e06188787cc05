"""True values of the worlds: exactly where a linear solve gives them, else by Monte Carlo with a known standard error."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import platformdirs
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from remanence.probes import Truth
from remanence.random import make_key, pick
from remanence.theory import expected_visits, state_values
from remanence.types import Key
from remanence.worlds.base import World
from remanence.worlds.continuous_grid import ContinuousGrid
from remanence.worlds.corner_grid import CornerGrid


def random_walk(world: CornerGrid, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reward process of the uniformly random policy: P [states, states] and r [tasks, states]."""
    transitions = np.zeros((world.num_states, world.num_states))
    rewards = np.zeros((len(tasks), world.num_states))
    for state in set(range(world.num_states)) - set(world.corners.tolist()):
        for cell in world.successors[state]:
            transitions[state, cell] += 1 / world.num_actions
            rewards[:, state] += np.asarray(tasks, np.float64) @ (world.corners == cell) / world.num_actions
    return transitions, rewards


def corner_grid_truth(world: CornerGrid, tasks: np.ndarray) -> Truth:
    """Exact values of the random policy; errors weigh by expected visits from the start, goals included (their error is 0)."""
    transitions, rewards = random_walk(world, tasks)
    visits = expected_visits(transitions, np.eye(world.num_states)[world.start])
    return Truth(
        points=np.arange(world.num_states, dtype=np.int32),
        values=state_values(transitions, rewards, world.discount),
        weights=visits / visits.sum(),
        final=np.isin(np.arange(world.num_states), world.corners),
    )


def continuous_grid_truth(world: ContinuousGrid, tasks: np.ndarray, episodes: int = 10_000, seed: int = 0) -> Truth:
    """Monte Carlo values of the random policy on an even lattice of points, kept in the user's cache directory."""
    points = world.evaluation_points().astype(np.float32)
    recipe = {"world": repr(world), "points": len(points), "episodes": episodes, "seed": seed, "method": 3}

    def compute() -> dict[str, np.ndarray]:
        goals = np.eye(4, dtype=np.float32)
        return monte_carlo_returns(world, points, goals, episodes, seed)._asdict()

    returns = Returns(**_cached(recipe, compute))
    values = np.asarray(tasks) @ returns.mean
    spread = np.einsum("ti,ijp,tj->tp", tasks, returns.second_moment, tasks) - values**2
    return Truth(
        points=points,
        values=values,
        weights=np.full(len(points), 1 / len(points)),
        final=np.zeros(len(points), bool),
        standard_error=np.sqrt(np.maximum(spread, 0) / returns.episodes),
    )


class Returns(NamedTuple):
    """Moments of the discounted returns from each start, for each of a set of tasks.

    Returns are linear in the rewards, so those of any mixture of the tasks follow: one set of rollouts serves them all.
    """

    mean: np.ndarray  # [tasks, starts]
    second_moment: np.ndarray  # [tasks, tasks, starts]
    episodes: np.ndarray  # [] how many were played from each start


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
    """Plays at least `episodes` episodes of the random policy from every start. A state of the world must be its observation.

    Every walker plays the same number of episodes to the end: stopping after some number of steps would favour short ones.
    """
    each = -(-episodes // walkers)
    bases = jnp.asarray(tasks)

    def step(walk: _Walk, start: Array, key: Key) -> _Walk:
        k_act, k_world = jax.random.split(jax.random.fold_in(key, walk.step))
        action = pick(k_act, world.num_actions)
        state, seen = jax.vmap(lambda task: world.step(k_world, walk.state, action, task))(bases)
        state, last = jax.tree.map(
            lambda leaf: leaf[0], (state, seen.last)
        )  # the same for all tasks: only rewards differ
        gain = walk.gain + walk.weight * seen.reward
        page = jnp.where(last, walk.episodes, each)  # beyond the end, where nothing is kept, unless an episode ended
        return _Walk(
            state=jnp.where(last, start, state),
            weight=jnp.where(last, 1.0, walk.weight * world.discount),
            gain=jnp.where(last, 0.0, gain),
            step=walk.step + 1,
            episodes=walk.episodes + last,
            gains=walk.gains.at[page].set(gain, mode="drop"),
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


def cache_directory() -> Path:
    """Where results that are dear to compute are kept; `REMANENCE_CACHE` moves it."""
    return Path(os.environ.get("REMANENCE_CACHE") or platformdirs.user_cache_dir("remanence"))


def _cached(recipe: dict, compute: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays made by `compute`, from the cache if the same recipe was followed before."""
    name = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    path = cache_directory() / "truth" / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as kept:
            return dict(kept)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)  # damaged: made again below
    arrays = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp.npz")
    np.savez(partial, allow_pickle=False, **arrays)
    os.replace(partial, path)
    return arrays
