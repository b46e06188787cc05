"""The front door: agents of ours, or of yours, live in an environment of your own."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
import polars as pl

from remanence.agents.base import Agent, AgentConfig, BuiltAgent, check_hypers, hypers_of
from remanence.agents.configs import config_named
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, Hypers, Steps
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import LifeConfig
from remanence.gym.check import check_envs
from remanence.gym.factories import Adapter, Maker, env_factories
from remanence.gym.hosted import GymnasiumWorld, env_pool, register_pool
from remanence.gym.policy import Policy
from remanence.gym.pool import EnvPool
from remanence.gym.record import curves_of, lane_row
from remanence.gym.spaces import Spaces
from remanence.results.store import Results
from remanence.runs.describe import describe_agent, versions
from remanence.runs.progress import messages, track
from remanence.schedules import Drift, Schedule, Stationary, Switches
from remanence.streams import Stream

AgentSpec: TypeAlias = str | AgentConfig | Agent | tuple[Agent, Hypers]
Environment: TypeAlias = str | Maker
StreamSpec: TypeAlias = int | Stationary | Drift | Switches

POINTS, FEWEST_POINTS = 100, 20  # of a curve, if the length of a window is not given
LONGEST_ROUND = 64
SECONDS_BETWEEN_LOOKS = 0.2
# A lane's state is there once while it lives and once more when lanes begin, and the program needs room to work.
COPIES, SHARE_OF_MEMORY = 3, 0.7


def live(
    agents: AgentSpec | Sequence[AgentSpec] | Mapping[str, AgentSpec],
    env: Environment | Sequence[Environment] | Mapping[str, Environment],
    stream: StreamSpec,
    *,
    seeds: int | Sequence[int] | None = None,
    window: int | None = None,
    discount: float = 0.99,
    adapter: Adapter | None = None,
    progress: bool = True,
) -> Results:
    """Whole lives of some agents in a Gymnasium environment, one for each seed; returns what became of them.

    Args:
        agents: one or several, by name ("PT-DQN"), as recipes (`PTDQN(decay=0.9)`), or your own `Agent`, alone or with its
            hyper-parameters, (agent, hypers). A dict gives them names.
        env: a function that makes the environment, or its name for `gymnasium.make`; several of them for `Switches`. Every life
            has environments of its own; the parts of a synchronous vector environment are lives side by side.
        stream: how many steps a life has, if nothing changes in it; else `Drift` or `Switches`.
        seeds: how many lives each agent has, or their seeds; 1 if not given, or as many as a vector environment has parts. Equal
            seeds give equal bits, as long as as many live together.
        window: steps per point of a curve; about a hundred points if not given.
        discount: γ. An episode that is cut off is worth what would have followed, one that ends is not.
        adapter: wraps every environment after it was made; for several environments whose spaces differ.
        progress: whether to tell how far it is, on standard error.
    """
    configs = _configs(agents)
    if not 0.0 <= discount <= 1.0:
        raise UserError(f"the discount must be between 0 and 1; got {discount}")
    makers = env_factories(env, adapter)
    if isinstance(stream, int | np.integer):
        stream = Stationary(int(stream))
    if not isinstance(stream, Stationary | Drift | Switches):
        raise UserError(f"a stream is a number of steps, a Drift or Switches; got {stream!r}")
    schedule = stream.schedule(list(makers))
    window = _window(window, schedule)
    spaces, names, parts = check_envs(list(makers.values()), schedule)
    numbers = _seeds(parts if seeds is None else seeds)
    if parts > 1 and len(numbers) != parts:
        raise UserError(f"this vector environment has {parts} parts, one for each life: leave seeds out")
    tasks = len(schedule.names)
    spec = spaces.env_spec(tasks, discount)
    lanes, curves, policies = [], [], {}
    with env_pool() as pool:
        world = GymnasiumWorld(pool, spaces.actions, spec.obs, discount)
        drivers = {
            name: _driver(name, config, spec, world, schedule, len(numbers), in_order=parts > 1)
            for name, config in configs.items()
        }
        for name, config in configs.items():
            workers = EnvPool(list(makers.values()), schedule, spaces, discount, window)
            register_pool(pool, workers)
            hypers, agent = hypers_of(config), drivers[name].setting.agent
            outcome = _run(name, hypers, drivers[name], workers, numbers, progress)
            for row, seed in enumerate(numbers):
                worker = workers.workers[int(outcome.record["lane"][row, -1])]
                state = jax.tree.map(lambda leaf, row=row: leaf[row], agent.policy_state(outcome.agents))
                lane = len(lanes)
                lanes.append(lane_row(lane, name, seed, hypers, outcome, row, state))
                curves += curves_of(lane, worker, schedule)
                policies[name, seed] = Policy(name, config, spaces, tasks, state, {"seed": seed})
    description = _describe(names, configs, stream, schedule, spaces, window, discount, numbers)
    return Results(
        None, description, pl.DataFrame(lanes, infer_schema_length=None), pl.concat(curves), policies=policies
    )


def _run(name: str, hypers: Hypers, driver: Driver, workers: EnvPool, seeds: list[int], progress: bool) -> Outcome:
    """The lives of one agent."""
    setting = driver.setting
    steps = setting.by_steps
    total = len(seeds) * setting.stream.segments * setting.stream.segment_length.count
    console = messages()
    console.quiet = not progress
    first: list[float] = []  # when the first steps were seen: before, the program is compiled
    shown = 0
    try:
        with track(console, name, total, "steps" if steps else "episodes") as advance:

            def look() -> None:
                nonlocal shown
                lived, now = workers.steps, time.monotonic()
                done = min(lived if steps else workers.episodes, total)
                if lived and not first:
                    first.append(now - SECONDS_BETWEEN_LOOKS)
                if done > shown and done >= total // 100:  # an earlier guess of the time left would be wild
                    shown = done
                    advance(done, lived / (now - first[0]))

            outcome = _watched(lambda: driver.run([hypers] * len(seeds), seeds), workers, look)
            look()
        return outcome
    finally:
        workers.close()


def _watched(work: Callable[[], Outcome], workers: EnvPool, look: Callable[[], None]) -> Outcome:
    """Does the work in a thread of its own, so that Ctrl-C is heard while compiled code runs; looks at it now and then."""
    outcome: list[Outcome] = []
    failure: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            over.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            look()
    except BaseException:
        workers.stopping = True
        over.wait()
        raise
    if isinstance(workers.failure, UserError):
        raise workers.failure
    if workers.failure is not None:
        what = f"{type(workers.failure).__name__}: {workers.failure}"
        raise UserError(f"the environment failed after {workers.steps} steps of all lives: {what}") from workers.failure
    if failure:
        raise failure[0]
    return outcome[0]


def _configs(agents: Any) -> dict[str, AgentConfig]:
    """Every agent as a recipe, or as it was made by the user, by name."""
    listed: list[tuple[Any, Any]]
    if isinstance(agents, Mapping):
        listed = list(agents.items())
    elif isinstance(agents, list) or (
        isinstance(agents, tuple) and not isinstance(agents, Agent) and not _is_agent_pair(agents)
    ):
        listed = [(None, one) for one in agents]
    else:
        listed = [(None, agents)]
    found: dict[str, AgentConfig] = {}
    for name, config in listed:
        one = _config(config)
        name = str(name or (config if isinstance(config, str) else getattr(one, "name", "agent")))
        if name in found:
            raise UserError(f"two agents are called '{name}': give them names of their own, {{name: agent, …}}")
        found[name] = one
    if not found:
        raise UserError("nobody to live: give at least one agent, such as 'PT-DQN'")
    return found


def _config(agent: Any) -> AgentConfig:
    if isinstance(agent, str):
        return config_named(agent)
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


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int | np.integer) else [int(seed) for seed in seeds]
    if not numbers:
        raise UserError(f"at least one seed is needed; got {seeds}")
    if min(numbers) < 0 or max(numbers) >= 2**32 or len(set(numbers)) < len(numbers):
        raise UserError(f"seeds are different numbers from 0 to 2³² − 1; got {numbers}")
    return numbers


def _window(window: int | None, schedule: Schedule) -> int:
    segment_length = schedule.segment_length.count
    if not schedule.by_steps:
        if window is not None:
            raise UserError("windows are for lives that are counted in steps: here every episode is a point")
        return 1
    if window is None:
        wanted = max(1, schedule.duration // POINTS)
        divisors = [n for n in range(1, max(1, schedule.duration // FEWEST_POINTS) + 1) if segment_length % n == 0]
        return min(divisors, key=lambda n: abs(math.log(n / wanted)))
    if window < 1 or segment_length % window:
        raise UserError(f"a window must fit a whole number of times into {segment_length} steps; got {window}")
    return int(window)


def _driver(
    name: str,
    config: AgentConfig,
    spec: EnvSpec,
    world: GymnasiumWorld,
    schedule: Schedule,
    lanes: int,
    in_order: bool,
) -> Driver:
    """The program for one agent; refuses what cannot work before anything begins.

    It uses as many devices as share the lanes equally: a row that nobody lives in would need an environment too. Only on one
    device do lanes begin `in_order`, each with its own part of a vector.
    """
    tasks = np.arange(len(schedule.names), dtype=np.int32)
    stream = Stream(tasks, schedule.order, schedule.segment_length, schedule.boundaries_known)
    # The engine's pages are only there to be turned: players keep their own record.
    page = schedule.segment_length.count if schedule.by_steps else 1
    hypers = hypers_of(config)
    try:
        check_hypers(hypers)
        agent = config.build(spec)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    setting = LifeConfig(agent, world, stream, lambda moment: {"lane": moment.world.lane}, window=page)
    devices = 1 if in_order else max(n for n in range(1, len(jax.devices()) + 1) if lanes % n == 0)
    try:
        driver = Driver(setting, _round_steps(setting), devices=devices)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    needed = COPIES * lanes * driver.bytes_per_lane(hypers)
    if needed > SHARE_OF_MEMORY * backend.memory():
        raise UserError(
            f"{name} would need about {needed / 2**30:.1f} GB for {lanes} lives, here are {backend.memory() / 2**30:.1f}: "
            "let it remember less (replay=…), or give fewer seeds"
        )
    return driver


def _round_steps(setting: LifeConfig) -> int:
    """Steps between two looks at who rests: such that nobody rests for long."""
    if not setting.by_steps:
        return 2
    consolidate_every = setting.consolidate_every.count if isinstance(setting.consolidate_every, Steps) else 0
    fitting = math.gcd(setting.stream.segment_length.count, consolidate_every)
    exact = max(n for n in range(1, LONGEST_ROUND + 1) if fitting % n == 0)
    return exact if exact >= 8 else min(16, setting.stream.segment_length.count)


def _describe(
    environments: list[str],
    configs: dict[str, AgentConfig],
    stream: Any,
    schedule: Schedule,
    spaces: Spaces,
    window: int,
    discount: float,
    seeds: list[int],
) -> dict[str, Any]:
    """What was asked, as JSON: the form of every run's description."""
    import gymnasium

    return {
        "experiment": "own",
        "preset": "own",
        "world": {
            "kind": "Gymnasium",
            "environments": environments,
            "discount": float(discount),
            **dataclasses.asdict(spaces),
        },
        "stream": {
            "kind": type(stream).__name__,
            "tasks": list(schedule.names),
            "order": list(schedule.order),
            "segment_length": {type(schedule.segment_length).__name__.lower(): int(schedule.segment_length.count)},
            "boundaries_known": schedule.boundaries_known,
            "truncate_on_switch": schedule.truncate_on_switch,
            "parameter": spoken if (spoken := getattr(schedule.change, "__name__", "")).isidentifier() else None,
        },
        "window": window,
        "contenders": {name: describe_agent(config) for name, config in configs.items()},
        "seeds": seeds,
        "versions": {**versions(), "gymnasium": gymnasium.__version__},
    }
