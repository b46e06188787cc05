"""Your own world: a windy corridor with a door at each end, one of which has a reward; PT-Q and Q-learning in it.

    python examples/own_world.py

A world is a frozen dataclass that derives from `World` and has `reset` and `step`, both pure. What differs between tasks is data
that comes in as `task`: here the rewards of the two doors. The same world runs in the engine, thousands of lanes at once, and
under Gymnasium.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents.base import AgentConfig, hypers_of
from remanence.agents.configs import PTQ, Q
from remanence.core.types import EnvSpec, Episodes, Key, ObsSpec, TimeStep
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_return
from remanence.gym import TaskSwitching
from remanence.gym.export import WorldEnv
from remanence.streams import Stream, cyclic
from remanence.worlds.base import World, state_numbers

TASKS = np.array([[1, 0], [0, 1]], np.float32)  # rewards of the doors to the left and to the right


@dataclass(frozen=True)
class Corridor(World):
    """Cells in a row. The agent starts in the middle and walks left (0) or right (1); the wind may turn it round."""

    length: int = 9
    wind: float = 0.1
    discount: float = 0.9
    num_actions = 2

    @property
    def num_states(self) -> int:
        return self.length

    @property
    def observation(self) -> ObsSpec:
        return state_numbers(self.num_states)

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:  # noqa: ARG002
        middle = jnp.int32(self.length // 2)
        return middle, middle  # state and observation are both the cell

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        turned = jax.random.uniform(key) < self.wind
        cell = state + jnp.where((action == 1) ^ turned, 1, -1)
        left, right = cell == 0, cell == self.length - 1
        ended = left | right
        reward = jnp.where(left, task[0], 0.0) + jnp.where(right, task[1], 0.0)
        # The discount is 0 on termination; on truncation only `last` is true.
        return cell, TimeStep(cell, reward, jnp.where(ended, 0.0, self.discount), ended)


def main(episodes: int = 40, segments: int = 6, seeds: int = 10) -> dict[str, np.ndarray]:
    """[segments] mean discounted return of each agent in each segment."""
    world = Corridor()
    stream = Stream(TASKS, cyclic(2, segments), Episodes(episodes), boundaries_known=True)
    spec = EnvSpec(world.observation, world.num_actions, stream.num_tasks, world.discount)
    agents: list[AgentConfig] = [
        Q(lr=0.3),
        PTQ(permanent_lr=0.01, transient_lr=0.3, decay=0.0, consolidate_every=None),
    ]
    returns = {}
    for config in agents:
        driver = Driver(LifeConfig(config.build(spec), world, stream, episode_return()))
        record = driver.run([hypers_of(config)] * seeds, range(seeds)).record["discounted_return"]
        returns[config.name] = record.reshape(seeds, segments, episodes).mean(axis=(0, 2))
        by_segment = ", ".join(f"{mean:.2f}" for mean in returns[config.name])
        print(f"{config.name}: {returns[config.name].mean():.3f} per episode; by segment {by_segment}")

    env = TaskSwitching(WorldEnv(world, TASKS), episodes=episodes)  # the same, for agents of other libraries
    cell, info = env.reset(seed=0)
    print(f"Gymnasium: {env.observation_space}, starts in cell {cell} with task {info['task']}")
    return returns


if __name__ == "__main__":
    main()
