"""`remanence.live_sweep`: settings of agents in the user's environment, chosen on tuning seeds, reported on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from remanence.core.errors import Stopped, UserError
from remanence.gym.factories import Adapter
from remanence.live_env.arguments import is_int, seed_list
from remanence.live_env.plan import Environment, LivePlan, StreamSpec, check_agents, live_plan
from remanence.live_env.results import LiveResults
from remanence.live_env.search import by_agent, searched_agents, spoken
from remanence.live_env.train import STOPPED, execution_of, in_python, run_live
from remanence.results.directory import RunDirectory
from remanence.results.store import CHOICE
from remanence.runs.execution import HERE, Execution
from remanence.runs.jobs import lanes_of_sweep, settings
from remanence.runs.loggers import LogSpec, loggers_of
from remanence.runs.plan import Contender
from remanence.runs.progress import messages
from remanence.runs.run import run_in_memory, run_missing
from remanence.runs.sweep import best_settings, searched_values, win_shares
from remanence.runs.watching import Callback, Watch
from remanence.streams import Switches

TUNING_FROM = 1000
OBJECTIVES = ("return", "reward_rate")


@dataclass(frozen=True)
class LiveSweep:
    """The outcome of a sweep."""

    settings: Mapping[str, dict[str, Any]]
    """the chosen values, by agent"""
    selection: Mapping[str, list[dict[str, Any]]]
    """by agent: every setting, and how often it wins when tuning seeds are resampled, the most frequent first"""
    table: pl.DataFrame
    """every setting and tuning seed: a row each, with areas under the curves"""
    results: LiveResults
    """the chosen settings on reporting seeds, which had no part in the choice"""

    def __repr__(self) -> str:
        lines = [f"<LiveSweep of {', '.join(self.settings)}: {len(self.table)} lives on tuning seeds>"]
        for name, chosen in self.settings.items():
            if chosen:
                share = next((one["wins"] for one in self.selection[name] if one["hypers"] == chosen), 0.0)
                lines.append(f"  {name}: {spoken(chosen)}; it wins {share:.0%} of the resampled tuning seeds")
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
    options = execution_of(out, jobs, on, execution, live_sweep)
    watch = Watch(callback, loggers_of(log, out is not None))
    searched = searched_agents(agents, isinstance(stream, Switches) and stream.boundaries_known)
    contenders = {name: one for agent in searched for name, one in agent.contenders().items()}
    asked = live_plan(contenders, env, stream, reporting, window, discount, adapter, out is not None)
    if asked.parts > 1:
        raise UserError("a sweep needs a function that makes one environment, not a vector environment")
    lives = max(len(settings(one)) for one in contenders.values()) * len(tuning)
    check_agents(asked.plan, None if out else max(lives, len(reporting)))
    sweep = None if out is None else RunDirectory(Path(out) / "sweep", _description(asked, tuning))
    table = by_agent(_tune(asked, tuning, sweep, options, progress), searched)
    best, shares = best_settings(table, metric), win_shares(table, metric, losers=True)
    chosen = {one.name: Contender(one.chosen(best[one.name])) for one in searched}
    if sweep is not None:
        sweep.set_choice(metric, dict(one.variant(best[one.name]) for one in searched))
    results = run_live(
        replace(asked, plan=replace(asked.plan, contenders=chosen)), reporting, out, options, watch, progress
    )
    return LiveSweep(
        {one.name: one.values(best[one.name]) for one in searched},
        {
            one.name: [{**share, "hypers": one.values(share["hypers"])} for share in shares[one.name]]
            for one in searched
        },
        table,
        replace(results, description={**results.description, CHOICE: {"metric": metric, "settings": {}}}),
    )


def _tuning(asked: int | Sequence[int] | None, reporting: Sequence[int]) -> list[int]:
    count = len(reporting) if asked is None else asked
    tuning = [TUNING_FROM + seed for seed in seed_list(count)] if is_int(count) else seed_list(count)  # type: ignore[arg-type]
    if shared := sorted({*tuning} & {*reporting}):
        raise UserError(f"tuning and reporting seeds overlap (seed {shared[0]}): choose disjoint ones")
    return tuning


def _description(asked: LivePlan, tuning: list[int]) -> dict[str, Any]:
    return {**asked.description(tuning), "sweep": searched_values(asked.plan)}


def _tune(
    asked: LivePlan, tuning: list[int], directory: RunDirectory | None, execution: Execution, progress: bool
) -> pl.DataFrame:
    """Every setting on the tuning seeds."""
    console = messages()
    console.quiet = not progress
    programs = lanes_of_sweep(asked.plan, tuning)
    console.print(f"sweep: {sum(map(len, programs)) // len(tuning)} settings × {len(tuning)} tuning seeds")
    if directory is None:
        return run_in_memory(asked.plan, programs, OBJECTIVES, console).tables()["lanes"]
    try:
        return run_missing(directory, asked.plan, programs, OBJECTIVES, console, execution).lanes
    except Stopped:
        raise KeyboardInterrupt(STOPPED) from None
    except UserError as error:
        raise in_python(error) from error.__cause__
