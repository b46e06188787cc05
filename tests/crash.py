"""Kills a small deep run again and again, wherever it happens to be, and sees that it ends as if nothing had happened.

`make crash-test` does it a hundred times; `test_survival.py` four times.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jax import Array

from remanence.agents import Agent
from remanence.agents.configs import PTDQN
from remanence.core.errors import Stopped, UserError
from remanence.core.learners import XLA
from remanence.core.prng import unwrap_keys
from remanence.core.types import Episodes, Key, ObsSpec, TimeStep
from remanence.engine.life import Probe, ProbeInput
from remanence.results import Results, load
from remanence.results.store import find_runs
from remanence.runs.execution import Execution
from remanence.runs.plan import Contender, Plan
from remanence.runs.progress import messages
from remanence.runs.run import execute
from remanence.streams import Stream, cyclic
from remanence.worlds import SlipperyGrid, World

NAME = "small-deep"
CHECKPOINT = "checkpoint/*[0-9]/manifest.json"  # of a group, once it is whole
MAZE = SlipperyGrid(width=3, height=2, walls=(), goals=((2, 1), (2, 0)), slip=0.1, discount=0.8)
SWAP = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32)


@dataclass(frozen=True)
class BitMaze(World):
    """A maze of six cells whose observations are one-hot bits."""

    num_actions: int = MAZE.num_actions
    discount: float = MAZE.discount
    observation = ObsSpec((MAZE.num_states,), "bool")

    def reset(self, key: Key, task: Array) -> tuple[Any, Array]:
        state, obs = MAZE.reset(key, task)
        return state, obs == jnp.arange(MAZE.num_states)

    def step(self, key: Key, state: Any, action: Array, task: Array) -> tuple[Any, TimeStep]:
        state, seen = MAZE.step(key, state, action, task)
        return state, seen._replace(obs=seen.obs == jnp.arange(MAZE.num_states))


def everything(_: Agent) -> Probe:
    """The return, and a number to which every array of the agent contributes: replay, weights, moments, target and cache."""

    def probe(probe_input: ProbeInput) -> dict[str, Array]:
        total = sum(jnp.sum(leaf.astype(jnp.float32)) for leaf in jax.tree.leaves(unwrap_keys(probe_input.agent)))
        return {"return": probe_input.window.reward, "agent": jnp.asarray(total)}

    return probe


def plan(episodes: int) -> Plan:
    """PT-DQN with two networks and cached permanent values, in tasks that swap."""
    config = PTDQN(
        permanent_lr=0.003,
        transient_lr=0.005,
        decay=0.5,
        hidden=(16,),
        batch=32,
        replay=400,
        target_every=20,
        epsilon=0.2,
        consolidate_every=Episodes(40),
        permanent_optimizer="adam",
        in_order=False,
        max_batches=100,
        min_batches=50,
    )
    return Plan(
        world=BitMaze(),
        stream=Stream(SWAP, cyclic(2, 4), Episodes(episodes // 4), boundaries_known=False),
        contenders={"PT-DQN": Contender(config)},
        probe=everything,
        round_steps=4,
    )


def live(
    out: Path, episodes: int, every: float, groups_of: int | None = None, learner: str = XLA, **options: Any
) -> Results:
    """The run itself, with checkpoints as often as possible."""
    execution = Execution(checkpoint_every=every, lanes_per_group=groups_of, learner=learner, **options)
    return execute(NAME, "test", plan(episodes), 4, out, messages(), execution)


def command(out: Path, episodes: int, every: float = 0.05, learner: str = XLA) -> list[str]:
    options = ["--episodes", str(episodes), "--every", str(every), "--learner", learner]
    return [sys.executable, __file__, "live", str(out), *options]


def the_run(out: Path) -> Path:
    return find_runs(out, NAME)[0]


def same(one: Results, other: Results) -> bool:
    return one.lanes.equals(other.lanes) and one.curves.equals(other.curves)


@dataclass
class Torment:
    """What was done to a run."""

    kills: int = 0
    while_writing: int = 0
    starts: int = 0
    seconds: float = 0.0


def torment(out: Path, episodes: int, kills: int, seed: int, learner: str = XLA) -> Torment:
    """Starts the run and kills it until it was killed so often, then lets it finish.

    Every other kill waits for a checkpoint that is being written; the rest come some random time after the start.
    """
    luck, done, began = random.Random(seed), Torment(), time.monotonic()
    while done.kills < kills:
        process = subprocess.Popen(command(out, episodes, learner=learner), stderr=subprocess.DEVNULL)
        done.starts += 1
        wait_for_write = done.kills % 2 == 1
        deadline = time.monotonic() + (luck.uniform(0.0, 1.0) if wait_for_write else luck.uniform(0.0, 7.0))
        writing = False
        while process.poll() is None and not (time.monotonic() > deadline and (writing or not wait_for_write)):
            writing = any(out.glob(f"{NAME}/*/groups/*/checkpoint/*.partial"))
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            break  # it came to its end
        done.kills += 1
        done.while_writing += wait_for_write
    subprocess.run(command(out, episodes, learner=learner), check=True, stderr=subprocess.DEVNULL)
    done.starts += 1
    done.seconds = time.monotonic() - began
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    one = modes.add_parser("live")
    one.add_argument("out", type=Path)
    one.add_argument("--episodes", type=int, required=True)
    one.add_argument("--every", type=float, required=True)
    one.add_argument("--groups-of", type=int)
    one.add_argument("--jobs", type=int, default=1)
    one.add_argument("--on", default="here")
    one.add_argument("--address")
    one.add_argument("--learner", default=XLA)
    many = modes.add_parser("torment")
    many.add_argument("--kills", type=int, default=100)
    many.add_argument("--episodes", type=int, default=16_000)
    many.add_argument("--seed", type=int, default=0)
    many.add_argument("--learner", default=XLA)
    asked = parser.parse_args()
    if asked.mode == "live":
        try:
            live(
                asked.out,
                asked.episodes,
                asked.every,
                asked.groups_of,
                asked.learner,
                jobs=asked.jobs,
                on=asked.on,
                address=asked.address,
            )
        except Stopped as stopped:
            sys.exit(128 + stopped.signal)
        except UserError as error:
            sys.exit(str(error))
        return
    with tempfile.TemporaryDirectory() as folder:
        calm, rough = Path(folder) / "calm", Path(folder) / "rough"
        subprocess.run(
            command(calm, asked.episodes, every=60.0, learner=asked.learner), check=True, stderr=subprocess.DEVNULL
        )
        done = torment(rough, asked.episodes, asked.kills, asked.seed, asked.learner)
        undisturbed, survivor = load(the_run(calm)), load(the_run(rough))
        log = pl.read_ndjson(the_run(rough) / "log.jsonl", infer_schema_length=None)
    written = log.filter(pl.col("event") == "checkpoint")
    print(
        f"{done.kills} kills ({done.while_writing} while a checkpoint was being written), {done.starts} starts, "
        f"{len(written)} checkpoints logged, {done.seconds:.0f} s: "
        f"{'bit-identical' if same(undisturbed, survivor) else 'DIFFERENT'}"
    )
    sys.exit(0 if same(undisturbed, survivor) and done.kills == asked.kills else 1)


if __name__ == "__main__":
    main()
