"""A Markov reward process as a world: samples of the process the theory is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError
from remanence.core.prng import randint
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.theory.process import RewardProcess
from remanence.worlds.base import World, state_numbers


class ChainState(NamedTuple):
    place: Array  # []
    steps: Array  # [] since the episode began


class Chance(NamedTuple):
    """The random numbers of one step."""

    u: Array  # [] uniform in [0, 1): chooses the next state
    noise: Array  # [] standard normal: noise of the reward


@dataclass(frozen=True)
class Chain(World):
    """States that follow each other by chance, whatever the agent does. It goes on for ever; an episode is a stretch of it.

    After `length` steps an episode is truncated (we bootstrap) and the next starts in a uniformly drawn state.
    State and observation: the state's number. Task: the expected reward on leaving each state, [states].
    """

    transitions: tuple[tuple[float, ...], ...]
    length: int
    noise: float = 0.0
    """standard deviation of the reward"""
    discount: float = 0.9
    num_actions = 1
    rewards_of_task = True

    def __post_init__(self) -> None:
        RewardProcess(np.array(self.transitions), np.zeros(self.num_states), self.discount)  # checks rows and discount
        if self.length < 1:
            raise UserError(f"an episode of a chain must last at least one step; got {self.length}")
        if not self.noise >= 0.0:
            raise UserError(f"the noise of a reward cannot be negative; got {self.noise}")

    @property
    def num_states(self) -> int:
        return len(self.transitions)

    @property
    def observation(self) -> ObsSpec:
        return state_numbers(self.num_states)

    def reset(self, key: Key, task: Array) -> tuple[ChainState, Array]:
        del task
        place = randint(key, self.num_states)
        return ChainState(place, jnp.int32(0)), place

    def step(self, key: Key, state: ChainState, action: Array, task: Array) -> tuple[ChainState, TimeStep]:
        return self.apply(state, action, task, self.draw(key))

    def draw(self, key: Key) -> Chance:
        k_luck, k_noise = jax.random.split(key)
        return Chance(jax.random.uniform(k_luck), jax.random.normal(k_noise))

    def apply(self, state: ChainState, action: Array, task: Array, chance: Chance) -> tuple[ChainState, TimeStep]:
        """The deterministic part of a step, given the draws."""
        del action
        thresholds = np.cumsum(np.array(self.transitions), axis=1)[:, :-1].astype(np.float32)
        place = jnp.sum(jnp.asarray(thresholds)[state.place] <= chance.u, dtype=jnp.int32)
        reward = task[state.place] + self.noise * chance.noise
        steps = state.steps + 1
        return ChainState(place, steps), TimeStep(place, reward, jnp.float32(self.discount), steps >= self.length)
