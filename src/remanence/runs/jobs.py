"""Splits a run into groups of lanes: independent jobs, each small enough for memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from remanence.agents.base import Agent, AgentConfig, hypers_of, per_lane_fields, program_of
from remanence.agents.learners import choose_learner
from remanence.agents.shares import with_fields
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.learners import NATIVE, XLA
from remanence.core.types import Steps
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, Probe, ProbeInput
from remanence.engine.probes import magnitudes, parts_of_value, together
from remanence.results.store import TASK_CURVES
from remanence.runs.boundaries import check_boundaries
from remanence.runs.plan import Contender, Plan

# Copies of a lane's state in memory: the running one, one more at the start or in a checkpoint, and the program's temporaries.
COPIES = 3
SHARE_OF_MEMORY = 0.7
MAX_SEEDS = 1_000_000
LONGEST_ROUND, USUAL_ROUND = 64, 16  # steps


@dataclass(frozen=True)
class Lane:
    """One life: an agent with its hyperparameters and a seed."""

    number: int
    contender: str
    config: AgentConfig
    seed: int

    @property
    def hypers(self) -> Any:
        """What distinguishes it from other lanes of its program, besides the seed."""
        return hypers_of(self.config)


@dataclass(frozen=True)
class Group:
    """Lanes that share a program and run together."""

    number: int
    lanes: tuple[Lane, ...]
    at_once: int
    """how many run at a time; rounded up to a multiple of the cores"""

    @property
    def config(self) -> AgentConfig:
        """The configuration of any of its lanes: they differ only in fields that may differ between lanes."""
        return self.lanes[0].config

    @property
    def label(self) -> str:
        names = list(dict.fromkeys(lane.contender for lane in self.lanes))
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises for numbers of seeds, or seeds, that cannot work."""
    count = seeds.stop - seeds.start if isinstance(seeds, range) else len(seeds)  # len() of a range may overflow
    if not 1 <= count <= MAX_SEEDS:
        raise UserError(f"an experiment needs at least one seed; got {count:,}; at most {MAX_SEEDS:,} are possible")
    if min(seeds) < 0 or max(seeds) >= 2**32:
        raise UserError(f"seeds must be integers from 0 to 2³² − 1; got {min(seeds)} to {max(seeds)}")


def lanes_of_run(plan: Plan, seeds: Sequence[int]) -> list[list[Lane]]:
    """One agent after the other, each with its own configuration."""
    numbers = itertools.count()
    return [
        [Lane(next(numbers), name, contender.config, seed) for seed in seeds]
        for name, contender in plan.contenders.items()
    ]


def lanes_of_sweep(plan: Plan, seeds: Sequence[int]) -> list[list[Lane]]:
    """Every setting; those that share a program together. Small step sizes come first: their episodes are the longest."""
    numbers = itertools.count()
    by_program: dict[Hashable, list[tuple[str, AgentConfig]]] = {}
    for name, contender in plan.contenders.items():
        for config in settings(contender):
            by_program.setdefault(program_of(config), []).append((name, config))
    found = []
    for members in by_program.values():
        lanes = [Lane(next(numbers), name, config, seed) for name, config in members for seed in seeds]
        lanes.sort(key=_step_sizes)
        found.append(lanes)
    return found


def _step_sizes(lane: Lane) -> tuple[float, ...]:
    first_two = per_lane_fields(type(lane.config))[:2]
    return tuple(getattr(lane.config, name) for name in reversed(first_two))


def settings(contender: Contender) -> list[AgentConfig]:
    """Every combination of the values to search, or those that are searched one field at a time; the agent's own configuration
    if there is nothing to search."""
    if contender.one_at_a_time:
        single = [
            with_fields(contender.config, **{name: one}) for name, some in contender.search.items() for one in some
        ]
        return list(dict.fromkeys(single))
    names = list(contender.search)
    combinations = itertools.product(*contender.search.values())
    return [with_fields(contender.config, **dict(zip(names, values, strict=True))) for values in combinations]


def one_at_a_time(plan: Plan) -> dict[str, int]:
    """How many settings the agents have whose fields are searched one at a time."""
    return {name: len(settings(one)) for name, one in plan.contenders.items() if one.one_at_a_time}


