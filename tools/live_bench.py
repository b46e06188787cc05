"""PT-DQN against DQN in small environments that stay the same, return, or drift: `python tools/live_bench.py --help`.

    stationary   nothing changes
    recurring    the meaning of the actions is turned by one and back, every segment
    drifting     actions are replaced by random ones more and more often, up to 30 % of them

One row per environment, stream and agent: mean reward per step and mean return over the life, with standard errors over seeds, and
the largest value at the end relative to what rewards allow.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl

import remanence
from remanence import DQN, PTDQN, Drift, Switches


class Changing(gymnasium.Wrapper):
    """An environment whose actions are turned, or replaced by random ones with some probability."""

    turn, noise = 0, 0.0

    def step(self, action: Any) -> Any:
        count = int(self.action_space.n)  # type: ignore[attr-defined]
        if self.noise and self.np_random.random() < self.noise:
            action = self.np_random.integers(count)
        return self.env.step(int(action + self.turn) % count)


def _turn(env: Any, value: int) -> None:
    _changing(env).turn = value


def _noise(env: Any, value: float) -> None:
    _changing(env).noise = value


def _changing(env: Any) -> Changing:
    while not isinstance(env, Changing):
        env = env.env
    return env


def _minigrid() -> gymnasium.Env:
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))


@dataclass(frozen=True)
class Case:
    make: Callable[[], gymnasium.Env]
    steps: int
    fields: dict[str, Any]
    """of all agents"""


CASES = {
    "CartPole": Case(lambda: gymnasium.make("CartPole-v1"), 60_000, {}),
    "Acrobot": Case(lambda: gymnasium.make("Acrobot-v1"), 60_000, {}),
    "FrozenLake": Case(lambda: gymnasium.make("FrozenLake-v1"), 60_000, {}),
    "MiniGrid": Case(_minigrid, 60_000, {"scale": 10.0}),
    "Breakout": Case(lambda: gymnasium.make("remanence/MinAtarBreakout-v0"), 120_000, {}),
    "Freeway": Case(lambda: gymnasium.make("remanence/MinAtarFreeway-v0"), 120_000, {}),
}
SEGMENTS = 6


def agents(steps: int, fields: dict[str, Any]) -> dict[str, Any]:
    """DQN, the paper's form of PT-DQN, and PT-DQN with a half-life; each also without remembering."""
    third = steps // SEGMENTS // 3
    return {
        "DQN": DQN(**fields),
        "PT-DQN, paper": PTDQN(**fields),
        "PT-DQN, paper, ᾱ=0": PTDQN(permanent_lr=0.0, **fields),
        "PT-DQN, half-life": PTDQN(transient_half_life=third, **fields),
        "PT-DQN, half-life, a=0": PTDQN(transient_half_life=third, absorb=0.0, **fields),
    }


def stream(kind: str, steps: int) -> Any:
    if kind == "recurring":
        return Switches(_turn, (0, 1), every=steps // SEGMENTS, segments=SEGMENTS)
    return Drift(_noise, 0.0, 0.3, steps=steps) if kind == "drifting" else steps


def rows(name: str, kind: str, seeds: int, only: list[str], share: float) -> list[dict[str, Any]]:
    case = CASES[name]
    steps = int(case.steps * share) // (20 * SEGMENTS) * 20 * SEGMENTS
    chosen = {agent: config for agent, config in agents(steps, case.fields).items() if not only or agent in only}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = remanence.live(
            chosen, lambda: Changing(case.make()), stream(kind, steps), seeds=seeds, progress=False
        )
    found = []
    for agent in results.contenders:
        row: dict[str, Any] = {"environment": name, "stream": kind, "agent": agent, "steps": steps, "seeds": seeds}
        for metric in ("reward_rate", "return"):
            means = results.matrix(agent, metric).mean(axis=1)
            row[metric], row[f"{metric}_se"] = float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))
        for metric in ("value_ratio", "permanent_size", "transient_size", "absorbed", "kept"):
            row[metric] = float(results.matrix(agent, metric)[:, -1].mean())
        row["value_ratio_max"] = float(results.matrix(agent, "value_ratio").max())
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--streams", nargs="*", default=["stationary", "recurring", "drifting"])
    parser.add_argument("--agents", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of steps")
    parser.add_argument("--to", type=Path, default=Path("live-bench.csv"))
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name in options.environments:
        for kind in options.streams:
            new = rows(name, kind, options.seeds, options.agents, options.share)
            found += new
            pl.DataFrame(found).write_csv(options.to)
            for row in new:
                print(
                    f"{name:10} {kind:10} {row['agent']:24} reward {row['reward_rate']:.4f} ± {row['reward_rate_se']:.4f}  "
                    f"return {row['return']:8.2f} ± {row['return_se']:.2f}  |V| {row['value_ratio']:.2f} "
                    f"(most {row['value_ratio_max']:.2f})  V^P {row['permanent_size']:.3g} V^T {row['transient_size']:.3g}  "
                    f"absorbed {row['absorbed']:.4f} kept {row['kept']:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
