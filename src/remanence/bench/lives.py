"""Whole lives of an experiment's agents: with every learner that an agent has, in turns, and beside other libraries.

A chunk of one life is timed, then one of the next, for several rounds; medians are reported. A life has full replay buffers most
of the time, so buffers are filled before the first timed chunk. No consolidation falls into a chunk: consolidations are timed on
their own, and their share of a step is added to the time of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN, PTDQN
from remanence.agents.dqn import DeepState
from remanence.agents.learners import choose_learner
from remanence.agents.ring import Ring
from remanence.bench.measure import Lap, LifeRate, Row, timed
from remanence.bench.work import Machine, Needs, matrix_product, memory_rate, needs
from remanence.core.learners import NATIVE, XLA
from remanence.core.masking import LANES
from remanence.core.types import Key, Steps
from remanence.experiments import get
from remanence.experiments.base import SMOKE as SMOKE_PRESET
from remanence.runs.jobs import make_driver
from remanence.runs.plan import Plan

RANDOM = "Random"
NEVER_DUE = 2**30  # as the number of consolidations done


@dataclass(frozen=True)
class LifeSizes:
    """Length of the timed lives of an experiment, and number of lanes."""

    preset: str
    lanes_per_core: int = 2
    """with XLA; the native learner is at its best with one"""
    chunk: int = 1_000
    """lane-steps of a chunk, at least"""
    warm_up: int = 1
    """chunks that are not timed: they compile, and fill the replay buffer"""
    rounds: int = 5
    """timed chunks of each life"""
    consolidations: int = 3
    """timed consolidations of each agent that consolidates"""
    matrix: int = 2048
    """rows and columns of the matrix product that measures the machine"""
    copied: int = 2**27
    """bytes of the copy that measures the machine's memory"""
    contenders: tuple[str, ...] | None = None
    """besides the random agent; None: all that have a network"""


def smoke_lives(*contenders: str) -> LifeSizes:
    """A few chunks of the lives of these contenders and of the random agent."""
    return LifeSizes(SMOKE_PRESET, 1, 200, 1, 2, 1, 64, 2**16, contenders)


@dataclass(frozen=True)
class Entrant:
    """Lives of one agent with one learner, to be timed."""

    agent: str
    learner: str
    lanes: int
    play: Callable[[], Lap]
    """a chunk of the lives"""
    consolidate: Callable[[], Lap] | None = None
    """one consolidation; its lap counts the lane-steps between two of them"""
    note: str = ""


class Cost(NamedTuple):
    """The median time of a lane-step, in seconds, without and with its share of the consolidation."""

    wall: float
    core: float
    whole_wall: float
    whole_core: float


