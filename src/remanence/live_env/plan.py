"""The plan of a run of `live`: the same kind of plan as an experiment's, in a world of the user's environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from remanence.agents.base import Agent, AgentConfig, check_hypers, hypers_of
from remanence.agents.learners import choose_learner
from remanence.core import backend
from remanence.core.describe import to_json
from remanence.core.errors import UserError, of_agent
from remanence.core.identity import of_env, of_function, of_value
from remanence.core.types import MAX_COUNT, Hypers, Steps
from remanence.engine.life import Probe, ProbeInput
from remanence.engine.probes import episode_curves, together
from remanence.gym.check import check_envs, check_restoring
from remanence.gym.factories import Adapter, EnvFactory, Maker, named_makers
from remanence.gym.hosted import GymnasiumWorld
from remanence.gym.pool import EnvSource
from remanence.gym.restoring import BY_REPLAY, BY_STATE, NOT_AT_ALL
from remanence.live_env.arguments import chosen_window, is_int, seed_list
from remanence.metrics import METRICS
from remanence.results.store import OWN
from remanence.runs.describe import describe_agent, versions
from remanence.runs.jobs import COPIES, SHARE_OF_MEMORY, make_driver
from remanence.runs.plan import Contender, Plan
from remanence.streams import Drift, Schedule, Stationary, Stream, Switches

AgentSpec: TypeAlias = str | AgentConfig | Agent | tuple[Agent, Hypers]
Environment: TypeAlias = str | Maker
StreamSpec: TypeAlias = int | Stationary | Drift | Switches

RECORDED = (
    "return",
    "reward_rate",
    "episode_length",
    "episodes",
    "task",
    *(name for name, one in METRICS.items() if one.about_parts),
)  # in the order of the tables; the first one is plotted


@dataclass(frozen=True)
class LivePlan:
    """Everything that `live` was asked for, checked."""

    plan: Plan
    seeds: list[int]
    about: Mapping[str, Any]
    """the description of the run, without agents and seeds"""
    notice: str = ""
    """what a user should know before it starts"""
    parts: int = 1
    """sub-environments of a vector environment"""

    def description(self, seeds: Sequence[int]) -> dict[str, Any]:
        contenders = {name: describe_agent(one.config) for name, one in self.plan.contenders.items()}
        return {**self.about, "contenders": contenders, "seeds": list(seeds)}


def live_plan(
    contenders: Mapping[str, Contender],
    env: Any,
    stream: StreamSpec,
    seeds: int | Sequence[int] | None,
    window: int | None,
    discount: float,
    adapter: Adapter | None,
    lasting: bool,
) -> LivePlan:
    """Checks all arguments. `lasting`: whether the run has a directory, so that it must be known what the environments are and
    how they can be restored."""
    if not isinstance(discount, int | float | np.number) or not 0.0 <= discount <= 1.0:
        raise UserError(f"the discount must be a number between 0 and 1; got {discount!r}")
    makers = named_makers(env)
    schedule, stream = _schedule(stream, list(makers))
    window = chosen_window(window, schedule)
    factories = [EnvFactory(make, adapter) for make in makers.values()]
    spaces, names, parts, use_jax = check_envs(factories, schedule)
    numbers = seed_list(parts if seeds is None else seeds)
    if parts > 1 and len(numbers) != parts:
        raise UserError(f"this vector environment has {parts} sub-environments, one per seed: omit seeds")
    about = _describe(names, stream, schedule, to_json(spaces), window, discount)
    how, notice = NOT_AT_ALL, ""
    if lasting:
        identities, how, notice = _identify(factories, list(makers.values()), adapter, spaces, names)
        about["world"]["identity"] = identities
        about["stream"]["changes"] = _changes(stream)
    source = EnvSource(tuple(makers.values()), adapter, schedule, spaces, discount, how, parts, use_jax)
    spec = spaces.env_spec(len(schedule.names), discount)
    plan = Plan(
        GymnasiumWorld(source, spaces.actions, spec.obs, discount),
        schedule.stream,
        contenders,
        lambda _: _probe(len(schedule.names) > 1),
        seeds=len(numbers),
        round_steps=None,
        window=window,
        watch_parts=True,
        curves=RECORDED,
        same_for_all=_parameter(schedule, window),
        spaces=spaces,
    )
    return LivePlan(plan, numbers, about, notice, parts)


def check_agents(plan: Plan, lanes: int | None) -> None:
    """Raises if an agent cannot work. `lanes`: how many must fit in memory at once."""
    for name, contender in plan.contenders.items():
        config, hypers = contender.config, hypers_of(contender.config)
        try:
            check_hypers(hypers)
            learner = choose_learner(config.build(plan.spec), name=name).learner
            driver = make_driver(plan, config, learner)
            _check_that_it_learns(config, plan.stream)
        except UserError as error:
            raise of_agent(name, error) from None
        needed = COPIES * (lanes or 1) * driver.bytes_per_lane(hypers)
        there = backend.device_memory(driver.mesh.devices.tolist())
        if needed > SHARE_OF_MEMORY * there:
            raise UserError(
                f"{name} needs about {needed / 2**30:.1f} GB for {lanes or 1} seeds, but there are "
                f"{there / 2**30:.1f}: give a smaller replay buffer (replay=…) or fewer seeds"
            )


def _check_that_it_learns(config: AgentConfig, stream: Stream) -> None:
    starts, life = getattr(config, "learning_starts", None), stream.segments * stream.segment_length.count
    if starts is not None and isinstance(stream.segment_length, Steps) and starts >= life:
        raise UserError(f"learning_starts={starts:,} is after the end of a life of {life:,} steps: it never learns")


def _schedule(stream: Any, names: list[str]) -> tuple[Schedule, Any]:
    if is_int(stream):
        stream = Stationary(int(stream))
    if isinstance(stream, float) and stream.is_integer():
        raise UserError(f"the number of steps is an integer: {int(stream):_}; got {stream!r}")
    if not isinstance(stream, Stationary | Drift | Switches):
        raise UserError(f"a stream is a number of steps, a Drift or Switches; got {stream!r}")
    schedule = stream.schedule(names)
    if schedule.duration > MAX_COUNT:
        unit = "steps" if schedule.by_steps else "episodes"
        raise UserError(f"a stream has at most {MAX_COUNT:,} {unit}; this one has {schedule.duration:,}")
    return schedule, stream


def _probe(several_tasks: bool) -> Probe:
    """What is recorded in each window."""

    def task(probe_input: ProbeInput) -> dict[str, Any]:
        return {"task": probe_input.task_id.astype(np.float32)} if several_tasks else {}

    return together(episode_curves, task)


def _parameter(schedule: Schedule, window: int) -> dict[str, list[float]]:
    """The parameter at the end of each window, if it is a number."""
    values = [schedule.value(end - 1) for end in schedule.stream.ends(window)]
    return {"parameter": values} if all(isinstance(value, int | float | np.number) for value in values) else {}


def _identify(
    factories: Sequence[EnvFactory], makers: Sequence[Maker], adapter: Any, spaces: Any, names: Sequence[str]
) -> tuple[list[dict[str, Any]], str, str]:
    """What identifies each environment, how all are restored from a checkpoint, and what a user should know of that."""
    found, ways = [], []
    for factory, make, name in zip(factories, makers, names, strict=True):
        env, how, fingerprint = check_restoring(factory, spaces, name)
        adapted = {"adapter": of_function(adapter)} if adapter is not None else {}
        found.append({**of_env(env), "maker": of_function(make), **adapted, "fingerprint": fingerprint})
        ways.append(how)
    if all(how == BY_STATE for how in ways):
        return found, BY_STATE, ""
    unsteady = [name for name, one in zip(names, found, strict=True) if not one["fingerprint"]]
    if not unsteady:
        return found, BY_REPLAY, ""
    notice = f"{unsteady[0]} does not repeat itself and offers no state: a life that is interrupted begins again"
    return found, NOT_AT_ALL, notice


def _changes(stream: Any) -> dict[str, Any]:
    """How the stream changes the environment."""
    return {field.name: of_value(getattr(stream, field.name)) for field in dataclasses.fields(stream)}


def _describe(
    environments: list[str], stream: Any, schedule: Schedule, spaces: dict[str, Any], window: int, discount: float
) -> dict[str, Any]:
    """The description of the run, as JSON, without agents and seeds."""
    import gymnasium

    return {
        "experiment": OWN,
        "preset": OWN,
        "world": {"kind": "Gymnasium", "environments": environments, "discount": float(discount), **spaces},
        "stream": {
            "kind": type(stream).__name__,
            "tasks": list(schedule.names),
            "order": list(schedule.order),
            "segment_length": {type(schedule.segment_length).__name__.lower(): int(schedule.segment_length.count)},
            "boundaries_known": schedule.stream.boundaries_known,
            "truncate_on_switch": schedule.truncate_on_switch,
            "parameter": name if (name := getattr(schedule.change, "__name__", "")).isidentifier() else None,
        },
        "window": window,
        "versions": {**versions(), "gymnasium": gymnasium.__version__},
    }
