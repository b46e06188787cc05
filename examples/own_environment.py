"""The paper's agents in your own environment: a frozen lake that becomes more slippery, task boundaries unknown.

Any Gymnasium environment with discrete actions works. Here the changing parameter is the probability that a step
goes in the intended direction; with `remanence.Drift` it would change gradually.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import remanence


def make() -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", is_slippery=True)


def grip(env: Any, chance: float) -> None:
    """Sets the probability of the intended direction; otherwise a step goes to one of the two sides."""
    lake = env.unwrapped
    for state, actions in lake.P.items():
        for action, outcomes in actions.items():
            if len(outcomes) == 3:  # on the ice; holes and the goal are terminal
                shares = ((1 - chance) / 2, chance, (1 - chance) / 2)
                lake.P[state][action] = [(p, *rest) for p, (_, *rest) in zip(shares, outcomes, strict=True)]


def main(steps: int = 20_000, seeds: int = 4, picture: str | None = "frozen-lake.svg") -> dict[str, np.ndarray]:
    """[seeds] mean reward per step of each agent."""
    results = remanence.live(
        ["PT-Q", "Q", "Random"],
        make,
        remanence.Switches(grip, values=(0.95, 0.6), every=steps // 4, segments=4),
        seeds=seeds,
    )
    if picture:
        results.plot().save(picture)
    rates = {name: results.matrix(name, "reward_rate").mean(axis=1) for name in results.contenders}
    for name, rate in rates.items():
        print(f"{name}: {rate.mean():.4f} reward per step")
    policy = results.policy("PT-Q")
    print("in the start state PT-Q goes", ("left", "down", "right", "up")[policy.act(0)])
    return rates


if __name__ == "__main__":
    main()
