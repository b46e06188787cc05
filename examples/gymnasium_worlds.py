"""Our worlds with `gymnasium.make`: a random agent in some of them, and your own stream of tasks.

    python examples/gymnasium_worlds.py

`info["task"]` is the current task, for your measurements. Agents do not observe it, unless you make the stream with
`observe_task=True`: observations are then {"obs": …, "task": …}.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import gymnasium

from remanence.gym import TaskSwitching

SOME = ("CornerGridStream", "SlipperyGridStream", "TwoRooms", "MinAtarBreakout", "JellyBeanStream")


def wander(env: gymnasium.Env, steps: int) -> tuple[float, int, set[int]]:
    """The sum of rewards of a random agent, the number of finished episodes, and the tasks."""
    total, ended, tasks = 0.0, 0, set()
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(steps):
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        total += float(reward)
        tasks.add(info["task"])
        if terminated or truncated:
            ended += 1
            env.reset()
    return total, ended, tasks


def main(steps: int = 1_000, names: Sequence[str] = SOME) -> dict[str, set[int]]:
    """The tasks of each world's run."""
    print("registered:", *(name for name in gymnasium.registry if name.startswith("remanence/")), sep="\n  ")
    met = {}
    for name in names:
        env = gymnasium.make(f"remanence/{name}-v0")
        wander(env, 2)  # compiles
        began = time.monotonic()
        total, ended, met[name] = wander(env, steps)
        pace = 1e6 * (time.monotonic() - began) / steps
        print(
            f"{name}: {env.observation_space}, {env.action_space}; {total:+.1f} in {ended} episodes, {pace:.0f} µs per step"
        )

    # Any order and length of tasks: here the second and the third in turn, for 100 steps each.
    env = TaskSwitching(gymnasium.make("remanence/CornerGrid-v0"), steps=100, order=(1, 2))
    *_, met["own stream"] = wander(env, steps)
    print("own stream: tasks", met["own stream"])
    return met


if __name__ == "__main__":
    main()
