"""PT-DQN against DQN in small environments that stay the same, return, or drift: `python tools/live_bench.py --help`.

    stationary   nothing changes
    recurring    the meaning of the actions is turned by one and back, every segment
    drifting     actions are replaced by random ones more and more often, up to 30 % of them

Each cell (environment, stream, agent) is written to a file as it finishes, with one row per seed; the same command runs only cells
that are not there yet. `--table` prints what is there as Markdown: reward per step, or the return of episodes where every step has
the same reward; differences from DQN, paired over seeds, with Student's 90 % intervals, and verdicts after Holm's correction over
all of them; the largest value relative to what rewards allow.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl

import remanence
from remanence import DQN, PTDQN, Drift, Switches
from remanence.agents.networks import Conv, Dense, Flatten, Relu
from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, is_negative, judged
from remanence.results.statistics import student_interval

STREAMS = ("stationary", "recurring", "drifting")
SEGMENTS = 6


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
    metric: str = "reward_rate"


# One gradient step for four steps and one convolution of eight filters: ten seeds of all agents take an hour, not four.
SMALL_IMAGES = {"train_every": 4, "layers": (Conv(8, 3), Relu(), Flatten(), Dense(64), Relu())}
CASES = {
    "CartPole": Case(lambda: gymnasium.make("CartPole-v1"), 24_000, {}, "return"),
    "Acrobot": Case(lambda: gymnasium.make("Acrobot-v1"), 24_000, {}, "return"),
    "FrozenLake": Case(lambda: gymnasium.make("FrozenLake-v1", is_slippery=False), 24_000, {}),
    "MiniGrid": Case(_minigrid, 12_000, {"scale": 10.0, **SMALL_IMAGES}),
    "Breakout": Case(lambda: gymnasium.make("remanence/MinAtarBreakout-v0"), 12_000, SMALL_IMAGES),
    "Freeway": Case(lambda: gymnasium.make("remanence/MinAtarFreeway-v0"), 12_000, SMALL_IMAGES),
}


def agents(steps: int, fields: dict[str, Any]) -> dict[str, Any]:
    """DQN; PT-DQN in the paper's form, by default, with a half-life that fits the tasks, and with nothing forgotten. All have a
    replay buffer of half a task."""
    task = steps // SEGMENTS
    shared = {"replay": task // 2, **fields}
    half_life = task // 3
    return {
        "DQN": DQN(**shared),
        "PT-DQN, the paper's form": PTDQN(transient_half_life=None, **shared),
        "PT-DQN": PTDQN(**shared),
        "PT-DQN, half-life": PTDQN(transient_half_life=half_life, **shared),
        "PT-DQN, nothing forgotten": nothing_forgotten(half_life, shared),
    }


def nothing_forgotten(half_life: int, fields: dict[str, Any]) -> PTDQN:
    """All that leaves V^T goes to V^P: a + λ = 1."""
    like = PTDQN(transient_half_life=half_life, **fields)
    return PTDQN(transient_half_life=half_life, absorb=1 - like.decay, **fields)  # type: ignore[operator]


def stream(kind: str, steps: int) -> Any:
    if kind == "recurring":
        return Switches(_turn, (0, 1), every=steps // SEGMENTS, segments=SEGMENTS)
    return Drift(_noise, 0.0, 0.3, steps=steps) if kind == "drifting" else steps


def steps_of(name: str, share: float) -> int:
    return int(CASES[name].steps * share) // (20 * SEGMENTS) * 20 * SEGMENTS


def cell(name: str, kind: str, agent: str, seeds: int, steps: int) -> list[dict[str, Any]]:
    """One row for each seed that did not diverge."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = remanence.live(
            {agent: agents(steps, case.fields)[agent]},
            lambda: Changing(case.make()),
            stream(kind, steps),
            seeds=seeds,
            progress=False,
        )
    means = {one: results.matrix(agent, one).mean(axis=1) for one in ("reward_rate", "return")}
    last = {one: results.matrix(agent, one)[:, -1] for one in ("permanent_size", "transient_size", "absorbed", "kept")}
    largest = results.matrix(agent, "value_ratio").max(axis=1)
    return [
        {"environment": name, "stream": kind, "agent": agent, "steps": steps, "seeds": seeds, "seed": seed}
        | {metric: float(values[row]) for metric, values in {**means, **last, "value_ratio": largest}.items()}
        for row, seed in enumerate(results.sound_seeds(agent))
    ]


