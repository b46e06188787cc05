"""Deep agents: whole lives in Jelly Bean World and MinAtar with every learner, and single steps in the two rooms."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN, PTDQN
from remanence.bench.lives import LifeSizes, smoke_lives, whole_lives
from remanence.bench.measure import Report, Row, memory_row
from remanence.bench.work import matrix_product, useful_operations
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import EnvSpec, Steps
from remanence.engine.lanes import Driver, Progress
from remanence.engine.life import LifeConfig
from remanence.experiments import figure5_jellybean
from remanence.experiments.base import PAPER, RELEASED
from remanence.experiments.deep import CONTROL_HEAD, rooms_trunk
from remanence.streams import Stream
from remanence.worlds import TWO_ROOMS_TASKS, World, two_rooms


@dataclass(frozen=True)
class Sizes:
    """Length of the timed lives, and number of lanes."""

    lanes: int = 4
    steps: int = 1200
    round_steps: int = 50
    matrix: int = 2048  # rows and columns of the matrix product that measures the machine
    contestants: tuple[str, ...] = ()  # all if empty
    lives: Mapping[str, LifeSizes] = field(
        default_factory=lambda: {
            "figure5/jellybean": LifeSizes(RELEASED, contenders=("PT-DQN", "DQN")),
            "figure5/minatar": LifeSizes(PAPER, contenders=("PT-DQN", "DQN", "DQN-large-buffer")),
        }
    )  # of experiments


FULL = Sizes()
SMOKE = Sizes(
    lanes=2,
    steps=120,
    round_steps=10,
    matrix=64,
    contestants=("PT-DQN, two rooms",),
    lives={"figure5/jellybean": smoke_lives("PT-DQN")},
)
ROUNDS_PER_CHUNK = 4


@dataclass(frozen=True)
class Contestant:
    """An agent in a world."""

    world: World
    config: DQN | PTDQN

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(self.world.observation, self.world.num_actions)


def run(progress: Callable[[str], None], sizes: Sizes = FULL, against: str | None = None) -> Report:
    """About ten minutes."""
    progress("matrix product")
    peak = matrix_product(sizes.matrix)
    rows, rates = [Row(f"matrix product {sizes.matrix}×{sizes.matrix}, all cores", peak / 1e9, "GFLOP/s")], []
    for experiment, lives in sizes.lives.items():
        can_play = against != "sb3" or experiment == "figure5/minatar"
        found, of_lives = whole_lives(experiment, lives, progress, against if can_play else None)
        rows, rates = [*rows, *found], [*rates, *of_lives]
    for name, contestant in _contestants(sizes.steps).items():
        if sizes.contestants and name not in sizes.contestants:
            continue
        progress(name)
        seconds, weight = _step_seconds(contestant, sizes)
        work = useful_operations(contestant.config, contestant.spec)
        rows += [
            Row(f"{name}: a step of a lane", 1e3 * seconds, "ms", f"{sizes.lanes} lanes"),
            Row(f"{name}: useful work", work / 1e6, "MFLOP", f"{work / seconds / 1e9:.3g} GFLOP/s"),
            Row(f"{name}: share of the matrix product", 100 * work / seconds / peak, "%"),
            Row(f"{name}: memory of a lane", weight / 2**20, "MiB"),
        ]
    return Report("deep", [*rows, *memory_row()], lives=rates)


def _contestants(steps: int) -> dict[str, Contestant]:
    """DQN and PT-DQN with the networks of the two rooms; they consolidate after `steps` steps."""
    rooms = two_rooms()
    small: dict[str, Any] = {"trunk": rooms_trunk(), "layers": CONTROL_HEAD, "output_init": "small", "replay": 100_000}
    chosen: dict[str, Any] = {**figure5_jellybean.CHOSEN, "consolidate_every": steps}
    return {
        "DQN, two rooms": Contestant(rooms, DQN(lr=1e-4, **small)),
        "PT-DQN, two rooms": Contestant(rooms, PTDQN(**small, **chosen, reinit=True)),
    }


def _step_seconds(contestant: Contestant, sizes: Sizes) -> tuple[float, float]:
    """Seconds of the whole machine per step of one lane, in the best of the later chunks, and bytes per lane."""
    world, agent, hypers = contestant.world, contestant.config.build(contestant.spec), hypers_of(contestant.config)
    stream = Stream(TWO_ROOMS_TASKS[:1], (0,), Steps(sizes.steps), boundaries_known=True)
    life = LifeConfig(agent, world, stream, lambda probe_input: probe_input.window.reward, window=sizes.steps)
    driver = Driver(life, sizes.round_steps, rounds_per_chunk=ROUNDS_PER_CHUNK)
    times: list[tuple[float, int]] = []

    def record_time(progress: Progress) -> None:
        times.append((time.perf_counter(), progress.steps))

    driver.run([hypers] * sizes.lanes, list(range(sizes.lanes)), record_time)
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(times[1:])]
    return 1.0 / max(rates), tree_nbytes(jax.eval_shape(agent.init, jax.random.key(0), hypers))
