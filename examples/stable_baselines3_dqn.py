"""An agent of another library in our stream: stable-baselines3's DQN in Jelly Bean World, task boundaries unknown.

    pip install stable-baselines3    # not a dependency of this package
    python examples/stable_baselines3_dqn.py

DQN has the paper's network and settings. Tasks switch after each third of the run; in the paper, every 150 000 steps.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation, FrameStackObservation
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import remanence.gym  # noqa: F401  registers our worlds


class RewardsByTask(BaseCallback):
    """Records the reward and the task of every step: the environment is continuing, so there are no episodes to report."""

    def __init__(self) -> None:
        super().__init__()
        self.lived: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        info: dict[str, Any] = self.locals["infos"][0]
        self.lived.append((info["task"], float(self.locals["rewards"][0])))
        return True


def make_world(switch_every: int) -> gymnasium.Env:
    """The stream for stable-baselines3: four frames of [11, 11, 3] as one vector."""
    world = gymnasium.make("remanence/JellyBeanStream-v0", preset="released", steps=switch_every)
    return FlattenObservation(FrameStackObservation(world, 4))


def main(steps: int = 10_000, seed: int = 1) -> dict[str, float]:
    """Reward per step in each third of the run, and of a random agent."""
    switch_every = -(-steps // 3)
    agent = DQN(
        "MlpPolicy",
        make_world(switch_every),
        learning_rate=1e-4,
        buffer_size=8_000,
        learning_starts=64,
        batch_size=64,
        gamma=0.9,
        train_freq=1,
        target_update_interval=200,
        exploration_fraction=1e-9,
        exploration_final_eps=0.1,
        policy_kwargs={"net_arch": [512, 256, 128]},
        seed=seed,
    )
    rewards, began = RewardsByTask(), time.monotonic()
    agent.learn(steps, callback=rewards)
    print(f"{steps} steps in {time.monotonic() - began:.0f} s")

    world = make_world(switch_every)
    world.reset(seed=seed)
    world.action_space.seed(seed)
    rates = {"random": sum(float(world.step(world.action_space.sample())[1]) for _ in range(steps)) / steps}
    for segment in range(3):
        part = rewards.lived[segment * switch_every : (segment + 1) * switch_every]
        assert {task for task, _ in part} == {segment % 2}
        rates[f"DQN, task {segment % 2}, third {segment + 1}"] = sum(reward for _, reward in part) / len(part)
    for name, rate in rates.items():
        print(f"{name}: {rate:+.3f} per step")
    return rates


if __name__ == "__main__":
    main()
