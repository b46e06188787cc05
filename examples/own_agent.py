"""Your own agent against ours: Expected SARSA beside Q-learning and PT-Q, in the paper's grid with changing goal rewards.

    python examples/own_agent.py

An agent is a tuple of pure functions for one lane; `Driver` runs it for many seeds at once. All its memory is in the state,
which every function takes and returns. `learn` is also called while a lane waits for others: `transition.valid` is then False, and
the state must not change.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from remanence.agents import Agent, Hypers, pt_q, q_learning
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.linear import linear, one_hot
from remanence.core.types import Episodes, Key, Transition
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_return
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.grids.corner import CORNER_TASKS


def expected_sarsa(states: int, actions: int, epsilon: float) -> Agent:
    """Q(s, a) ← Q(s, a) + α [ r + γ Σ_b π(b|s') Q(s', b) − Q(s, a) ], with π the ε-greedy behavior policy."""
    behaviour = epsilon_greedy(epsilon)

    def init(key: Key, hypers: Hypers) -> Array:  # noqa: ARG001
        return jnp.zeros((states, actions))

    def act(table: Array, hypers: Hypers, obs: Array, key: Key) -> Array:
        return behaviour(table[obs], hypers, key)

    def learn(table: Array, hypers: Hypers, transition: Transition, key: Key) -> Array:  # noqa: ARG001
        then = table[transition.next_obs]
        best = then == jnp.max(then)
        policy = (1 - epsilon) * best / jnp.sum(best) + epsilon / actions
        target = transition.reward + transition.discount * policy @ then
        error = target - table[transition.obs, transition.action]
        return table.at[transition.obs, transition.action].add(jnp.where(transition.valid, hypers.lr * error, 0.0))

    def consolidate(table: Array, hypers: Hypers, key: Key) -> Array:  # noqa: ARG001
        return table  # nothing is done at a switch

    def inspect(table: Array, obs: Array) -> dict[str, Array]:
        return {"value": table[obs]}

    return Agent(init, act, learn, consolidate, inspect)


def main(episodes: int = 50, segments: int = 6, seeds: int = 10) -> dict[str, float]:
    """Mean discounted return of each agent over `segments` segments, each with one of the paper's four tasks."""
    world = CornerGrid()
    stream = Stream(CORNER_TASKS, cyclic(4, segments), Episodes(episodes), boundaries_known=True)
    value, behaviour = linear(one_hot(world.num_states), outputs=world.num_actions), epsilon_greedy(0.1)
    contenders: dict[str, tuple[Agent, Any]] = {
        "Expected SARSA": (expected_sarsa(world.num_states, world.num_actions, 0.1), Hypers(lr=0.5)),
        "Q": (q_learning(value, behaviour), Hypers(lr=0.5)),
        "PT-Q": (pt_q(value, behaviour), Hypers(permanent_lr=0.01, transient_lr=0.5, decay=0.0)),
    }
    returns = {}
    for name, (agent, hypers) in contenders.items():
        lives = Driver(LifeConfig(agent, world, stream, episode_return())).run([hypers] * seeds, range(seeds))
        returns[name] = float(lives.record["return"].mean())
        print(f"{name}: {returns[name]:+.3f} per episode")
    return returns


if __name__ == "__main__":
    main()
