"""The paper's agents in an environment of your own: a frozen lake whose ice gets more slippery, in switches nobody is told of.

Any Gymnasium environment with discrete actions will do. Here the parameter is the chance that a step goes where it was meant to;
with `remanence.Drift` it would change little by little.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import remanence


def make() -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", is_slippery=True)


def grip(env: Any, chance: float) -> None:
    """Steps go as meant with this chance, else to one of the two sides."""
    lake = env.unwrapped
    for state, actions in lake.P.items():
        for action, outcomes in actions.items():
            if len(outcomes) == 3:  # on the ice; nothing moves in holes and at the goal
                shares = ((1 - chance) / 2, chance, (1 - chance) / 2)
                lake.P[state][action] = [(p, *rest) for p, (_, *rest) in zip(shares, outcomes, strict=True)]


def main(steps: int = 20_000, seeds: int = 4, picture: str | None = "frozen-lake.svg") -> dict[str, np.ndarray]:
    """[seeds] reward per step of each agent, over its life."""
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
    print("at the start PT-Q goes", ("left", "down", "right", "up")[policy.act(0)])
    return rates


if __name__ == "__main__":
    main()
