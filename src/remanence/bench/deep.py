"""Deep updates: how much of the machine's own matrix product they reach, how long a step takes, what a lane weighs.

Useful operations are those of the update as written down: a forward pass for the targets, one for the values, the gradients of all
weights and of all hidden layers. Acting, sampling, the optimizer and everything around them count as time but not as work.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents import Agent, PTHypers, TDHypers
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.composition import separate_networks, shared_trunk, single
from remanence.agents.dqn import DECAY, Consolidation, DeepState, OnConsolidate, Training, deep_agent
from remanence.agents.networks import Network, mlp, stacked
from remanence.agents.td import CONTROL
from remanence.bench.measure import Report, Row, memory_row
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import Key, Steps, TimeStep
from remanence.engine.lanes import Driver, Progress
from remanence.engine.life import LifeConfig
from remanence.experiments.base import SMOKE as SMOKE_PRESET
from remanence.experiments.base import Plan
from remanence.experiments.deep import control_head, rooms_trunk
from remanence.runs.jobs import make_driver
from remanence.streams import Stream
from remanence.worlds import TWO_ROOMS_TASKS, Rooms, two_rooms

BATCH = 64


@dataclass(frozen=True)
class Sizes:
    """How long the lives are that are timed, and in how many lanes."""

    lanes: int = 4
    steps: int = 1200
    round_steps: int = 50
    matrix: int = 2048  # rows and columns of the product that says what the machine can do
    contestants: tuple[str, ...] = ()  # all if none is named


FULL = Sizes()
SMOKE = Sizes(lanes=2, steps=120, round_steps=10, matrix=64, contestants=("DQN, Jelly Bean size", "PT-DQN, two rooms"))
ROUNDS_PER_CHUNK = 4


@dataclass(frozen=True)
class Noise:
    """Binary frames of the size of Jelly Bean World's, drawn at random: a world that costs next to nothing."""

    bits: int = 363
    discount: float = 0.9
    num_actions = 4

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del task
        return jnp.int32(0), jax.random.bernoulli(key, 0.05, (self.bits,))

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        seen = jax.random.bernoulli(key, 0.05, (self.bits,))
        return state, TimeStep(seen, task + action, jnp.float32(self.discount), jnp.bool_(False))


@dataclass(frozen=True)
class Contestant:
    """An agent in a world, and the network whose updates count as useful work."""

    world: Any
    agent: Agent
    hypers: TDHypers | PTHypers
    network: Network


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
        work = useful_operations(contestant.network)
        rows += [
            Row(f"{name}: a step of a lane", 1e3 * seconds, "ms", f"{sizes.lanes} lanes"),
            Row(f"{name}: useful work", work / 1e6, "MFLOP", f"{work / seconds / 1e9:.3g} GFLOP/s"),
            Row(f"{name}: share of the matrix product", 100 * work / seconds / peak, "%"),
            Row(f"{name}: memory of a lane", weight / 2**20, "MiB"),
        ]
    return Report("deep", [*rows, *memory_row()])


def _contestants(steps: int) -> dict[str, Contestant]:
    """DQN and PT-DQN with the networks of Jelly Bean World and of the two rooms; they consolidate after `steps` steps."""
    jelly, rooms, noise = mlp((1452,), (256, 128, 64), 4), two_rooms(), Noise()
    trunk = rooms_trunk(rooms.obs_shape[-1])
    head = control_head(trunk.output[0], rooms.num_actions)
    small = stacked(trunk, head)
    behaviour, plain, split = epsilon_greedy(0.1), TDHypers(1e-4), PTHypers(1e-7, 1e-3, 0.75)
    frame, view = np.zeros(noise.bits, bool), np.zeros(rooms.obs_shape, bool)
    training = Training("adam", BATCH, replay=8000, target_every=200, frames=4)
    here = Training("adam", BATCH, replay=100_000, target_every=200)
    decay, period = OnConsolidate(DECAY, False, False), Steps(steps)
    absorbing = Consolidation(buffer=steps, in_order=True, max_batches=None)
    cached = Consolidation(buffer=steps, in_order=True, max_batches=None, cache=True)
    both = separate_networks(jelly, jelly)
    jelly_dqn = deep_agent(CONTROL, single(jelly), behaviour, frame, training)
    jelly_pt = deep_agent(CONTROL, both, behaviour, frame, training, decay, absorbing, period)
    jelly_pt_cached = deep_agent(CONTROL, both, behaviour, frame, training, decay, cached, period)
    rooms_dqn = deep_agent(CONTROL, single(small), behaviour, view, here)
    rooms_pt = deep_agent(CONTROL, shared_trunk(trunk, head), behaviour, view, here, OnConsolidate(), absorbing, period)
    return {
        "DQN, Jelly Bean size": Contestant(noise, jelly_dqn, plain, jelly),
        "PT-DQN, Jelly Bean size": Contestant(noise, jelly_pt, split, jelly),
        "PT-DQN, Jelly Bean size, V^P cached": Contestant(noise, jelly_pt_cached, split, jelly),
        "DQN, two rooms": Contestant(rooms, rooms_dqn, plain, small),
        "PT-DQN, two rooms": Contestant(rooms, rooms_pt, split, small),
    }


