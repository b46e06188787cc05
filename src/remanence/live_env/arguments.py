"""The arguments of `live`, checked: agents by name, seeds, the window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from remanence.agents.base import Agent, AgentConfig, BuiltAgent
from remanence.agents.configs import config_named
from remanence.core.errors import UserError
from remanence.runs.jobs import MAX_SEEDS
from remanence.streams import Schedule

FEWEST_POINTS, POINTS, MOST_POINTS = 20, 100, 500  # of a curve, if the window is not given


def named_configs(agents: Any, boundaries_known: bool) -> dict[str, AgentConfig]:
    """The configurations of all agents, by name."""
    pairs: list[tuple[Any, Any]]
    if isinstance(agents, Mapping):
        pairs = list(agents.items())
    elif isinstance(agents, list) or (
        isinstance(agents, tuple) and not isinstance(agents, Agent) and not _is_agent_pair(agents)
    ):
        pairs = [(None, one) for one in agents]
    else:
        pairs = [(None, agents)]
    found: dict[str, AgentConfig] = {}
    for name, config in pairs:
        one = _config(config, boundaries_known)
        name = str(name or (config if isinstance(config, str) else getattr(one, "name", "agent")))
        if name in found:
            raise UserError(f"two agents are called '{name}': give them different names, {{name: agent, …}}")
        found[name] = one
    if not found:
        raise UserError("no agent: give at least one, such as 'PT-DQN'")
    return found


def _config(agent: Any, boundaries_known: bool) -> AgentConfig:
    if isinstance(agent, str):
        return config_named(agent, boundaries_known)
    if isinstance(agent, Agent):
        return BuiltAgent(agent)
    if isinstance(agent, tuple) and _is_agent_pair(agent):
        return BuiltAgent(*agent)
    if isinstance(agent, AgentConfig) and not isinstance(agent, type):
        return agent
    raise UserError(
        f"an agent is a name such as 'PT-DQN', a configuration such as PTDQN(), an Agent, or a pair (Agent, hypers); got {agent!r}"
    )


def _is_agent_pair(pair: tuple) -> bool:
    return len(pair) == 2 and isinstance(pair[0], Agent)


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, np.ndarray):
        seeds = seeds.tolist()
    numbers: Any = range(max(0, min(seeds, MAX_SEEDS + 1))) if is_int(seeds) else seeds
    if (
        not isinstance(numbers, Sequence)
        or isinstance(numbers, str | bytes)
        or not all(map(is_int, numbers[:MAX_SEEDS]))
    ):
        raise UserError(f"seeds is a number of seeds, or a list of seeds, which are integers; got {seeds!r}")
    if not 1 <= len(numbers) <= MAX_SEEDS:
        raise UserError(f"at least one seed is needed, and at most {MAX_SEEDS:,}; got {seeds!r:.40}")
    if min(numbers) < 0 or max(numbers) >= 2**32 or len(set(numbers)) < len(numbers):
        raise UserError(f"seeds must be distinct integers from 0 to 2³² − 1; got {list(numbers)}")
    return [int(seed) for seed in numbers]


def is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def chosen_window(window: int | None, schedule: Schedule) -> int:
    segment_length = schedule.segment_length.count
    if not schedule.by_steps:
        if window is not None:
            raise UserError("window is for streams that count steps: here every episode is a point")
        return 1
    if window is None:
        return _usual_window(schedule.duration, segment_length)
    if not is_int(window) or not 1 <= window <= segment_length:
        part = "the life" if len(schedule.order) == 1 else "a task"
        raise UserError(f"a window must be an integer from 1 to {segment_length}, the steps of {part}; got {window!r}")
    return int(window)


def _usual_window(duration: int, segment_length: int) -> int:
    """A window that gives about a hundred points. If none of a similar length divides a segment, the last of each is shorter."""
    wanted = min(max(1, duration // POINTS), segment_length)
    small = [n for n in range(1, math.isqrt(segment_length) + 1) if segment_length % n == 0]
    most = max(1, duration // FEWEST_POINTS)
    divisors = [n for n in sorted({*small, *(segment_length // n for n in small)}) if n <= most]
    nearest = min(divisors, key=lambda n: abs(math.log(n / wanted)))
    return nearest if duration <= MOST_POINTS * nearest else wanted