def missing(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """The cells that are not in the file."""
    done = read(options.to)
    for name in options.environments:
        steps = steps_of(name, options.share)
        for kind in options.streams:
            for agent in options.agents or agents(steps, CASES[name].fields):
                there = done.filter(_is_cell(name, kind, agent) & (pl.col("steps") == steps)) if len(done) else done
                if not len(there) or there["seeds"][0] < options.seeds:
                    yield name, kind, agent, steps


def _is_cell(name: str, kind: str, agent: str) -> pl.Expr:
    return (pl.col("environment") == name) & (pl.col("stream") == kind) & (pl.col("agent") == agent)


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema_length=None) if path.exists() else pl.DataFrame()


def run(options: argparse.Namespace) -> None:
    for name, kind, agent, steps in missing(options):
        rows = pl.DataFrame(cell(name, kind, agent, options.seeds, steps))
        done = read(options.to)
        others = done.filter(~_is_cell(name, kind, agent)) if len(done) else done
        new = options.to.with_suffix(".new")
        pl.concat([others, rows], how="diagonal").write_csv(new)
        new.replace(options.to)  # never half a file
        print(
            f"{name:10} {kind:10} {agent:26} reward {rows['reward_rate'].mean():.4f}  return {rows['return'].mean():8.2f}"
            f"  |V| {rows['value_ratio'].mean():.2f}",
            flush=True,
        )


def table(rows: pl.DataFrame) -> str:
    """What the bench found, as Markdown."""
    cells = {
        keys: part.sort("seed") for keys, part in rows.group_by("environment", "stream", "agent", maintain_order=True)
    }
    compared = {
        keys: _gain(part, cells[(*keys[:2], "DQN")]) for keys, part in cells.items() if (*keys[:2], "DQN") in cells
    }
    verdicts = judged([is_negative(-gain, "") for keys, gain in compared.items() if keys[2] != "DQN"])
    names = [keys for keys in compared if keys[2] != "DQN"]
    said = {REPRODUCED: "better", NOT_REPRODUCED: "worse"}
    verdict = {keys: said.get(one.verdict, one.verdict) for keys, one in zip(names, verdicts, strict=True)}
    lines = [
        "| environment | stream | agent | reward per step, or return | gain over DQN | verdict | largest value |",
        "|---|---|---|---|---|---|---|",
    ]
    for keys, part in cells.items():
        mean, low, high = student_interval(part[_metric(part)].to_numpy())
        gain = ""
        if keys in verdict:
            gain = "{:+.4g} [{:+.4g}, {:+.4g}]".format(*student_interval(compared[keys]))
        ratio = part["value_ratio"].to_numpy()
        lines.append(
            f"| {' | '.join(map(str, keys))} | {mean:.4g} ± {(high - low) / 2:.2g} | {gain} | {verdict.get(keys, '')} | "
            f"{ratio.mean():.2f} (most {ratio.max():.2f}) |"
        )
    return "\n".join(lines)


def _gain(part: pl.DataFrame, plain: pl.DataFrame) -> np.ndarray:
    """What it has more than DQN, in the seeds that both have."""
    both, metric = part.join(plain, on="seed", suffix="_plain"), _metric(part)
    return both[metric].to_numpy() - both[f"{metric}_plain"].to_numpy()


def _metric(part: pl.DataFrame) -> str:
    return CASES[part["environment"][0]].metric


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=STREAMS)
    parser.add_argument("--agents", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of steps")
    parser.add_argument("--to", type=Path, default=Path("live-bench.csv"))
    parser.add_argument("--table", action="store_true", help="run nothing, print the table of what is there")
    options = parser.parse_args()
    if options.table:
        print(table(read(options.to)))
    else:
        run(options)


if __name__ == "__main__":
    main()
