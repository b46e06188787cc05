"""`remanence.live`: trains agents in the user's Gymnasium environments."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from remanence.core.errors import BY_CALLBACK, Stopped, UserError, unknown
from remanence.gym.factories import Adapter
from remanence.live_env.arguments import named_configs
from remanence.live_env.plan import AgentSpec, Environment, LivePlan, StreamSpec, check_agents, live_plan
from remanence.live_env.results import LiveResults, load_results
from remanence.live_env.stopped import warning_of_stop, with_groups
from remanence.metrics import impossible_values
from remanence.results.directory import GroupDirectory, RunDirectory, groups_under_way
from remanence.runs.execution import HERE, Execution
from remanence.runs.jobs import lanes_of_run
from remanence.runs.loggers import LogSpec, loggers_of
from remanence.runs.plan import Contender
from remanence.runs.progress import messages
from remanence.runs.rows import divergence, value_ratios
from remanence.runs.run import run_in_memory, run_missing
from remanence.runs.watching import Callback, Watch
from remanence.streams import Switches

MEANT = {
    "gamma": "discount",
    "n_seeds": "seeds",
    "num_seeds": "seeds",
    "n_jobs": "jobs",
    "workers": "jobs",
    "verbose": "progress",
}
STOPPED = "stopped; what was done is saved, and the same call resumes"


def live(
    agents: AgentSpec | Sequence[AgentSpec] | Mapping[str, AgentSpec],
    env: Environment | Sequence[Environment] | Mapping[str, Environment],
    stream: StreamSpec,
    *,
    seeds: int | Sequence[int] | None = None,
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
        out: a directory of runs. The run is kept there, in a directory of its own: the same call again runs only what is missing,
            also after Ctrl-C or a crash. Without it, results are only in memory.
        jobs: processes on this machine that share the work; needs `out`.
        on: "here", or "ray" for a Ray cluster; needs `out`.
        callback: called with every closed `Window` of every seed; returns True to stop the run. Results then have what lives under
            way have so far.
        log: "csv", "jsonl", "tensorboard", "wandb", "mlflow" or a `Logger`, or several of them.
        progress: whether to show progress on standard error.
        **execution: further options of `remanence run`: cores_per_group; with `out` also restart, checkpoint_every,
            lanes_per_group, learner, reuse, address.
    """
    boundaries_known = isinstance(stream, Switches) and stream.boundaries_known
    contenders = {name: Contender(config) for name, config in named_configs(agents, boundaries_known).items()}
    options = execution_of(out, jobs, on, execution)
    asked = live_plan(contenders, env, stream, seeds, window, discount, adapter, out is not None)
    if options.spread and asked.parts > 1:
        raise UserError(
            "a vector environment cannot be shared by processes: give a function that makes one environment"
        )
    watch = Watch(callback, loggers_of(log, out is not None))
    check_agents(asked.plan, None if out else len(asked.seeds))
    return run_live(asked, asked.seeds, out, options, watch, progress)


def execution_of(
    out: Any, jobs: int, on: str, others: Mapping[str, Any], function: Callable[..., Any] = live
) -> Execution:
    """The options of execution, checked, and the cores of this process set. `function`: whose options they are."""
    if out is not None and not isinstance(out, str | os.PathLike):
        raise UserError(f"out is the directory of the run, a text or a Path; got {out!r:.60}")
    for name in others:
        if name not in Execution.__dataclass_fields__:
            raise _unknown_option(function, name)
    if out is None and (jobs != 1 or on != HERE or others.keys() - {"cores_per_group"}):
        raise UserError("jobs, on and other options of execution need a directory for the run: give out=…")
    with_path = {**others, **({"reuse": Path(others["reuse"])} if others.get("reuse") else {})}
    try:
        execution = Execution(jobs=jobs, on=on, **with_path)
    except UserError as error:
        raise in_python(error) from None
    except TypeError:
        raise UserError(
            f"jobs and other options of execution are numbers and names; got jobs={jobs!r}, {others}"
        ) from None
    execution.prepare()
    return execution


def _unknown_option(function: Callable[..., Any], name: str) -> UserError:
    """The error for an option that `live` or `live_sweep` does not have, with the one that is meant."""
    options = [one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    if name in MEANT:
        return UserError(f"unknown option of {function.__name__} '{name}': did you mean '{MEANT[name]}'?")
    return unknown(f"option of {function.__name__}", name, [*options, *Execution.__dataclass_fields__])


def run_live(
    asked: LivePlan, seeds: Sequence[int], out: str | Path | None, execution: Execution, watch: Watch, progress: bool
) -> LiveResults:
    """Runs what is missing, and warns of what went wrong."""
    console = messages()
    console.quiet = not progress
    description, programs = asked.description(seeds), lanes_of_run(asked.plan, seeds)
    if out is None:
        groups: list[GroupDirectory] = [run_in_memory(asked.plan, programs, None, console, watch)]
        results = LiveResults(None, description, pl.DataFrame(), pl.DataFrame())
    else:
        directory = RunDirectory(Path(out), description)
        if asked.notice:
            console.print(asked.notice)
        try:
            run_missing(directory, asked.plan, programs, None, console, execution, watch)
        except Stopped as stopped:
            if stopped.signal != BY_CALLBACK:
                raise KeyboardInterrupt(STOPPED) from None
        except UserError as error:
            raise in_python(error) from error.__cause__
        results, groups = load_results(directory.path), groups_under_way(directory.path)
    configs = {name: one.config for name, one in asked.plan.contenders.items()}
    results = replace(with_groups(results, groups, asked.plan), configs=configs)
    if not results.finished:
        warnings.warn(warning_of_stop(results), stacklevel=3)
    warn_of(results)
    return results


def in_python(error: UserError) -> UserError:
    """An error that names options of the command line, with those of `live`."""
    text = re.sub(r"--([a-z-]+) (\d+)", lambda one: f"{one[1].replace('-', '_')}={one[2]}", str(error))
    text = re.sub(r"--([a-z][a-z-]*)", lambda one: one[1].replace("-", "_"), text)
    return UserError(text.replace("the same command", "the same call"))


def warn_of(results: LiveResults, stacklevel: int = 4) -> None:
    """Warns of environments that failed, of agents that diverged, and of values beyond what rewards allow."""
    for name in results.contenders:
        lanes = results.lanes.filter(pl.col("contender") == name)
        for text in lanes.filter(pl.col("failed") != "")["failed"]:
            warnings.warn(f"{name}: {text}. This life is left out of averages; the others go on", stacklevel=stacklevel)
        diverged = lanes.filter(pl.col("diverged") & (pl.col("failed") == ""))["seed"].to_list()
        if diverged:
            warnings.warn(divergence(name, diverged, len(lanes)), stacklevel=stacklevel)
        sound = lanes.filter(~pl.col("diverged"))["lane"].to_list()
        fields = results.description["contenders"][name].get("config", {})
        if warning := impossible_values(name, value_ratios(results.curves, sound), fields):
            warnings.warn(warning, stacklevel=stacklevel)
