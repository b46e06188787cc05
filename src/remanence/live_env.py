"""The front door: agents of ours, or of yours, live in an environment of your own."""

from __future__ import annotations

import dataclasses
import math
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.agents.base import Agent, check_hypers
from remanence.agents.configs import Made, Recipe, is_ours, named
from remanence.agents.td import NoHypers
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.types import Hypers, Steps
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import Setting
from remanence.gym.check import examine
from remanence.gym.factories import Adapter, Maker, sources
from remanence.gym.hosted import GymnasiumWorld, admit, hosting
from remanence.gym.policy import Policy, weights_of
from remanence.gym.pool import Players
from remanence.gym.record import curves_of, lane_row, numbers_of
from remanence.gym.spaces import Spaces
from remanence.results.store import Results
from remanence.runs.progress import messages, track
from remanence.schedules import Drift, Steady, Switches, Timetable
from remanence.streams import Stream

Guest: TypeAlias = str | Recipe | Agent | tuple[Agent, Hypers]
Environment: TypeAlias = str | Maker
Stretch: TypeAlias = int | Steady | Drift | Switches

POINTS, FEWEST_POINTS = 100, 20  # of a curve, if the length of a window is not given
LONGEST_ROUND = 64
SECONDS_BETWEEN_LOOKS = 0.2
# A lane's state is there once while it lives and once more when lanes begin, and the program needs room to work.
COPIES, SHARE_OF_MEMORY = 3, 0.7


def live(
    agents: Guest | Sequence[Guest] | Mapping[str, Guest],
    env: Environment | Sequence[Environment] | Mapping[str, Environment],
    stream: Stretch,
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
    guests = _guests(agents)
    if not 0.0 <= discount <= 1.0:
        raise UserError(f"the discount must be between 0 and 1; got {discount}")
    makers = sources(env, adapter)
    if isinstance(stream, int | np.integer):
        stream = Steady(int(stream))
    if not isinstance(stream, Steady | Drift | Switches):
        raise UserError(f"a stream is a number of steps, a Drift or Switches; got {stream!r}")
    timetable = stream.timetable(list(makers))
    window = _window(window, timetable)
    spaces, names, parts = examine(list(makers.values()), timetable)
    numbers = _seeds(parts if seeds is None else seeds)
    if parts > 1 and len(numbers) != parts:
        raise UserError(f"this vector environment has {parts} parts, one for each life: leave seeds out")
    tasks = len(timetable.names)
    made = {
        name: guest if isinstance(guest, Made) else Made(*guest.make(spaces, tasks)) for name, guest in guests.items()
    }
    lanes, curves, policies = [], [], {}
    with hosting() as company:
        world = GymnasiumWorld(company, spaces.actions, spaces.shape, spaces.dtype, discount)
        drivers = {
            name: _driver(name, one, world, timetable, len(numbers), in_order=parts > 1) for name, one in made.items()
        }
        for name, one in made.items():
            players = Players(list(makers.values()), timetable, spaces, discount, window)
            admit(company, players)
            outcome = _run(name, one.hypers, drivers[name], players, numbers, progress)
            recipe = guests[name] if is_ours(guests[name]) else None
            for row, seed in enumerate(numbers):
                player = players.players[int(outcome.record["lane"][row, -1])]
                state = jax.tree.map(lambda leaf, row=row: leaf[row], weights_of(outcome.agents))
                lane = len(lanes)
                lanes.append(lane_row(lane, name, seed, one.hypers, outcome, row, state))
                curves += curves_of(lane, player, timetable)
                policies[name, seed] = Policy(name, one, spaces, tasks, state, recipe, {"seed": seed})
    description = _describe(names, guests, made, stream, timetable, spaces, window, discount, numbers)
    return Results(
        None, description, pl.DataFrame(lanes, infer_schema_length=None), pl.concat(curves), policies=policies
    )


def _run(name: str, hypers: Hypers, driver: Driver, players: Players, seeds: list[int], progress: bool) -> Outcome:
    """The lives of one agent."""
    setting = driver.setting
    steps = setting.by_steps
    total = len(seeds) * setting.stream.segments * setting.stream.span.count
    console = messages()
    console.quiet = not progress
    first: list[float] = []  # when the first steps were seen: before, the program is compiled
    told = 0
    try:
        with track(console, name, total, "steps" if steps else "episodes") as advance:

            def look() -> None:
                nonlocal told
                lived, now = players.steps, time.monotonic()
                done = min(lived if steps else players.episodes, total)
                if lived and not first:
                    first.append(now - SECONDS_BETWEEN_LOOKS)
                if done > told and done >= total // 100:  # an earlier guess of the time left would be wild
                    told = done
                    advance(done, lived / (now - first[0]))

            outcome = _watched(lambda: driver.run([hypers] * len(seeds), seeds), players, look)
            look()
        return outcome
    finally:
        players.close()


def _watched(work: Callable[[], Outcome], players: Players, look: Callable[[], None]) -> Outcome:
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
        players.stopping = True
        over.wait()
        raise
    if isinstance(players.failure, UserError):
        raise players.failure
    if players.failure is not None:
        what = f"{type(players.failure).__name__}: {players.failure}"
        raise UserError(f"the environment failed after {players.steps} steps of all lives: {what}") from players.failure
    if failure:
        raise failure[0]
    return outcome[0]


def _guests(agents: Any) -> dict[str, Recipe | Made]:
    """Every agent as a recipe, or as it was made by the user, by name."""
    listed: list[tuple[Any, Any]]
    if isinstance(agents, Mapping):
        listed = list(agents.items())
    elif isinstance(agents, list) or (
        isinstance(agents, tuple) and not isinstance(agents, Agent) and not _is_own(agents)
    ):
        listed = [(None, one) for one in agents]
    else:
        listed = [(None, agents)]
    found: dict[str, Recipe | Made] = {}
    for name, guest in listed:
        one = _guest(guest)
        name = str(name or (guest if isinstance(guest, str) else getattr(one, "name", "agent")))
        if name in found:
            raise UserError(f"two agents are called '{name}': give them names of their own, {{name: agent, …}}")
        found[name] = one
    if not found:
        raise UserError("nobody to live: give at least one agent, such as 'PT-DQN'")
    return found


def _guest(guest: Any) -> Recipe | Made:
    if isinstance(guest, str):
        return named(guest)
    if isinstance(guest, Agent):
        return Made(guest, NoHypers())
    if isinstance(guest, tuple) and _is_own(guest):
        return Made(*guest)
    if isinstance(guest, Recipe) and not isinstance(guest, type):
        return guest
    raise UserError(
        f"an agent is a name such as 'PT-DQN', a recipe such as PTDQN(), an Agent, or a pair (Agent, hypers); got {guest!r}"
    )


def _is_own(pair: tuple) -> bool:
    return len(pair) == 2 and isinstance(pair[0], Agent)


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int | np.integer) else [int(seed) for seed in seeds]
    if not numbers:
        raise UserError(f"at least one seed is needed; got {seeds}")
    if min(numbers) < 0 or max(numbers) >= 2**32 or len(set(numbers)) < len(numbers):
        raise UserError(f"seeds are different numbers from 0 to 2³² − 1; got {numbers}")
    return numbers


