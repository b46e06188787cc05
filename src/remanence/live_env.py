"""The front door: agents of ours, or of yours, live in an environment of your own."""

from __future__ import annotations

import dataclasses
import math
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.agents.base import Agent, check_hypers
from remanence.agents.configs import AgentConfig, BuiltAgent, config_named, is_ours
from remanence.agents.td import NoHypers
from remanence.core import backend
from remanence.core.errors import UserError, unknown
from remanence.core.types import Hypers, Steps
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import LifeConfig, ProbeInput
from remanence.engine.probes import episode_curves
from remanence.gym.check import check_envs
from remanence.gym.factories import Adapter, Maker, env_factories
from remanence.gym.hosted import GymnasiumWorld, env_pool, register_pool
from remanence.gym.policy import Policy, load_policy, weights_of
from remanence.gym.pool import EnvPool
from remanence.gym.spaces import Spaces
from remanence.results.directory import keep
from remanence.results.schema import curve_rows
from remanence.results.store import POLICIES, Results, load
from remanence.runs.progress import messages, track
from remanence.streams import Drift, Schedule, Stationary, Switches

if TYPE_CHECKING:
    import altair as alt

AgentSpec: TypeAlias = str | AgentConfig | Agent | tuple[Agent, Hypers]
Environment: TypeAlias = str | Maker
StreamSpec: TypeAlias = int | Stationary | Drift | Switches

RECORDED = (
    "return",
    "reward_rate",
    "episode_length",
    "episodes",
    "task",
)  # in this order in tables: the first is plotted
POINTS, FEWEST_POINTS = 100, 20  # of a curve, if the length of a window is not given
LONGEST_ROUND, USUAL_ROUND = 64, 16
SECONDS_BETWEEN_LOOKS = 0.2
# A lane's state is there once while it lives and once more when lanes begin, and the program needs room to work.
COPIES, SHARE_OF_MEMORY = 3, 0.7


@dataclass(frozen=True, repr=False)
class LiveResults(Results):
    """The results of `live`, or any run read from disk: tables, a chart, and what the agents have learned."""

    policies: Mapping[tuple[str, int], Policy] = field(default_factory=dict)
    """by contender and seed, of a run that is only in memory"""

    def plot(self, metric: str | None = None, smooth: int = 1) -> alt.TopLevelMixin:
        """A chart of one metric, the first one if not given; `smooth`: each point is the mean of that many windows."""
        from remanence.report.panels.run import chart

        return chart(self, metric, smooth)

    def policy(self, contender: str, seed: int | None = None) -> Policy:
        """The policy of a contender at the end of its life; of the first seed, if not given."""
        if contender not in self.contenders:
            raise unknown("agent", contender, self.contenders)
        seed = self.seeds[0] if seed is None else seed
        if seed not in self.seeds:
            raise UserError(f"'{contender}' did not live with seed {seed}: seeds are {self.seeds}")
        if self.kept is None:
            return self.policies[contender, seed]
        return load_policy(self.path / POLICIES / f"{self.lane(contender, seed)}.npz")

    def save(self, path: str | Path) -> Path:
        """Writes the run to a directory, for `remanence.load_results`. Policies of our agents are saved with it."""
        savable = {
            self.lane(contender, seed): policy
            for (contender, seed), policy in self.policies.items()
            if policy.config is not None
        }
        return keep(self, Path(path), savable)

    def _repr_mimebundle_(self, *options: Any, **more: Any) -> Any:
        """Notebooks show the chart."""
        return self.plot()._repr_mimebundle_(*options, **more)  # type: ignore[attr-defined]