def cut(
    programs: Sequence[list[Lane]],
    lanes_per_group: int,
    at_once: int | None,
    learners: Mapping[str, str] | None = None,
) -> Iterator[Group]:
    """Groups of at most `lanes_per_group` lanes, in order. `at_once`: None for all of a group. `learners`: by contender.

    With the native learner, one lane per core runs at a time: its weights stay in the cache.
    """
    if lanes_per_group < 1:
        raise UserError(f"a group needs at least one lane; got {lanes_per_group}")
    numbers = itertools.count()
    for lanes in programs:
        for first in range(0, len(lanes), lanes_per_group):
            members = tuple(lanes[first : first + lanes_per_group])
            is_native = (learners or {}).get(members[0].contender) == NATIVE
            some = 1 if is_native else min(at_once or 0, len(members))
            yield Group(next(numbers), members, len(members) if at_once is None else some)


def memory_needed(plan: Plan, config: AgentConfig) -> int:
    """Bytes per lane, known without compiling anything."""
    return COPIES * make_driver(plan, config).bytes_per_lane(hypers_of(config))


def lanes_that_fit(plan: Plan, programs: Sequence[list[Lane]], processes: int = 1) -> int:
    """How many lanes of the largest agent fit the memory of the devices together, next to those of other processes."""
    configs = {program_of(lanes[0].config): lanes[0].config for lanes in programs}
    largest = max(memory_needed(plan, config) for config in configs.values())
    return max(1, int(SHARE_OF_MEMORY * backend.device_memory() / processes / largest))


def make_driver(plan: Plan, config: AgentConfig, learner: str = XLA, lanes: int | None = None) -> Driver:
    """The program for lanes of one agent of a plan; `lanes`: how many run at once, if the world must know."""
    agent = choose_learner(config.build(plan.spec), learner, config.name).agent
    check_boundaries(config, agent, plan.stream)
    life = LifeConfig(
        agent, plan.world, plan.stream, _measure(plan, agent, config), plan.max_steps, plan.window, plan.watch_parts
    )
    return Driver(life, plan.round_steps or fitting_round(life), devices=lanes and devices_for(plan, lanes))


def devices_for(plan: Plan, lanes: int) -> int:
    """How many devices share n lanes."""
    return plan.world.devices_for(lanes, len(jax.devices()))


def fitting_round(life: LifeConfig) -> int:
    """Steps per round, such that lanes rarely wait for the end of a round, at the end of a window or before a consolidation."""
    if not life.by_steps:
        return 2
    consolidate_every = life.consolidate_every.count if isinstance(life.consolidate_every, Steps) else 0
    fitting = math.gcd(life.window, consolidate_every)
    exact = max(n for n in range(1, LONGEST_ROUND + 1) if fitting % n == 0)
    rounds = -(-life.window // USUAL_ROUND)  # per window, all of equal length
    return exact if exact >= USUAL_ROUND // 2 else -(-life.window // rounds)


def metrics_of(plan: Plan) -> list[str]:
    """The names of what a plan measures, known without running anything."""
    for contender in plan.contenders.values():
        return make_driver(plan, contender.config).metrics(hypers_of(contender.config))
    return []


def _measure(plan: Plan, agent: Agent, config: AgentConfig) -> Probe:
    """Everything a life records: metrics, the task where each lane draws its own, and value maps if the plan asks for them."""
    numbers, pictures = plan.probe(agent), plan.maps(agent) if plan.maps else None
    if plan.world.row_by_row:
        numbers = together(numbers, magnitudes(agent, getattr(config, "frames", 1)))
    if plan.watch_parts:
        numbers = together(numbers, parts_of_value(agent, plan.world.discount))
    differs = None in plan.stream.shared_order

    def measure(inputs: ProbeInput) -> dict[str, dict]:
        curves = numbers(inputs)
        if differs and not any(name in curves for name in TASK_CURVES):
            curves = {**curves, TASK_CURVES[0]: inputs.task_id.astype(np.float32)}
        return {"curves": curves, "maps": pictures(inputs) if pictures else {}}

    return measure
