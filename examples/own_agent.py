"""Your own agent against ours: Expected SARSA beside Q-learning and PT-Q, in the paper's grid with changing goal rewards.

    python examples/own_agent.py

A configuration is a frozen dataclass with a `name` and `build(spec)`. Fields typed `PerLane` may differ between lanes of one
compiled program; they reach the agent as `hypers`. The agent is a tuple of pure functions for one lane, and the engine runs it for
many seeds at once. All its memory is in the state, which every function takes and returns. `learn` is also called while a lane
waits for others: `transition.valid` is then False, and the state must not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from remanence.agents.base import Agent, AgentConfig, PerLane, hypers_of
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.configs import PTQ, Q
from remanence.core.types import EnvSpec, Episodes, Hypers, Key, Transition
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_return
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.grids.corner import CORNER_TASKS


@dataclass(frozen=True)
class ExpectedSARSA:
    """Q(s, a) ← Q(s, a) + α [ r + γ Σ_b π(b|s') Q(s', b) − Q(s, a) ], with π the ε-greedy behavior policy."""

    lr: PerLane = 0.5
    epsilon: float = 0.1

    @property
    def name(self) -> str:
        return "Expected SARSA"

    def build(self, spec: EnvSpec) -> Agent:
        behaviour, actions = epsilon_greedy(self.epsilon), spec.num_actions

        def init(key: Key, hypers: Hypers) -> Array:  # noqa: ARG001
            return jnp.zeros((spec.obs.num_states, actions))

        def act(table: Array, hypers: Hypers, obs: Array, key: Key) -> Array:
            return behaviour(table[obs], hypers, key)

        def learn(table: Array, hypers: Hypers, transition: Transition, key: Key) -> Array:  # noqa: ARG001
            next_values = table[transition.next_obs]
            best = next_values == jnp.max(next_values)
            policy = (1 - self.epsilon) * best / jnp.sum(best) + self.epsilon / actions
            target = transition.reward + transition.discount * policy @ next_values
            error = target - table[transition.obs, transition.action]
            return table.at[transition.obs, transition.action].add(jnp.where(transition.valid, hypers.lr * error, 0.0))

        def consolidate(table: Array, hypers: Hypers, key: Key, active: Array | bool) -> Array:  # noqa: ARG001
            return table  # nothing to consolidate

        def inspect(table: Array, obs: Array) -> dict[str, Array]:
            return {"value": table[obs]}

        return Agent(init, act, learn, consolidate, inspect)


def main(episodes: int = 50, segments: int = 6, seeds: int = 10) -> dict[str, float]:
    """Mean discounted return of each agent over `segments` segments, each with one of the paper's four tasks."""
    world = CornerGrid()
    stream = Stream(CORNER_TASKS, cyclic(4, segments), Episodes(episodes), boundaries_known=True)
    spec = EnvSpec(world.observation, world.num_actions, stream.num_tasks, world.discount)
    agents: list[AgentConfig] = [
        ExpectedSARSA(),
        Q(lr=0.5),
        PTQ(permanent_lr=0.01, transient_lr=0.5, decay=0.0, consolidate_every=None),
    ]
    returns = {}
    for config in agents:
        driver = Driver(LifeConfig(config.build(spec), world, stream, episode_return()))
        outcome = driver.run([hypers_of(config)] * seeds, range(seeds))
        returns[config.name] = float(outcome.record["discounted_return"].mean())
        print(f"{config.name}: {returns[config.name]:+.3f} per episode")
    return returns


if __name__ == "__main__":
    main()