def load_results(path: str | Path) -> LiveResults:
    """Reads a run of `live` or of an experiment from its directory."""
    found = load(path)
    return LiveResults(found.kept, found.description, found.lanes, found.curves, found.maps)


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
    built = {
        name: config if isinstance(config, BuiltAgent) else BuiltAgent(*config.build(spaces, tasks))
        for name, config in configs.items()
    }
    lanes, curves, policies = [], [], {}
    with env_pool() as pool:
        world = GymnasiumWorld(pool, spaces.actions, spaces.shape, spaces.dtype, discount)
        drivers = {
            name: _driver(name, one, world, schedule, window, len(numbers), in_order=parts > 1)
            for name, one in built.items()
        }
        for name, one in built.items():
            workers = EnvPool(list(makers.values()), schedule, spaces, discount)
            register_pool(pool, workers)
            outcome = _run(name, one.hypers, drivers[name], workers, numbers, progress)
            config = configs[name] if is_ours(configs[name]) else None
            for row, seed in enumerate(numbers):
                state = jax.tree.map(lambda leaf, row=row: leaf[row], weights_of(outcome.agents))
                lane = len(lanes)
                lanes.append(_lane_row(lane, name, seed, one.hypers, outcome, row, state))
                curves += _curves(lane, {metric: values[row] for metric, values in outcome.record.items()}, schedule)
                policies[name, seed] = Policy(name, one, spaces, tasks, state, config, {"seed": seed})
    description = _describe(names, configs, built, stream, schedule, spaces, window, discount, numbers)
    return LiveResults(
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
    boundaries_known = 0
    try:
        with track(console, name, total, "steps" if steps else "episodes") as advance:

            def look() -> None:
                nonlocal boundaries_known
                lived, now = workers.steps, time.monotonic()
                done = min(lived if steps else workers.episodes, total)
                if lived and not first:
                    first.append(now - SECONDS_BETWEEN_LOOKS)
                if done > boundaries_known and done >= total // 100:  # an earlier guess of the time left would be wild
                    boundaries_known = done
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


def _configs(agents: Any) -> dict[str, AgentConfig | BuiltAgent]:
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
    found: dict[str, AgentConfig | BuiltAgent] = {}
    for name, config in listed:
        one = _config(config)
        name = str(name or (config if isinstance(config, str) else getattr(one, "name", "agent")))
        if name in found:
            raise UserError(f"two agents are called '{name}': give them names of their own, {{name: agent, …}}")
        found[name] = one
    if not found:
        raise UserError("nobody to live: give at least one agent, such as 'PT-DQN'")
    return found


def _config(config: Any) -> AgentConfig | BuiltAgent:
    if isinstance(config, str):
        return config_named(config)
    if isinstance(config, Agent):
        return BuiltAgent(config, NoHypers())
    if isinstance(config, tuple) and _is_agent_pair(config):
        return BuiltAgent(*config)
    if isinstance(config, AgentConfig) and not isinstance(config, type):
        return config
    raise UserError(
        f"an agent is a name such as 'PT-DQN', a recipe such as PTDQN(), an Agent, or a pair (Agent, hypers); got {config!r}"
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
    name: str, built: BuiltAgent, world: GymnasiumWorld, schedule: Schedule, window: int, lanes: int, in_order: bool
) -> Driver:
    """The program for one agent; refuses what cannot work before anything begins.

    It uses as many devices as share the lanes equally: a row that nobody lives in would need an environment too. Only on one
    device do lanes begin `in_order`, each with its own part of a vector.
    """
    setting = LifeConfig(built.agent, world, schedule.stream, _probe(schedule), window=window)
    devices = 1 if in_order else max(n for n in range(1, len(jax.devices()) + 1) if lanes % n == 0)
    try:
        check_hypers(built.hypers)
        driver = Driver(setting, _round_steps(setting), devices=devices)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    needed = COPIES * lanes * driver.bytes_per_lane(built.hypers)
    if needed > SHARE_OF_MEMORY * backend.memory():
        raise UserError(
            f"{name} would need about {needed / 2**30:.1f} GB for {lanes} lives, here are {backend.memory() / 2**30:.1f}: "
            "let it remember less (replay=…), or give fewer seeds"
        )
    return driver


def _round_steps(setting: LifeConfig) -> int:
    """Steps per round: such that lanes rarely wait for the end of a round, at the end of a window or before they consolidate."""
    if not setting.by_steps:
        return 2
    consolidate_every = setting.consolidate_every.count if isinstance(setting.consolidate_every, Steps) else 0
    fitting = math.gcd(setting.window, consolidate_every)
    exact = max(n for n in range(1, LONGEST_ROUND + 1) if fitting % n == 0)
    rounds = -(-setting.window // USUAL_ROUND)  # of a window, all equally long
    return exact if exact >= USUAL_ROUND // 2 else -(-setting.window // rounds)


def _probe(schedule: Schedule) -> Callable[[ProbeInput], dict[str, Any]]:
    """What the engine records of a life."""

    def measure(moment: ProbeInput) -> dict[str, Any]:
        task = {"task": moment.task_id.astype(np.float32)} if len(schedule.names) > 1 else {}
        return {**episode_curves(moment), **task}

    return measure


def _curves(lane: int, record: Mapping[str, np.ndarray], schedule: Schedule) -> list[pl.DataFrame]:
    """The curves of one lane: what the engine recorded, and the parameter at the end of each window, where it is a number."""
    found: dict[str, Any] = {metric: record[metric] for metric in RECORDED if metric in record}
    windows = len(found["return"])
    window = schedule.duration // windows
    values = [schedule.value((index + 1) * window - 1) for index in range(windows)]
    if all(isinstance(value, int | float | np.number) for value in values):
        found["parameter"] = values
    lanes = np.array([lane], np.int32)
    return [curve_rows(lanes, np.asarray(values, np.float64)[None], metric) for metric, values in found.items()]


def _lane_row(lane: int, contender: str, seed: int, hypers: Hypers, outcome: Outcome, row: int, weights: Any) -> dict:
    """One row of `lanes`."""
    numbers = [*jax.tree.leaves(weights), *(values[row] for values in outcome.record.values())]
    sound = all(np.isfinite(leaf).all() for leaf in numbers if leaf.dtype.kind == "f")
    return {
        "lane": lane,
        "contender": contender,
        "seed": seed,
        **_hypers(hypers),
        "steps": int(outcome.steps[row]),
        "samples_dropped": int(outcome.samples_dropped[row]),
        "diverged": not sound,
        "version": __version__,
    }


def _hypers(hypers: Hypers) -> dict[str, float]:
    """Hyper-parameters by name, where they have names."""
    if not dataclasses.is_dataclass(hypers):
        return {}
    return {one.name: float(getattr(hypers, one.name)) for one in dataclasses.fields(hypers)}


def _fields(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def _describe(
    environments: list[str],
    configs: dict[str, AgentConfig | BuiltAgent],
    built: dict[str, BuiltAgent],
    stream: Any,
    schedule: Schedule,
    spaces: Spaces,
    window: int,
    discount: float,
    seeds: list[int],
) -> dict[str, Any]:
    """What was asked, as JSON: the form of every run's description."""
    import gymnasium

    forms = {
        name: {"kind": type(config).__name__, **_fields(config)} if is_ours(config) else {"kind": "own"}
        for name, config in configs.items()
    }
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
            "boundaries_known": schedule.stream.boundaries_known,
            "truncate_on_switch": schedule.truncate_on_switch,
            "parameter": spoken if (spoken := getattr(schedule.change, "__name__", "")).isidentifier() else None,
        },
        "window": window,
        "contenders": {name: {"form": forms[name], "hypers": _hypers(built[name].hypers)} for name in configs},
        "seeds": seeds,
        "versions": {
            "remanence": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "gymnasium": gymnasium.__version__,
            "python": platform.python_version(),
        },
    }