class Lives:
    """Lanes of a contender, advanced chunk by chunk."""

    def __init__(self, plan: Plan, name: str, learner: str, sizes: LifeSizes) -> None:
        config = plan.contenders[name].config
        self.driver = make_driver(plan, config, learner)
        self.lanes = self.driver.mesh.size * (1 if learner == NATIVE else sizes.lanes_per_core)
        self.rounds = -(-sizes.chunk // (self.lanes * self.driver.round_steps))
        column = partial(np.full, self.lanes, dtype=np.float32)
        self.hypers = self.driver.shard(jax.tree.map(column, hypers_of(config)))
        self.carry = self.driver.init_rows(self.hypers, self.driver.shard(np.arange(self.lanes, dtype=np.uint32)))
        consolidates = isinstance(config, PTDQN) and isinstance(self.driver.config.consolidate_every, Steps)
        self.entrant = Entrant(name, learner, self.lanes, self.play, self.consolidate if consolidates else None)

    def play(self) -> Lap:
        before = int(np.sum(self.carry.life.step))
        self.carry = self.driver.advance_rows(self.hypers, self.carry, jnp.int32(self.rounds))
        return Lap(int(np.sum(self.carry.life.step)) - before, np.zeros(1))  # waits for the result

    def warm_up(self, chunks: int) -> None:
        """Plays some chunks, fills the replay buffer, and plays one more. No consolidation is due from then on."""
        for _ in range(chunks):
            self.play()
        life = self.carry.life
        if isinstance(life.agent, DeepState):
            life = life._replace(agent=life.agent._replace(replay=self._filled(life.agent.replay)))
        never = self.driver.shard(np.full(self.lanes, NEVER_DUE, np.int32))
        self.carry = self.carry._replace(life=life._replace(consolidations=never))
        self.play()

    def consolidate(self) -> Lap:
        life, every = self.carry.life, self.driver.config.consolidate_every
        assert isinstance(every, Steps)
        jax.block_until_ready(self._consolidate(self._ready_state, self.hypers, life.keys.consolidations))
        return Lap(self.lanes * every.count, np.zeros(1))

    @cached_property
    def _ready_state(self) -> DeepState:
        """The agents' state when a consolidation is due: the buffer of visits is full."""
        state = self.carry.life.agent
        return state._replace(visited=self._filled(state.visited))

    @cached_property
    def _consolidate(self) -> Callable[[DeepState, Any, Array], DeepState]:
        def one_lane(state: DeepState, hypers: Any, key: Key) -> DeepState:
            return self.driver.config.agent.consolidate(state, hypers, key, jnp.bool_(True))

        by_lane = PartitionSpec(LANES)
        all_lanes = jax.vmap(one_lane, axis_name=LANES)
        return jax.jit(
            jax.shard_map(all_lanes, mesh=self.driver.mesh, in_specs=by_lane, out_specs=by_lane, check_vma=False)
        )

    def _filled(self, ring: Ring) -> Ring:
        """A full ring, leaves [lanes, slots + 1, ...]: what it holds now, repeated."""
        slots, held = jax.tree.leaves(ring.items)[0].shape[1] - 1, int(np.min(ring.count))
        if held >= slots:
            return ring
        places = np.arange(slots + 1) % held
        items = jax.tree.map(lambda leaf: np.asarray(leaf)[:, places], ring.items)
        return self.driver.shard(Ring(items, jnp.full(self.lanes, slots)))

    def frames(self) -> np.ndarray:
        """[frames, *frame] observations in the replay buffer of the first lane, as bits."""
        agent: DeepState = self.carry.life.agent
        packed = np.asarray(agent.replay.items["now"]["frame"])[0, :-1]
        shape = self.driver.config.world.observation.shape
        return np.unpackbits(packed, axis=-1, count=int(np.prod(shape))).reshape(-1, *shape)


def whole_lives(
    experiment: str, sizes: LifeSizes, progress: Callable[[str], None], against: str | None = None
) -> tuple[list[Row], list[LifeRate]]:
    """The speed of an experiment's agents with every learner, and against another library; what they need of the machine."""
    plan, world = get(experiment).plan(sizes.preset), experiment.partition("/")[2]
    deep = [name for name, contender in plan.contenders.items() if isinstance(contender.config, DQN | PTDQN)]
    names = deep if sizes.contenders is None else sizes.contenders
    lives = []
    for name in (RANDOM, *names):
        progress(f"{world}: {name}: compiling")
        chosen = choose_learner(plan.contenders[name].config.build(plan.spec), name=name).learner
        for learner in (NATIVE, XLA) if chosen == NATIVE else (XLA,):
            lives.append(Lives(plan, name, learner, sizes))
            lives[-1].warm_up(sizes.warm_up)
    entrants = [one.entrant for one in lives]
    if against:
        from remanence.bench.peers import peers

        progress(f"{world}: {against}")
        entrants += peers(against, plan, {one.entrant.agent: one.frames() for one in lives[1:]}, sizes)
    progress(f"{world}: {len(entrants)} kinds of lives in turns")
    costs = measure(entrants, sizes)
    rates = [
        LifeRate(world, sizes.preset, one.agent, one.learner, one.lanes, 1 / cost.whole_wall, 1e6 * cost.whole_core)
        for one, cost in zip(entrants, costs, strict=True)
    ]
    machine = Machine(matrix_product(sizes.matrix), memory_rate(sizes.copied))
    rows = [
        Row(f"{world}: matrix product, all cores", machine.operations / 1e9, "GFLOP/s"),
        Row(f"{world}: copying memory, all cores", machine.copied / 1e9, "GB/s", "read and written"),
    ]
    for entrant, cost, rate in zip(entrants, costs, rates, strict=True):
        who, config = f"{world}: {entrant.agent}, {entrant.learner}", plan.contenders[entrant.agent].config
        rows += [
            Row(who, rate.lane_steps_per_second, "lane-steps/s", entrant.note or f"{entrant.lanes} lanes, all cores"),
            Row(f"{who}: processor time", rate.cpu_us_per_lane_step, "µs", "of a lane-step"),
        ]
        if entrant.consolidate:
            extra = 1e6 * (cost.whole_core - cost.core)
            rows.append(Row(f"{who}: processor time of consolidation", extra, "µs", "of a lane-step, included"))
        if entrant.learner in (NATIVE, XLA) and isinstance(config, DQN | PTDQN):
            rows += _shares(who, needs(config, plan.spec), cost, machine)
            rows.append(Row(f"{who}: share of the world in the time", 100 * costs[0].core / cost.core, "%", "at most"))
    return [*rows, *_ratios(world, rates)], rates


def _shares(who: str, need: Needs, cost: Cost, machine: Machine) -> list[Row]:
    """How much of the machine an agent uses, without consolidation."""
    work, moved, replay = need.operations / 1e6, need.optimizer_bytes / 1e6, need.replay_bytes / 2**20
    product = 100 * need.operations / cost.wall / machine.operations
    copying = 100 * need.optimizer_bytes / cost.wall / machine.copied
    return [
        Row(f"{who}: share of the matrix product", product, "%", f"{work:.3g} MFLOP of an update"),
        Row(f"{who}: optimizer's share of the memory rate", copying, "%", f"{moved:.3g} MB of an update"),
        Row(f"{who}: memory of a lane", need.state_bytes / 2**20, "MiB", f"{replay:.3g} of it replay buffer"),
    ]


def measure(entrants: Sequence[Entrant], sizes: LifeSizes) -> list[Cost]:
    """The cost of a lane-step of each, in turns."""
    steps = _in_turns([one.play for one in entrants], sizes.rounds)
    rare = [one.consolidate for one in entrants if one.consolidate]
    for consolidate in rare:
        consolidate()  # compiles
    consolidations = iter(_in_turns(rare, sizes.consolidations))
    extra = [next(consolidations) if one.consolidate else np.zeros(2) for one in entrants]
    return [Cost(*step.tolist(), *(step + more).tolist()) for step, more in zip(steps, extra, strict=True)]


def _in_turns(functions: Sequence[Callable[[], Lap]], rounds: int) -> list[np.ndarray]:
    """For each function, the medians of wall time and processor time of a lane-step."""
    times = [[timed(function) for function in functions] for _ in range(rounds)]
    per_step = np.array([[(t.seconds / t.lap.steps, t.core_seconds / t.lap.steps) for t in each] for each in times])
    return list(np.median(per_step, axis=0))


def _ratios(world: str, rates: Sequence[LifeRate]) -> list[Row]:
    """Each agent's first learner, which is the native one if there is one, against its other ones."""
    rows, first = [], {rate.agent: rate for rate in reversed(rates)}
    for rate in rates:
        best = first[rate.agent]
        if rate is not best:
            pair = f"{world}: {rate.agent}, {best.learner} / {rate.learner}"
            rows += [
                Row(f"{pair}: speed", best.lane_steps_per_second / rate.lane_steps_per_second, "×", "lane-steps/s"),
                Row(f"{pair}: speed per processor time", rate.cpu_us_per_lane_step / best.cpu_us_per_lane_step, "×"),
            ]
    return rows
