"""Deep updates: their share of the machine's matrix product, the time of a step, and the memory of a lane.

Useful operations are those of the update itself: a forward pass for the targets, one for the values, the gradients of all weights
and of all hidden layers. Acting, sampling, the optimizer and the rest count as time but not as work.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN, PTDQN, Deep
from remanence.agents.dqn import DeepState
from remanence.agents.networks import Dense, sequence
from remanence.bench.measure import Report, Row, memory_row
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import EnvSpec, Key, ObsSpec, Steps, TimeStep
from remanence.engine.lanes import Batch, Driver, Progress
from remanence.engine.life import LifeConfig
from remanence.experiments import figure5_jellybean
from remanence.experiments.base import SMOKE as SMOKE_PRESET
from remanence.experiments.deep import CONTROL_HEAD, rooms_trunk
from remanence.runs.jobs import make_driver
from remanence.runs.plan import Plan
from remanence.streams import Stream
from remanence.worlds import TWO_ROOMS_TASKS, Rooms, World, two_rooms

BATCH = 64


@dataclass(frozen=True)
class Sizes:
    """Length of the timed lives, and number of lanes."""

    lanes: int = 4
    steps: int = 1200
    round_steps: int = 50
    matrix: int = 2048  # rows and columns of the matrix product that measures the machine
    contestants: tuple[str, ...] = ()  # all if empty


FULL = Sizes()
SMOKE = Sizes(lanes=2, steps=120, round_steps=10, matrix=64, contestants=("DQN, Jelly Bean size", "PT-DQN, two rooms"))
ROUNDS_PER_CHUNK = 4


@dataclass(frozen=True)
class Noise(World):
    """Random binary frames of the size of Jelly Bean World's: a world that takes almost no time."""

    bits: int = 363
    discount: float = 0.9
    num_actions: int = 4

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((self.bits,), "bool")

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del task
        return jnp.int32(0), jax.random.bernoulli(key, 0.05, (self.bits,))

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        seen = jax.random.bernoulli(key, 0.05, (self.bits,))
        return state, TimeStep(seen, task + action, jnp.float32(self.discount), jnp.bool_(False))


@dataclass(frozen=True)
class Contestant:
    """An agent in a world."""

    world: World
    config: DQN | PTDQN

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(self.world.observation, self.world.num_actions)


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """About two minutes."""
    progress("matrix product")
    peak = matrix_product(sizes.matrix)
    rows = [Row(f"matrix product {sizes.matrix}×{sizes.matrix}, all cores", peak / 1e9, "GFLOP/s")]
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
    return Report("deep", [*rows, *memory_row()])


def _contestants(steps: int) -> dict[str, Contestant]:
    """DQN and PT-DQN with the networks of Jelly Bean World and of the two rooms; they consolidate after `steps` steps."""
    rooms, noise = two_rooms(), Noise()
    jelly: dict[str, Any] = {
        "layers": figure5_jellybean.layers(0.5),
        "output_init": "small",
        "replay": 8000,
        "frames": 4,
    }
    small: dict[str, Any] = {"trunk": rooms_trunk(), "layers": CONTROL_HEAD, "output_init": "small", "replay": 100_000}
    chosen: dict[str, Any] = {**figure5_jellybean.CHOSEN, "consolidate_every": steps}
    return {
        "DQN, Jelly Bean size": Contestant(noise, DQN(lr=1e-4, **jelly)),
        "PT-DQN, Jelly Bean size": Contestant(noise, PTDQN(**jelly, **chosen, cache=False)),
        "PT-DQN, Jelly Bean size, V^P cached": Contestant(noise, PTDQN(**jelly, **chosen)),
        "DQN, two rooms": Contestant(rooms, DQN(lr=1e-4, **small)),
        "PT-DQN, two rooms": Contestant(rooms, PTDQN(**small, **chosen, reinit=True)),
    }


@dataclass(frozen=True)
class LifeSizes:
    """Length of the timed lives of an experiment, and number of lanes."""

    preset: str
    steps: int = 10_000  # of each life, of which the first chunks are run
    lanes: int = 4
    chunks: int = 8
    matrix: int = FULL.matrix
    contenders: tuple[str, ...] | None = None  # besides the random agent; None: all that have a network


def smoke_lives(*contenders: str) -> LifeSizes:
    """A few chunks of the lives of these contenders and of the random agent."""
    return LifeSizes(SMOKE_PRESET, steps=400, lanes=2, chunks=3, matrix=SMOKE.matrix, contenders=contenders)


