"""`remanence.live`: DQN in Gymnasium environments, with one seed and with several, and stable-baselines3's DQN in the same ones.

Both have the same network, batch, replay buffer, target network and optimizer, and learn while they are timed: one gradient step
at every step, or at every fourth one for images. They take turns, a lap of each at a time. Compilation is not timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN
from remanence.agents.learners import choose_learner
from remanence.bench.measure import Lap, LifeRate, Report, Row, race
from remanence.bench.peers import stable_baselines
from remanence.core.types import EnvSpec
from remanence.engine.batch import Batch
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_curves, magnitudes, parts_of_value, together
from remanence.gym.factories import env_factories
from remanence.gym.hosted import GymnasiumWorld, env_pool, register_pool
from remanence.gym.pool import EnvPool
from remanence.gym.spaces import read_spaces
from remanence.streams import Stationary

DISCOUNT, WINDOW, ROUND = 0.99, 1000, 20
LIFE = 4_000_000  # steps: no life ends while it is timed


class Pictures(gymnasium.Env):
    """Four 84×84 pictures of a dot that the actions move, as one image: what Atari games look like after the usual wrappers."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)
    _moves = ((0, 3), (0, -3), (3, 0), (-3, 0))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed, options=options)
        self._at, self._steps = self.np_random.integers(80, size=2), 0
        self._view = np.zeros((84, 84, 4), np.uint8)
        return self._view, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._at = np.clip(self._at + self._moves[action], 0, 80)
        self._steps += 1
        self._view = np.concatenate([self._view[..., 1:], np.zeros((84, 84, 1), np.uint8)], axis=-1)
        row, column = self._at
        self._view[row : row + 4, column : column + 4, 3] = 255
        return self._view, float(row < 4), False, self._steps >= 200, {}


def _minigrid() -> gymnasium.Env:
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))


@dataclass(frozen=True)
class Case:
    """An environment and our agent in it."""

    make: Callable[[], gymnasium.Env]
    config: DQN
    lap: int
    """steps of a lap, of all seeds together; half as many of stable-baselines3"""


CASES = {
    "CartPole": Case(partial(gymnasium.make, "CartPole-v1"), DQN(), 8_000),
    "MiniGrid": Case(_minigrid, DQN(scale=255.0), 4_000),
    "MinAtar breakout": Case(partial(gymnasium.make, "remanence.gym:remanence/MinAtarBreakout-v0"), DQN(), 4_000),
    "84×84 images, train_every=4": Case(Pictures, DQN(replay=1_000, batch=32, train_every=4), 800),
}


@dataclass(frozen=True)
class Sizes:
    cases: tuple[str, ...] = tuple(CASES)
    seeds: tuple[int, ...] = (8, 1)
    rounds: int = 3
    share: float = 1.0
    """of the steps of a lap"""


FULL = Sizes()
SMOKE = Sizes(("CartPole",), (2, 1), rounds=1, share=0.01)


def run(progress: Callable[[str], None], sizes: Sizes = FULL, against: str | None = None) -> Report:
    """About ten minutes on a quiet machine, against stable-baselines3."""
    rows, lives = [], []
    for name in sizes.cases:
        progress(name)
        found, rates = _measured(name, CASES[name], sizes, against)
        rows, lives = [*rows, *found], [*lives, *rates]
    return Report("live", rows, lives=lives)


def _measured(name: str, case: Case, sizes: Sizes, against: str | None) -> tuple[list[Row], list[LifeRate]]:
    steps = max(int(case.lap * sizes.share), 1)
    with contextlib.ExitStack() as stack:
        ours = {seeds: stack.enter_context(_life(case, seeds, steps)) for seeds in sizes.seeds}
        entrants: dict[Any, Callable[[], Lap]] = {seeds: entrant[0] for seeds, entrant in ours.items()}
        if against is not None:
            entrants[against] = stable_baselines(case.config, case.make(), DISCOUNT, steps // 2)
        for play in entrants.values():  # compiles, and fills a batch
            play()
        results = race(entrants, sizes.rounds)
    rates = {}
    for who, one in results.items():
        seeds, learner = (who, ours[who][1]) if who in ours else (1, who)
        world = f"{name}, {seeds} {'seed' if seeds == 1 else 'seeds'}"
        rates[who] = LifeRate(world, "live", "DQN", learner, seeds, one.rate, 1e6 / one.rate_per_core)
    return list(_rows(rates, against)), list(rates.values())


@contextlib.contextmanager
def _life(case: Case, seeds: int, steps: int) -> Iterator[tuple[Callable[[], Lap], str]]:
    """Laps of a life as `live` makes it, with what it records; and its learner."""
    schedule = Stationary(LIFE).schedule(["environment"])
    env = case.make()
    spaces = read_spaces(env.observation_space, env.action_space)
    spec: EnvSpec = spaces.env_spec(1, DISCOUNT)
    chosen = choose_learner(case.config.build(spec))
    with env_pool() as number:
        pool = EnvPool(list(env_factories(case.make, None).values()), schedule, spaces, DISCOUNT)
        register_pool(number, pool)
        world = GymnasiumWorld(number, spaces.actions, spec.obs, DISCOUNT)
        probe = together(episode_curves, parts_of_value(chosen.agent, DISCOUNT), magnitudes(chosen.agent, 1))
        life = LifeConfig(chosen.agent, world, schedule.stream, probe, window=WINDOW, watch_parts=True)
        devices = max(n for n in range(1, len(jax.devices()) + 1) if seeds % n == 0)
        driver = Driver(life, ROUND, rounds_per_chunk=max(steps // seeds // ROUND, 1), devices=devices)
        batch = Batch(driver, [hypers_of(case.config)] * seeds, range(seeds))

        def play() -> Lap:
            before = batch.progress.steps
            batch.advance()
            return Lap(batch.progress.steps - before, np.zeros(1))

        yield play, chosen.learner
        pool.close()


def _rows(rates: dict[Any, LifeRate], against: str | None) -> Iterator[Row]:
    peer = rates.get(against)
    for one in rates.values():
        label = f"{one.world}: {one.agent}, {one.learner}"
        yield Row(
            label, one.lane_steps_per_second, "steps/s", "all seeds together" if one is not peer else "one thread"
        )
        yield Row(f"{label}: processor time", one.cpu_us_per_lane_step, "µs/step")
        if peer is not None and one is not peer:
            ratio = peer.cpu_us_per_lane_step / one.cpu_us_per_lane_step
            yield Row(f"{label} / {against}: steps per processor time", ratio, "×")
            ratio = one.lane_steps_per_second / peer.lane_steps_per_second
            yield Row(f"{label} / {against}: steps per second", ratio, "×")
