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

from remanence.agents import Agent, Hypers
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.composition import separate_networks, shared_trunk, single
from remanence.agents.dqn import DECAY, Consolidation, DeepState, OnConsolidate, Training, deep_agent
from remanence.agents.networks import Network, mlp, stacked
from remanence.agents.td import CONTROL
from remanence.bench.measure import Report, Row, peak_memory
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import Key, ObsSpec, Steps, TimeStep
from remanence.engine.lanes import Driver, Progress
from remanence.engine.life import LifeConfig
from remanence.experiments.base import Plan
from remanence.experiments.deep import control_head, rooms_trunk
from remanence.runs.jobs import make_driver
from remanence.streams import Stream
from remanence.worlds import TWO_ROOMS_TASKS, Rooms, World, two_rooms

LANES, BATCH = 4, 64
STEPS, ROUND = 1200, 50
CHUNKS = 8
MATRIX = 2048


@dataclass(frozen=True)
class Noise(World):
    """Binary frames of the size of Jelly Bean World's, drawn at random: a world that costs next to nothing."""

    bits: int = 363
    discount: float = 0.9
    num_actions = 4

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((self.bits,), "bool")

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del task
        return jnp.int32(0), jax.random.bernoulli(key, 0.05, (self.bits,))

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        seen = jax.random.bernoulli(key, 0.05, (self.bits,))
        return state, TimeStep(seen, task + action, jnp.float32(self.discount), jnp.bool_(False))


def run(progress: Callable[[str], None]) -> Report:
    """About two minutes."""
    progress("matrix product")
    peak = matrix_product()
    rows = [Row(f"matrix product {MATRIX}×{MATRIX}, all cores", peak / 1e9, "GFLOP/s")]
    jelly, rooms, noise = mlp((1452,), (256, 128, 64), 4), two_rooms(), Noise()
    training = Training("adam", BATCH, replay=8000, target_every=200, frames=4)
    trunk = rooms_trunk(rooms.observation.shape[-1])
    head = control_head(trunk.output[0], rooms.num_actions)
    small = stacked(trunk, head)
    here = Training("adam", BATCH, replay=100_000, target_every=200)
    frame, view = np.zeros(noise.bits, bool), np.zeros(rooms.obs_shape, bool)
    behaviour, plain, split = (
        epsilon_greedy(0.1),
        Hypers(lr=1e-4),
        Hypers(permanent_lr=1e-7, transient_lr=1e-3, decay=0.75),
    )
    forgetting, absorbing = (
        OnConsolidate(DECAY, False, False),
        Consolidation(buffer=STEPS, in_order=True, max_batches=None),
    )
    cached = Consolidation(buffer=STEPS, in_order=True, max_batches=None, cache=True)
    both = separate_networks(jelly, jelly)
    contestants = (
        ("DQN, Jelly Bean size", noise, deep_agent(CONTROL, single(jelly), behaviour, frame, training), plain, jelly),
        (
            "PT-DQN, Jelly Bean size",
            noise,
            deep_agent(CONTROL, both, behaviour, frame, training, forgetting, absorbing, Steps(STEPS)),
            split,
            jelly,
        ),
        (
            "PT-DQN, Jelly Bean size, V^P cached",
            noise,
            deep_agent(CONTROL, both, behaviour, frame, training, forgetting, cached, Steps(STEPS)),
            split,
            jelly,
        ),
        (
            "DQN, two rooms",
            rooms,
            deep_agent(CONTROL, single(stacked(trunk, head)), behaviour, view, here),
            plain,
            small,
        ),
        (
            "PT-DQN, two rooms",
            rooms,
            deep_agent(
                CONTROL, shared_trunk(trunk, head), behaviour, view, here, OnConsolidate(), absorbing, Steps(STEPS)
            ),
            split,
            small,
        ),
    )
    for name, world, agent, hypers, network in contestants:
        progress(name)
        seconds, weight = _step_seconds(world, agent, hypers)
        work = useful_operations(network)
        rows += [
            Row(f"{name}: a step of a lane", 1e3 * seconds, "ms", f"{LANES} lanes"),
            Row(f"{name}: useful work", work / 1e6, "MFLOP", f"{work / seconds / 1e9:.3g} GFLOP/s"),
            Row(f"{name}: share of the matrix product", 100 * work / seconds / peak, "%"),
            Row(f"{name}: memory of a lane", weight / 2**20, "MiB"),
        ]
    memory = peak_memory()
    if memory is not None:
        rows.append(Row("memory, peak of the process", memory / 2**20, "MiB"))
    return Report("deep", rows)


def whole_lives(plan: Plan, networks: dict[str, Network]) -> list[Row]:
    """How fast some contenders of a plan live, which share of the machine's arithmetic they use, what the world costs."""
    peak = matrix_product()
    rows = [Row("matrix product, all cores", peak / 1e9, "GFLOP/s")]
    world_alone = _life_rate(plan, "Random")
    rows.append(
        Row(f"Random, {LANES} lanes, all cores", world_alone, "lane-steps/s", "the world and the loop around it")
    )
    for name, network in networks.items():
        rate, agent = _life_rate(plan, name), plan.contenders[name].agent
        state: DeepState = jax.eval_shape(agent.init, jax.random.key(0), plan.contenders[name].hypers)
        rows += [
            Row(f"{name}, {LANES} lanes, all cores", rate, "lane-steps/s"),
            Row(f"{name}: share of the matrix product", 100 * rate * useful_operations(network) / peak, "%"),
            Row(f"{name}: share of the time that is the world's", 100 * rate / world_alone, "%", "at most"),
            Row(
                f"{name}: replay memory of a lane",
                tree_nbytes(state.replay) / 2**20,
                "MiB",
                f"of {tree_nbytes(state) / 2**20:.3g} in all",
            ),
        ]
    return rows


def _life_rate(plan: Plan, name: str) -> float:
    """Steps of all lanes per second in the best chunk after the first ones."""
    contender = plan.contenders[name]
    driver = make_driver(plan, contender.agent)
    driver.rounds_per_chunk = 1
    batch = driver.begin([contender.hypers] * LANES, range(LANES))
    rates = []
    for _ in range(CHUNKS):
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


def matrix_product() -> float:
    """Operations per second of a large product, one on each device at the same time."""
    matrix = np.random.default_rng(0).normal(size=(MATRIX, MATRIX)).astype(np.float32)
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
    return len(devices) * 2.0 * MATRIX**3 / best


def _step_seconds(world: Any, agent: Agent, hypers: Any) -> tuple[float, float]:
    """Seconds of the whole machine per step of one lane, in the best of the later chunks, and bytes per lane."""
    tasks = TWO_ROOMS_TASKS[:1] if isinstance(world, Rooms) else np.zeros(1, np.float32)
    stream = Stream(tasks, (0,), Steps(STEPS), boundaries_known=True)
    driver = Driver(LifeConfig(agent, world, stream, lambda moment: moment.tally.reward, window=STEPS), ROUND)
    driver.rounds_per_chunk = 4
    times: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        times.append((time.perf_counter(), progress.steps))

    driver.run([hypers] * LANES, list(range(LANES)), note)
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(times[1:])]
    return 1.0 / max(rates), tree_nbytes(jax.eval_shape(agent.init, jax.random.key(0), hypers))
