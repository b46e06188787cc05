"""`remanence.live_sweep`: settings of agents in the user's environment, chosen on tuning seeds, reported on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from remanence.core.errors import Stopped, UserError
from remanence.gym.factories import Adapter
from remanence.live_env.arguments import is_int, named_configs, seed_list
from remanence.live_env.plan import AgentSpec, Environment, LivePlan, StreamSpec, check_agents, live_plan
from remanence.live_env.results import LiveResults
from remanence.live_env.train import STOPPED, execution_of, in_python, run_live
from remanence.results.directory import RunDirectory
from remanence.runs.execution import HERE, Execution
from remanence.runs.jobs import lanes_of_sweep, settings
from remanence.runs.loggers import LogSpec, loggers_of
from remanence.runs.plan import Contender, Plan
from remanence.runs.progress import messages
from remanence.runs.run import run_in_memory, run_missing
from remanence.runs.sweep import best_settings, searched, win_shares, with_settings
from remanence.runs.watching import Callback, Watch
from remanence.streams import Switches

TUNING_FROM = 1000
OBJECTIVES = ("return", "reward_rate")


class Search:
    """An agent, and values to search: `Search("DQN", lr=[1e-3, 1e-4], target_every=[100, 1000])` has four settings."""

    def __init__(self, agent: AgentSpec, **values: Sequence[float]) -> None:
        self.agent, self.values = agent, values
        for name, some in values.items():
            if isinstance(some, str | bytes) or not isinstance(some, Sequence) or not some:
                raise UserError(f"give a list of values to search for {name}: {name}=[…]; got {some!r:.60}")

    def __repr__(self) -> str:
        return f"Search({self.agent!r}, {', '.join(f'{name}={some}' for name, some in self.values.items())})"


@dataclass(frozen=True)
class LiveSweep:
    """The outcome of a sweep."""

    settings: Mapping[str, dict[str, float]]
    """the chosen values, by agent"""
    selection: Mapping[str, list[dict[str, Any]]]
    """by agent: the settings that win when tuning seeds are resampled, and how often, the most frequent first"""
    table: pl.DataFrame
    """every setting and tuning seed: a row each, with areas under the curves"""
    results: LiveResults
    """the chosen settings on reporting seeds, which had no part in the choice"""

    def __repr__(self) -> str:
        lines = [f"<LiveSweep of {', '.join(self.settings)}: {len(self.table)} lives on tuning seeds>"]
        for name, chosen in self.settings.items():
            if chosen:
                values = ", ".join(f"{field}={value:g}" for field, value in chosen.items())
                share = next((one["wins"] for one in self.selection[name] if one["hypers"] == chosen), 0.0)
                lines.append(f"  {name}: {values}; it wins {share:.0%} of the resampled tuning seeds")
        return "\n".join(lines)


def live_sweep(
    agents: Any,
    env: Environment | Sequence[Environment] | Mapping[str, Environment],
    stream: StreamSpec,
    *,
    metric: str = "return",
    seeds: int | Sequence[int] = 10,
    tuning_seeds: int | Sequence[int] | None = None,
    window: int | None = None,
    discount: float = 0.99,
    adapter: Adapter | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    on: str = HERE,
    callback: Callback | None = None,
    log: LogSpec = (),
    progress: bool = True,
    **execution: Any,
) -> LiveSweep:
    """Runs every setting on tuning seeds, chooses the best one of each agent, and runs it on reporting seeds, as
    `remanence sweep` does.

    Args:
        agents: one or several, as for `live`; `Search(agent, field=[values], …)` says what is searched.
        env: as for `live`.
        stream: as for `live`.
        metric: the objective: the mean of "return" or "reward_rate" over the whole life.
        seeds: reporting seeds: their number, or a list.
        tuning_seeds: default: as many as reporting seeds, from 1000 on. They must differ from the reporting seeds.
        window: as for `live`.
        discount: as for `live`.
        adapter: as for `live`.
        out: as for `live`: what was done before, also by another sweep or run, is not done again.
        jobs: as for `live`.
        on: as for `live`.
        callback: for the runs with reporting seeds.
        log: for the runs with reporting seeds.
        progress: whether to show progress on standard error.
        **execution: as for `live`.
    """
    if metric not in OBJECTIVES:
        raise UserError(f"the objective of a sweep is {' or '.join(OBJECTIVES)}; got {metric!r:.40}")
    reporting = seed_list(seeds)
    tuning = _tuning(tuning_seeds, reporting)
    options = execution_of(out, jobs, on, execution)
    watch = Watch(callback, loggers_of(log, out is not None))
    contenders, grids = _contenders(agents, isinstance(stream, Switches) and stream.boundaries_known)
    asked = live_plan(contenders, env, stream, reporting, window, discount, adapter, out is not None)
    if asked.parts > 1:
        raise UserError("a sweep needs a function that makes one environment, not a vector environment")
    plan = asked.plan
    for name, values in grids.items():
        for field, some in values.items():
            plan = plan.with_grid(name, field, tuple(some))
    lives = max(len(settings(one)) for one in plan.contenders.values()) * len(tuning)
    check_agents(plan, None if out else max(lives, len(reporting)))
    table = _tune(replace(asked, plan=plan), tuning, out, options, progress)
    chosen = _only_searched(best_settings(table, metric), plan)
    shares = win_shares(table, metric)
    selection = {
        name: [{**one, "hypers": _fields(one["hypers"], plan, name)} for one in shares[name]] for name in shares
    }
    best = replace(asked, plan=with_settings(asked.plan, chosen))
    return LiveSweep(chosen, selection, table, run_live(best, reporting, out, options, watch, progress))


def _contenders(agents: Any, boundaries_known: bool) -> tuple[dict[str, Contender], dict[str, Mapping[str, Any]]]:
    """Agents by name, and what is searched of each."""
    if isinstance(agents, Mapping):
        pairs = list(agents.items())
    else:
        pairs = [(None, one) for one in (agents if isinstance(agents, list) else [agents])]
    contenders, grids = {}, {}
    for label, one in pairs:
        agent = one.agent if isinstance(one, Search) else one
        for name, config in named_configs({label: agent} if label is not None else agent, boundaries_known).items():
            if name in contenders:
                raise UserError(f"two agents are called '{name}': give them different names, {{name: agent, …}}")
            contenders[name], grids[name] = Contender(config), one.values if isinstance(one, Search) else {}
    if not any(grids.values()):
        raise UserError("nothing to search: give Search('DQN', lr=[1e-3, 1e-4]) instead of 'DQN'")
    return contenders, grids


def _tuning(asked: int | Sequence[int] | None, reporting: Sequence[int]) -> list[int]:
    count = len(reporting) if asked is None else asked
    tuning = [TUNING_FROM + seed for seed in seed_list(count)] if is_int(count) else seed_list(count)  # type: ignore[arg-type]
    if shared := sorted({*tuning} & {*reporting}):
        raise UserError(f"tuning and reporting seeds overlap (seed {shared[0]}): choose disjoint ones")
    return tuning


def _tune(asked: LivePlan, tuning: list[int], out: Any, execution: Execution, progress: bool) -> pl.DataFrame:
    """Every setting on the tuning seeds."""
    console = messages()
    console.quiet = not progress
    programs = lanes_of_sweep(asked.plan, tuning)
    console.print(f"sweep: {sum(map(len, programs)) // len(tuning)} settings × {len(tuning)} tuning seeds")
    if out is None:
        return run_in_memory(asked.plan, programs, OBJECTIVES, console).tables()["lanes"]
    description = {**asked.description(tuning), "sweep": searched(asked.plan)}
    directory = RunDirectory(Path(out) / "sweep", description)
    try:
        return run_missing(directory, asked.plan, programs, OBJECTIVES, console, execution).lanes
    except Stopped:
        raise KeyboardInterrupt(STOPPED) from None
    except UserError as error:
        raise in_python(error) from error.__cause__


def _only_searched(chosen: Mapping[str, dict[str, float]], plan: Plan) -> dict[str, dict[str, float]]:
    return {name: _fields(values, plan, name) for name, values in chosen.items()}


def _fields(values: Mapping[str, float], plan: Plan, name: str) -> dict[str, float]:
    return {field: values[field] for field in plan.contenders[name].search}