@dataclass(frozen=True)
class LifeSizes:
    """How long whole lives of an experiment are timed."""

    preset: str
    steps: int = 10_000  # of each life, of which the first chunks are run
    lanes: int = 4
    chunks: int = 8
    matrix: int = FULL.matrix
    contenders: tuple[str, ...] | None = None  # besides the random agent; None: all that have a network


def smoke_lives(*contenders: str) -> LifeSizes:
    """A few chunks of the lives of these contenders and of the random agent."""
    return LifeSizes(SMOKE_PRESET, steps=400, lanes=2, chunks=3, matrix=SMOKE.matrix, contenders=contenders)


def whole_lives(plan: Plan, networks: dict[str, Network], sizes: LifeSizes) -> list[Row]:
    """How fast some contenders of a plan live, which share of the machine's arithmetic they use, what the world costs."""
    plan = plan.select(("Random", *networks)).shortened(steps=sizes.steps)
    where = f"{sizes.lanes} lanes, all cores"
    peak = matrix_product(sizes.matrix)
    world_alone = _life_rate(plan, "Random", sizes)
    rows = [
        Row("matrix product, all cores", peak / 1e9, "GFLOP/s"),
        Row(f"Random, {where}", world_alone, "lane-steps/s", "the world and the loop around it"),
    ]
    for name in networks if sizes.contenders is None else sizes.contenders:
        rate, agent = _life_rate(plan, name, sizes), plan.contenders[name].agent
        state: DeepState = jax.eval_shape(agent.init, jax.random.key(0), plan.contenders[name].hypers)
        rows += [
            Row(f"{name}, {where}", rate, "lane-steps/s"),
            Row(f"{name}: share of the matrix product", 100 * rate * useful_operations(networks[name]) / peak, "%"),
            Row(f"{name}: share of the time that is the world's", 100 * rate / world_alone, "%", "at most"),
            Row(
                f"{name}: replay memory of a lane",
                tree_nbytes(state.replay) / 2**20,
                "MiB",
                f"of {tree_nbytes(state) / 2**20:.3g} in all",
            ),
        ]
    return rows


def _life_rate(plan: Plan, name: str, sizes: LifeSizes) -> float:
    """Steps of all lanes per second in the best chunk after the first ones."""
    contender = plan.contenders[name]
    driver = make_driver(plan, contender.agent)
    driver.rounds_per_chunk = 1
    batch = driver.begin([contender.hypers] * sizes.lanes, range(sizes.lanes))
    rates = []
    for _ in range(sizes.chunks):
        before, started = batch.progress.steps, time.perf_counter()
        batch.advance()
        rates.append((batch.progress.steps - before) / (time.perf_counter() - started))
    return max(rates[2:])


def useful_operations(network: Network) -> float:
    """Floating point operations of one update: two forward passes, all weights' gradients, all hidden layers' gradients."""
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
    world, agent, hypers = contestant.world, contestant.agent, contestant.hypers
    tasks = TWO_ROOMS_TASKS[:1] if isinstance(world, Rooms) else np.zeros(1, np.float32)
    stream = Stream(tasks, (0,), Steps(sizes.steps), boundaries_known=True)
    life = LifeConfig(agent, world, stream, lambda moment: moment.tally.reward, window=sizes.steps)
    driver = Driver(life, sizes.round_steps, rounds_per_chunk=ROUNDS_PER_CHUNK)
    times: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        times.append((time.perf_counter(), progress.steps))

    driver.run([hypers] * sizes.lanes, list(range(sizes.lanes)), note)
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(times[1:])]
    return 1.0 / max(rates), tree_nbytes(jax.eval_shape(agent.init, jax.random.key(0), hypers))