def _window(window: int | None, timetable: Timetable) -> int:
    span = timetable.span.count
    if not timetable.by_steps:
        if window is not None:
            raise UserError("windows are for lives that are counted in steps: here every episode is a point")
        return 1
    if window is None:
        wanted = max(1, timetable.ticks // POINTS)
        divisors = [n for n in range(1, max(1, timetable.ticks // FEWEST_POINTS) + 1) if span % n == 0]
        return min(divisors, key=lambda n: abs(math.log(n / wanted)))
    if window < 1 or span % window:
        raise UserError(f"a window must fit a whole number of times into {span} steps; got {window}")
    return int(window)


def _driver(name: str, made: Made, world: GymnasiumWorld, timetable: Timetable, lanes: int, in_order: bool) -> Driver:
    """The program for one agent; refuses what cannot work before anything begins.

    It uses as many devices as share the lanes equally: a row that nobody lives in would need an environment too. Only on one
    device do lanes begin `in_order`, each with its own part of a vector.
    """
    tasks = np.arange(len(timetable.names), dtype=np.int32)
    stream = Stream(tasks, timetable.order, timetable.span, timetable.told)
    # The engine's pages are only there to be turned: players keep their own record.
    page = timetable.span.count if timetable.by_steps else 1
    setting = Setting(made.agent, world, stream, lambda moment: {"lane": moment.world.lane}, window=page)
    devices = 1 if in_order else max(n for n in range(1, len(jax.devices()) + 1) if lanes % n == 0)
    try:
        check_hypers(made.hypers)
        driver = Driver(setting, _round_steps(setting), devices=devices)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    needed = COPIES * lanes * driver.bytes_per_lane(made.hypers)
    if needed > SHARE_OF_MEMORY * backend.memory():
        raise UserError(
            f"{name} would need about {needed / 2**30:.1f} GB for {lanes} lives, here are {backend.memory() / 2**30:.1f}: "
            "let it remember less (replay=…), or give fewer seeds"
        )
    return driver


def _round_steps(setting: Setting) -> int:
    """Steps between two looks at who rests: such that nobody rests for long."""
    if not setting.by_steps:
        return 2
    period = setting.period.count if isinstance(setting.period, Steps) else 0
    fitting = math.gcd(setting.stream.span.count, period)
    exact = max(n for n in range(1, LONGEST_ROUND + 1) if fitting % n == 0)
    return exact if exact >= 8 else min(16, setting.stream.span.count)


def _fields(recipe: Any) -> dict[str, Any]:
    return dataclasses.asdict(recipe)


def _describe(
    environments: list[str],
    guests: dict[str, Recipe | Made],
    made: dict[str, Made],
    stream: Any,
    timetable: Timetable,
    spaces: Spaces,
    window: int,
    discount: float,
    seeds: list[int],
) -> dict[str, Any]:
    """What was asked, as JSON: the form of every run's description."""
    import gymnasium

    forms = {
        name: {"kind": type(guest).__name__, **_fields(guest)} if is_ours(guest) else {"kind": "own"}
        for name, guest in guests.items()
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
            "tasks": list(timetable.names),
            "order": list(timetable.order),
            "span": {type(timetable.span).__name__.lower(): int(timetable.span.count)},
            "told": timetable.told,
            "ends_episode": timetable.cuts,
            "parameter": spoken if (spoken := getattr(timetable.change, "__name__", "")).isidentifier() else None,
        },
        "window": window,
        "contenders": {name: {"form": forms[name], "hypers": numbers_of(made[name].hypers)} for name in guests},
        "seeds": seeds,
        "versions": {
            "remanence": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "gymnasium": gymnasium.__version__,
            "python": platform.python_version(),
        },
    }
