"""Cuts a run into groups of lanes: independent units of work, each small enough for the memory there is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from remanence.agents.base import Agent
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.types import Hypers
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, Probe, ProbeInput
from remanence.experiments.base import Contender, Plan

# A lane's state is there once while it lives, once more when lanes begin or are kept, and the program needs room to work.
COPIES = 3
SHARE_OF_MEMORY = 0.7


@dataclass(frozen=True)
class Lane:
    """One life."""

    number: int
    contender: str
    hypers: Hypers
    seed: int


@dataclass(frozen=True)
class Group:
    """Lanes that share an agent, hence a program, and live together."""

    number: int
    agent: Agent
    lanes: tuple[Lane, ...]
    at_once: int

    @property
    def label(self) -> str:
        names = list(dict.fromkeys(lane.contender for lane in self.lanes))
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def lanes_of_run(plan: Plan, seeds: Sequence[int]) -> list[tuple[Agent, list[Lane]]]:
    """One contender after the other, with its own hyper-parameters."""
    numbers = itertools.count()
    return [
        (contender.agent, [Lane(next(numbers), name, contender.hypers, seed) for seed in seeds])
        for name, contender in plan.contenders.items()
    ]


def lanes_of_sweep(plan: Plan, seeds: Sequence[int]) -> list[tuple[Agent, list[Lane]]]:
    """Every setting of contenders with the same agent together. Small step sizes come first: their lives are the longest."""
    numbers = itertools.count()
    found = []
    for agent in {id(contender.agent): contender.agent for contender in plan.contenders.values()}.values():
        lanes = [
            Lane(next(numbers), name, hypers, seed)
            for name, contender in plan.contenders.items()
            if contender.agent is agent
            for hypers in settings(contender)
            for seed in seeds
        ]
        lanes.sort(key=lambda lane: tuple(reversed(dataclasses.astuple(lane.hypers)[:2])))
        found.append((agent, lanes))
    return found


def settings(contender: Contender) -> list[Hypers]:
    """Every combination of the values to search; the contender's own ones if there is nothing to search."""
    names = list(contender.search)
    combinations = itertools.product(*contender.search.values())
    return [dataclasses.replace(contender.hypers, **dict(zip(names, values, strict=True))) for values in combinations]


def cut(programs: Sequence[tuple[Agent, list[Lane]]], lanes_per_group: int, at_once: int) -> Iterator[Group]:
    """Groups of at most so many lanes, in order."""
    if lanes_per_group < 1:
        raise UserError(f"a group needs at least one lane; got {lanes_per_group}")
    numbers = itertools.count()
    for agent, lanes in programs:
        for first in range(0, len(lanes), lanes_per_group):
            own = tuple(lanes[first : first + lanes_per_group])
            yield Group(next(numbers), agent, own, min(at_once, len(own)))


def memory_needed(plan: Plan, agent: Agent, hypers: Hypers) -> int:
    """Bytes per lane, known without compiling anything."""
    return COPIES * make_driver(plan, agent).bytes_per_lane(hypers)


def lanes_that_fit(plan: Plan, programs: Sequence[tuple[Agent, list[Lane]]], processes: int = 1) -> int:
    """How many lanes of the hungriest agent fit this machine's memory together, next to those of other processes."""
    most = max(
        memory_needed(plan, agent, lanes[0].hypers)
        for agent, lanes in {id(agent): (agent, lanes) for agent, lanes in programs}.values()
    )
    return max(1, int(SHARE_OF_MEMORY * backend.memory() / processes / most))


def make_driver(plan: Plan, agent: Agent) -> Driver:
    """The program for lanes of one agent of a plan."""
    setting = LifeConfig(agent, plan.world, plan.stream, _measure(plan, agent), plan.max_steps, plan.window)
    return Driver(setting, plan.round_steps)


def _measure(plan: Plan, agent: Agent) -> Probe:
    """All that a life keeps: numbers, and beliefs where pictures are wanted."""
    numbers, pictures = plan.probe(agent), plan.maps(agent) if plan.maps else None

    def measure(moment: ProbeInput) -> dict[str, dict]:
        return {"curves": numbers(moment), "maps": pictures(moment) if pictures else {}}

    return measure
