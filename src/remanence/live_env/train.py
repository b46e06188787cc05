"""`remanence.live`: trains agents in the user's Gymnasium environments."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.agents.base import Agent, AgentConfig, check_hypers, hypers_of
from remanence.agents.learners import choose_learner
from remanence.core import backend
from remanence.core.describe import to_json
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import EnvSpec, Hypers, Steps
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import LifeConfig, Probe, ProbeInput, first_reset_key
from remanence.engine.probes import episode_curves, magnitudes, parts_of_value, together
from remanence.gym.check import check_envs
from remanence.gym.factories import Adapter, Maker, env_factories
from remanence.gym.hosted import GymnasiumWorld, env_pool, env_seed, register_pool
from remanence.gym.policy import Policy
from remanence.gym.pool import EnvPool
from remanence.gym.spaces import Spaces
from remanence.live_env.arguments import chosen_window, is_int, named_configs, seed_list
from remanence.live_env.results import LiveResults
from remanence.metrics import METRICS, impossible_values
from remanence.results.schema import curve_rows
from remanence.runs.describe import describe_agent, versions
from remanence.runs.jobs import COPIES, SHARE_OF_MEMORY
from remanence.runs.progress import messages, track
from remanence.runs.rows import MARGIN, divergence, largest_value
from remanence.streams import Drift, Schedule, Stationary, Switches

if TYPE_CHECKING:
    pass

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
LONGEST_ROUND, USUAL_ROUND = 64, 16
SECONDS_BETWEEN_LOOKS = 0.2
MAX_DURATION = 2**31 - 1  # of a stream: clocks are 32-bit integers


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
) -> LiveResults:
    """Trains agents in a Gymnasium environment, once for each seed, and returns their curves and policies.

    Args:
        agents: one or several: names ("PT-DQN"), configurations (`PTDQN(decay=0.9)`), your own `Agent`, or a pair (agent, hypers).
            A dict gives them names. With `Switches(boundaries_known=True)`, the names "PT-DQN" and "PT-Q" mean the agents of the
            paper's §5: they consolidate at every switch and reset the transient part (λ = 0).
        env: a function that makes the environment, or its name for `gymnasium.make`; several of them for `Switches`. Every seed has
            its own environments; each sub-environment of a synchronous vector environment serves one seed.
        stream: the number of steps, if the environment is stationary; else `Drift` or `Switches`.
        seeds: the number of seeds, or the seeds themselves; default: 1, or the number of sub-environments of a vector environment.
            The same seeds give the same bits for the same number of parallel seeds.
        window: steps per point of a curve; default: about a hundred points.
        discount: γ. We bootstrap on truncation, not on termination.
        adapter: a wrapper for every environment, for instance if the spaces of several environments differ.
        progress: whether to show progress on standard error.
    """
    configs = named_configs(agents, isinstance(stream, Switches) and stream.boundaries_known)
    if not isinstance(discount, int | float | np.number) or not 0.0 <= discount <= 1.0:
        raise UserError(f"the discount must be a number between 0 and 1; got {discount!r}")
    makers = env_factories(env, adapter)
    if is_int(stream):
        stream = Stationary(int(stream))
    if not isinstance(stream, Stationary | Drift | Switches):
        raise UserError(f"a stream is a number of steps, a Drift or Switches; got {stream!r}")
    schedule = stream.schedule(list(makers))
    if schedule.duration > MAX_DURATION:
        unit = "steps" if schedule.by_steps else "episodes"
        raise UserError(f"a stream has at most {MAX_DURATION:,} {unit}; this one has {schedule.duration:,}")
    window = chosen_window(window, schedule)
    spaces, names, parts = check_envs(list(makers.values()), schedule)
    numbers = seed_list(parts if seeds is None else seeds)
    if parts > 1 and len(numbers) != parts:
        raise UserError(f"this vector environment has {parts} sub-environments, one per seed: omit seeds")
    tasks = len(schedule.names)
    spec = spaces.env_spec(tasks, discount)
    description = _describe(names, configs, stream, schedule, spaces, window, discount, numbers)
    lanes, curves, policies = [], [], {}
    with env_pool() as pool:
        world = GymnasiumWorld(pool, spaces.actions, spec.obs, discount)
        drivers = {
            name: _driver(name, config, spec, world, schedule, window, len(numbers), in_order=parts > 1)
            for name, config in configs.items()
        }
        for name, config in configs.items():
            workers = EnvPool(list(makers.values()), schedule, spaces, discount)
            register_pool(pool, workers)
            hypers, agent = hypers_of(config), drivers[name].config.agent
            outcome = _run(name, hypers, drivers[name], workers, numbers, progress)
            failed = _failed(name, workers, numbers)
            reward = float(agent.learned_reward(jax.numpy.float32(workers.largest_reward)))
            absurd = MARGIN * largest_value(reward, discount, int(outcome.steps.max()))
            for row, seed in enumerate(numbers):
                state = jax.tree.map(lambda leaf, row=row: leaf[row], agent.policy_state(outcome.agents))
                lane = len(lanes)
                lanes.append(_lane_row(lane, name, seed, hypers, outcome, row, state, failed.get(seed, ""), absurd))
                curves += _curves(lane, {metric: values[row] for metric, values in outcome.record.items()}, schedule)
                policies[name, seed] = Policy(name, config, spaces, tasks, state, {"seed": seed})
            of_agent = lanes[-len(numbers) :]
            diverged = [row["seed"] for row in of_agent if row["diverged"] and not row["failed"]]
            if diverged:
                warnings.warn(divergence(name, diverged, len(numbers)), stacklevel=2)
            ratios = zip(of_agent, outcome.record["value_ratio"][:, -1].tolist(), strict=True)
            if warning := impossible_values(name, [ratio for row, ratio in ratios if not row["diverged"]]):
                warnings.warn(warning, stacklevel=2)
    return LiveResults(
        None, description, pl.DataFrame(lanes, infer_schema_length=None), pl.concat(curves), policies=policies
    )


def _run(name: str, hypers: Hypers, driver: Driver, workers: EnvPool, seeds: list[int], progress: bool) -> Outcome:
    """Runs one agent with all seeds."""
    life_config = driver.config
    steps = life_config.by_steps
    total = len(seeds) * life_config.stream.segments * life_config.stream.segment_length.count
    console = messages()
    console.quiet = not progress
    first: list[float] = []  # time of the first steps, after compilation
    shown = 0
    try:
        with track(console, name, total, "steps" if steps else "episodes") as advance:

            def look() -> None:
                nonlocal shown
                lived, now = workers.steps, time.monotonic()
                done = min(lived if steps else workers.episodes, total)
                if lived and not first:
                    first.append(now - SECONDS_BETWEEN_LOOKS)
                if done > shown and done >= total // 100:  # an earlier estimate of the remaining time would be poor
                    shown = done
                    advance(done, lived / (now - first[0]))

            outcome = _watched(lambda: driver.run([hypers] * len(seeds), seeds), workers, look)
            look()
        return outcome
    finally:
        workers.close()


def _watched(work: Callable[[], Outcome], workers: EnvPool, look: Callable[[], None]) -> Outcome:
    """Runs `work` in a thread, so that Ctrl-C works while compiled code runs; calls `look` at intervals."""
    outcome: list[Outcome] = []
    failure: list[BaseException] = []
    finished = threading.Event()

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            finished.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        while not finished.wait(SECONDS_BETWEEN_LOOKS):
            look()
    except BaseException:
        workers.stopping = True
        finished.wait()
        raise
    if isinstance(workers.failure, UserError):
        raise workers.failure
    if workers.failure is not None:
        what = f"{type(workers.failure).__name__}: {workers.failure}"
        raise UserError(f"the environment failed: {what}") from workers.failure
    if failure:
        raise failure[0]
    return outcome[0]


def _failed(name: str, workers: EnvPool, seeds: list[int]) -> dict[int, str]:
    """Why lives failed, by seed: a warning for each; an error if all did."""
    failures, found = workers.failures, {}
    if not failures:
        return {}
    for seed in seeds:
        failure = failures.get(int(env_seed(first_reset_key(make_key(seed)))))
        if failure is not None:
            found[seed] = f"{failure.env} failed with seed {seed} at step {failure.step}: {failure.what}"
    if len(found) == len(seeds):
        first = next(iter(failures.values()))
        raise UserError(f"{name}: {next(iter(found.values()))}") from first.error
    for text in found.values():
        warnings.warn(f"{name}: {text}. This life is left out of averages; the others go on", stacklevel=3)
    return found


def _driver(
    name: str,
    config: AgentConfig,
    spec: EnvSpec,
    world: GymnasiumWorld,
    schedule: Schedule,
    window: int,
    lanes: int,
    in_order: bool,
) -> Driver:
    """The program for one agent; raises if it cannot work.

    The number of devices divides the number of lanes: an empty row would need an environment too. Only on one device do lanes
    start `in_order`, each with its own sub-environment of a vector environment.
    """
    hypers = hypers_of(config)
    devices = 1 if in_order else max(n for n in range(1, len(jax.devices()) + 1) if lanes % n == 0)
    try:
        check_hypers(hypers)
        agent = choose_learner(config.build(spec), name=name).agent
        probe = _probe(schedule, agent, world.discount, getattr(config, "frames", 1))
        life_config = LifeConfig(agent, world, schedule.stream, probe, window=window, watch_parts=True)
        driver = Driver(life_config, _round_steps(life_config), devices=devices)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    needed = COPIES * lanes * driver.bytes_per_lane(hypers)
    there = backend.device_memory(driver.mesh.devices.tolist())
    if needed > SHARE_OF_MEMORY * there:
        raise UserError(
            f"{name} needs about {needed / 2**30:.1f} GB for {lanes} seeds, but there are {there / 2**30:.1f}: "
            "give a smaller replay buffer (replay=…) or fewer seeds"
        )
    return driver


def _round_steps(life_config: LifeConfig) -> int:
    """Steps per round, such that lanes rarely wait for the end of a round, at the end of a window or before a consolidation."""
    if not life_config.by_steps:
        return 2
    consolidate_every = life_config.consolidate_every.count if isinstance(life_config.consolidate_every, Steps) else 0
    fitting = math.gcd(life_config.window, consolidate_every)
    exact = max(n for n in range(1, LONGEST_ROUND + 1) if fitting % n == 0)
    rounds = -(-life_config.window // USUAL_ROUND)  # per window, all of equal length
    return exact if exact >= USUAL_ROUND // 2 else -(-life_config.window // rounds)


def _probe(schedule: Schedule, agent: Agent, discount: float, frames: int) -> Probe:
    """What is recorded in each window."""

    def task(probe_input: ProbeInput) -> dict[str, Any]:
        return {"task": probe_input.task_id.astype(np.float32)} if len(schedule.names) > 1 else {}

    return together(episode_curves, task, parts_of_value(agent, discount), magnitudes(agent, frames))


def _curves(lane: int, record: Mapping[str, np.ndarray], schedule: Schedule) -> list[pl.DataFrame]:
    """The curves of one lane: what was recorded, and the parameter at the end of each window, if it is a number."""
    found: dict[str, Any] = {metric: record[metric] for metric in RECORDED if metric in record}
    windows = len(found["return"])
    window = schedule.duration // windows
    values = [schedule.value((index + 1) * window - 1) for index in range(windows)]
    if all(isinstance(value, int | float | np.number) for value in values):
        found["parameter"] = values
    lanes = np.array([lane], np.int32)
    return [curve_rows(lanes, np.asarray(values, np.float64)[None], metric) for metric, values in found.items()]


def _lane_row(
    lane: int,
    contender: str,
    seed: int,
    hypers: Any,
    outcome: Outcome,
    row: int,
    weights: Any,
    failed: str,
    absurd: float,
) -> dict:
    """One row of `lanes`. Values above `absurd`, with room for those of a network that has learned nothing, have diverged."""
    numbers = [*jax.tree.leaves(weights), *(values[row] for values in outcome.record.values())]
    finite = all(np.isfinite(leaf).all() for leaf in numbers if leaf.dtype.kind == "f")
    value, scale = outcome.record["largest_value"][row], outcome.record["largest_input"][row]
    sound = finite and bool((value <= absurd + MARGIN * scale).all())
    return {
        "lane": lane,
        "contender": contender,
        "seed": seed,
        **({name: float(value) for name, value in vars(hypers).items()} if isinstance(hypers, Hypers) else {}),
        "steps": int(outcome.steps[row]),
        "samples_dropped": int(outcome.samples_dropped[row]),
        "failed": failed,
        "diverged": not sound or bool(failed),
        "version": __version__,
    }


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
    """The description of the run, as JSON."""
    import gymnasium

    return {
        "experiment": "own",
        "preset": "own",
        "world": {
            "kind": "Gymnasium",
            "environments": environments,
            "discount": float(discount),
            **to_json(spaces),
        },
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
        "contenders": {name: describe_agent(config) for name, config in configs.items()},
        "seeds": seeds,
        "versions": {**versions(), "gymnasium": gymnasium.__version__},
    }
