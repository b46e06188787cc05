"""MinAtar's games with random actions: many lanes compiled, against the original package on one core; and agents in them.

Every lane starts a new episode when one ends; observations are computed in every step, on both sides.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from remanence.bench.lives import LifeSizes, smoke_lives, whole_lives
from remanence.bench.measure import Lap, Report, Result, Row, race
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.masking import LANES as LANE_AXIS
from remanence.core.prng import make_key, randint
from remanence.core.tree_utils import tree_where
from remanence.core.types import Key
from remanence.experiments.base import PAPER
from remanence.worlds.minatar import GAMES, MinAtar, MinAtarGames
from remanence.worlds.minatar.game import NUM_ACTIONS

STREAM = "breakout, freeway and space invaders"


@dataclass(frozen=True)
class Sizes:
    """Lanes and steps of a lap, and how often laps are timed."""

    lanes: int = 512
    steps: int = 500
    original_steps: int = 5_000
    rounds: int = 5
    games: tuple[str, ...] = tuple(GAMES)  # each measured alone
    lives: LifeSizes = field(default_factory=lambda: LifeSizes(PAPER, contenders=("PT-DQN", "DQN", "DQN-large-buffer")))


FULL = Sizes()
# Networks take long to compile: the smoke test of `jellybean` tries them.
SMOKE = Sizes(lanes=8, steps=20, original_steps=50, rounds=1, games=("breakout",), lives=smoke_lives())


def run(progress: Callable[[str], None], sizes: Sizes = FULL, against: str | None = None) -> Report:
    """About six minutes."""
    if importlib.util.find_spec("minatar") is None:
        raise UserError("this benchmark compares with the original: `pip install minatar` first")
    ours: dict[str, Callable[[], Lap]] = {}
    for game in sizes.games:
        progress(f"{game}: compiling")
        ours[game] = _compiled(MinAtar(game, ramping=False), jnp.zeros(sizes.lanes, jnp.int32), sizes.steps)
    progress(f"{STREAM}: compiling")
    stream = MinAtarGames(ramping=False)
    ours[STREAM] = _compiled(stream, jnp.arange(sizes.lanes) % len(stream.games), sizes.steps)
    compared = dict.fromkeys((*sizes.games, *stream.games))
    theirs = {f"original {game}": partial(_original, game, sizes.original_steps) for game in compared}
    progress("race")
    results = race({**ours, **theirs}, sizes.rounds)

    rows = [Row("cores", backend.cores(), "")]
    for game in sizes.games:
        engine, original = results[game], results[f"original {game}"]
        rows += [
            Row(f"{game}: engine, {sizes.lanes} lanes", engine.rate, "steps/s", _reward(engine)),
            Row(f"{game}: original", original.rate, "steps/s", f"one core; {_reward(original)}"),
            Row(f"{game}: engine / original", engine.rate / original.rate, "×"),
        ]
    usual = sum(1 / results[f"original {game}"].rate for game in stream.games) / len(stream.games)  # seconds per step
    rows += [
        Row(f"{STREAM} side by side: engine", results[STREAM].rate, "steps/s", "each lane has its own game"),
        Row("the same: engine / original", results[STREAM].rate * usual, "×"),
    ]
    found, rates = whole_lives("figure5/minatar", sizes.lives, progress, against)
    return Report("minatar", [*rows, *found], lives=rates)


def _compiled(world: Any, games: Array, steps: int) -> Callable[[], Lap]:
    """A lap of `steps` steps in all lanes, one per entry of `games`, spread over all devices."""
    mesh, by_lane = Mesh(np.array(jax.devices()), (LANE_AXIS,)), PartitionSpec(LANE_AXIS)

    def lane(key: Key, game: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Any, Array, Array], time: Array) -> tuple[tuple[Any, Array, Array], None]:
            state, _, total = carry
            k_act, k_step, k_reset = jax.random.split(jax.random.fold_in(key, time), 3)
            state, seen = world.step(k_step, state, randint(k_act, NUM_ACTIONS), game)
            first_state, first_obs = world.reset(k_reset, game)
            obs = jnp.where(seen.last, first_obs, seen.obs)
            return (tree_where(seen.last, first_state, state), obs, total + seen.reward), None

        (_, obs, total), _ = jax.lax.scan(step, (*world.reset(key, game), jnp.float32(0)), jnp.arange(steps))
        return total / steps, obs  # otherwise the compiler would drop the observation

    program = jax.jit(
        jax.shard_map(jax.vmap(lane), mesh=mesh, check_vma=False, in_specs=(by_lane, by_lane), out_specs=by_lane)
    )
    keys = jax.random.split(make_key(0), len(games))

    def lap() -> Lap:
        return Lap(len(games) * steps, np.asarray(program(keys, games)[0]))

    lap()  # compiles
    return lap


def _original(game: str, steps: int) -> Lap:
    from minatar import Environment

    env, rng = Environment(game, difficulty_ramping=False), np.random.default_rng()
    env.reset()
    total = 0.0
    for action in rng.integers(NUM_ACTIONS, size=steps).tolist():
        reward, ended = env.act(action)
        total += reward
        if ended:
            env.reset()
        env.state()
    return Lap(steps, np.array([total / steps]))


def _reward(result: Result) -> str:
    return f"{1000 * result.scores.mean():.3g} reward per 1000 steps"