def whole_lives(plan: Plan, names: Sequence[str], sizes: LifeSizes) -> list[Row]:
    """The speed of some contenders of a plan, their share of the matrix product, and the share of the world."""
    plan = plan.select(("Random", *names)).shortened(steps=sizes.steps)
    where = f"{sizes.lanes} lanes, all cores"
    peak = matrix_product(sizes.matrix)
    world_alone = _life_rate(plan, "Random", sizes)
    rows = [
        Row("matrix product, all cores", peak / 1e9, "GFLOP/s"),
        Row(f"Random, {where}", world_alone, "lane-steps/s", "the world and the loop"),
    ]
    for name in names if sizes.contenders is None else sizes.contenders:
        rate, config = _life_rate(plan, name, sizes), plan.contenders[name].config
        assert isinstance(config, DQN | PTDQN)
        state: DeepState = jax.eval_shape(config.build(plan.spec).init, jax.random.key(0), hypers_of(config))
        work = useful_operations(config, plan.spec)
        rows += [
            Row(f"{name}, {where}", rate, "lane-steps/s"),
            Row(f"{name}: share of the matrix product", 100 * rate * work / peak, "%"),
            Row(f"{name}: share of the world in the time", 100 * rate / world_alone, "%", "at most"),
            Row(
                f"{name}: replay buffer of a lane",
                tree_nbytes(state.replay) / 2**20,
                "MiB",
                f"of {tree_nbytes(state) / 2**20:.3g} in all",
            ),
        ]
    return rows


def _life_rate(plan: Plan, name: str, sizes: LifeSizes) -> float:
    """Steps of all lanes per second in the best chunk after the first ones."""
    config = plan.contenders[name].config
    driver = make_driver(plan, config)
    driver.rounds_per_chunk = 1
    batch = Batch(driver, [hypers_of(config)] * sizes.lanes, range(sizes.lanes))
    rates = []
    for _ in range(sizes.chunks):
        before, started = batch.progress.steps, time.perf_counter()
        batch.advance()
        rates.append((batch.progress.steps - before) / (time.perf_counter() - started))
    return max(rates[2:])


def useful_operations(config: Deep, spec: EnvSpec) -> float:
    """Floating point operations of one update: two forward passes, all weights' gradients, all hidden layers' gradients."""
    shape = (*spec.obs.shape[:-1], spec.obs.shape[-1] * config.frames)
    output = Dense(config.outputs(spec), config.output_init)
    network = sequence((*config.trunk, *config.hidden_layers(spec.obs, shape), output), shape)
    per_layer = [
        int(np.prod(shape[:-1]))
        * (count - shape[-1])  # how often its matrix is applied, times the matrix without the bias
        for _, shape, count in network.summary
        if count
    ]
    return 2.0 * BATCH * (4 * sum(per_layer) - per_layer[0])


def matrix_product(size: int) -> float:
    """Operations per second of a large product, one on each device at the same time."""
    matrix = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    devices = jax.devices()
    placed = [jax.device_put(matrix, device) for device in devices]
    product = jax.jit(jnp.matmul)
    for one in placed:
        product(one, one).block_until_ready()
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        jax.block_until_ready([product(one, one) for one in placed])
        best = min(best, time.perf_counter() - started)
    return len(devices) * 2.0 * size**3 / best


def _step_seconds(contestant: Contestant, sizes: Sizes) -> tuple[float, float]:
    """Seconds of the whole machine per step of one lane, in the best of the later chunks, and bytes per lane."""
    world, agent, hypers = contestant.world, contestant.config.build(contestant.spec), hypers_of(contestant.config)
    tasks = TWO_ROOMS_TASKS[:1] if isinstance(world, Rooms) else np.zeros(1, np.float32)
    stream = Stream(tasks, (0,), Steps(sizes.steps), boundaries_known=True)
    life = LifeConfig(agent, world, stream, lambda probe_input: probe_input.window.reward, window=sizes.steps)
    driver = Driver(life, sizes.round_steps, rounds_per_chunk=ROUNDS_PER_CHUNK)
    times: list[tuple[float, int]] = []

    def record_time(progress: Progress) -> None:
        times.append((time.perf_counter(), progress.steps))

    driver.run([hypers] * sizes.lanes, list(range(sizes.lanes)), record_time)
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(times[1:])]
    return 1.0 / max(rates), tree_nbytes(jax.eval_shape(agent.init, jax.random.key(0), hypers))
