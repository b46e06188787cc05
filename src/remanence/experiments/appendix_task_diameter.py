"""Exact errors on a new task after n other tasks, against the distance ε between tasks (paper, App. C.2).

Agents first learn n randomly drawn tasks from samples. Their estimates are the start of the exact learning curve of the next
task: its mean squared error is computed, not simulated, as an expectation over that task and its samples.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from remanence import __version__
from remanence.agents.base import AgentConfig, hypers_of
from remanence.agents.configs import PTTD, TD
from remanence.core.errors import UserError
from remanence.core.lazy import alt
from remanence.core.types import Episodes
from remanence.engine.lanes import Driver, Progress
from remanence.engine.probes import value_maps
from remanence.experiments.base import PAPER, SMOKE, Experiment
from remanence.report.panels.diameter import diameter_panels
from remanence.results.claims import NOT_RUN, Claim, Finding, claim, everywhere, is_below, is_same
from remanence.results.directory import RunDirectory
from remanence.results.schema import curve_rows
from remanence.results.store import Results, load
from remanence.results.summary import auc
from remanence.runs.describe import describe, describe_agent
from remanence.runs.execution import Execution
from remanence.runs.jobs import check_seeds, make_driver, settings
from remanence.runs.plan import Contender, Plan
from remanence.runs.progress import track
from remanence.runs.rows import AUC, possible, value_limit
from remanence.runs.sweep import best_settings
from remanence.streams import RandomOrder, Stream
from remanence.theory import Response, response
from remanence.theory.task_diameter import DISCOUNT, REWARD_NOISE, TRANSITIONS, task_diameter_process
from remanence.worlds import Chain

MSE = "mse"
DIAMETERS = (0.5, 1.0, 2.0, 3.0, 4.0)
SWITCHES = (1, 2, 5, 10, 20)
STATES = len(TRANSITIONS)
# The appendix gives the step size and the number of rounds of the exact part, but neither the samples per round nor the
# length of the tasks before.
EXACT_STEP_SIZE, ROUNDS, SAMPLES = 0.01, 100, 10
STEPS_PER_TASK = 500
TUNING_SEEDS = range(1000, 1030)
STEP_SIZES = (0.8, 0.5, 0.3, 0.1, 0.05, 0.01)
PERMANENT_STEP_SIZES = (0.5, 0.3, 0.1, 0.05, 0.01, 0.005)
SAME = 0.05  # "the same performance": within this share of TD's error


@dataclasses.dataclass(frozen=True)
class Cell:
    """One point of the figure."""

    agent: str
    diameter: float
    switches: int

    @property
    def name(self) -> str:
        return f"{self.agent} ε={self.diameter:g} n={self.switches}"


def cells(agents: Sequence[str]) -> list[Cell]:
    return [Cell(*place) for place in itertools.product(agents, DIAMETERS, SWITCHES)]


def _plan(diameter: float = 1.0, steps: int = STEPS_PER_TASK, seeds: int = 100) -> Plan:
    """What agents live through before the task that is looked at. One more task than needed: V^P is read when it has begun."""
    return Plan(
        world=Chain(tuple(map(tuple, TRANSITIONS.tolist())), steps, REWARD_NOISE, DISCOUNT),
        stream=Stream(_rewards(diameter), RandomOrder(max(SWITCHES) + 1), Episodes(1), boundaries_known=True),
        contenders={
            "TD": Contender(TD(lr=0.1), {"lr": STEP_SIZES}),
            "TD-reset": Contender(TD(reset=True)),
            "PT-TD": Contender(
                PTTD(permanent_lr=0.1, transient_lr=0.1),
                {"permanent_lr": PERMANENT_STEP_SIZES, "transient_lr": STEP_SIZES},
            ),
        },
        probe=lambda agent: value_maps(agent, np.arange(STATES, dtype=np.int32)),
        truth={"method": "linear solve"},
        seeds=seeds,
        round_steps=steps,
    )


def _rewards(diameter: float) -> np.ndarray:
    return task_diameter_process(diameter).rewards.astype(np.float32)


def _run_all_cells(
    plan: Plan,
    preset: str,
    seeds: int,
    out: Path,
    console: Console,
    execution: Execution,
) -> Results:
    """Chooses step sizes for each cell on tuning seeds, then runs the chosen ones on reporting seeds."""
    check_seeds(range(seeds))
    if plan.stream.segments <= max(SWITCHES):
        raise UserError(
            f"appendix/task-diameter looks at tasks after up to {max(SWITCHES)} switches: leave out --segments"
        )
    if execution.spread:
        raise UserError(
            "appendix/task-diameter takes a minute or two and runs in this process: leave out --on and --jobs"
        )
    every_cell = cells(list(plan.contenders))
    fixed = {"rounds": ROUNDS, "samples": SAMPLES, "step_size": EXACT_STEP_SIZE}
    tuning = TUNING_SEEDS[: min(len(TUNING_SEEDS), seeds)]
    searched = [cell for cell in every_cell if plan.contenders[cell.agent].search]
    swept = _lived(
        RunDirectory(
            out / "sweep",
            {
                **_describe(
                    plan, preset, list(tuning), {cell: plan.contenders[cell.agent].config for cell in searched}, fixed
                ),
                "sweep": {cell.name: dict(plan.contenders[cell.agent].search) for cell in searched},
            },
        ),
        plan,
        {cell: settings(plan.contenders[cell.agent]) for cell in searched},
        tuning,
        console,
        execution.restart,
        areas_only=True,
    )
    best = best_settings(swept.lanes, MSE) if len(swept.lanes) else {}
    chosen = {
        cell: dataclasses.replace(plan.contenders[cell.agent].config, **best.get(cell.name, {}))  # type: ignore[type-var]
        for cell in every_cell
    }
    directory = RunDirectory(
        out,
        _describe(plan, preset, list(range(seeds)), chosen, fixed),
    )
    wanted = {cell: [config] for cell, config in chosen.items()}
    return _lived(directory, plan, wanted, range(seeds), console, execution.restart, areas_only=False)


def _describe(
    plan: Plan, preset: str, seeds: list[int], configs: dict[Cell, AgentConfig], fixed: dict[str, float]
) -> dict[str, Any]:
    description = describe("appendix/task-diameter", preset, plan, seeds)
    lived = {key: value for key, value in description["stream"].items() if key != "tasks"}
    return {
        **description,
        "before": lived,
        # The recorded curve is that of one task, in rounds.
        "stream": {"order": [None], "segment_length": {"rounds": ROUNDS}},
        "contenders": {
            cell.name: {**describe_agent(config), "diameter": cell.diameter, "switches": cell.switches}
            for cell, config in configs.items()
        },
        "exact": fixed,
    }


def _lived(
    directory: RunDirectory,
    plan: Plan,
    wanted: dict[Cell, list[AgentConfig]],
    seeds: Sequence[int],
    console: Console,
    restart: bool,
    areas_only: bool,
) -> Results:
    """Runs the missing cells: for each distance and agent, all lanes of its cells together."""
    with directory.opened(restart):
        done = set(load(directory.path).contenders)
        lane = itertools.count(sum(len(wanted[cell]) for cell in wanted if cell.name in done) * len(seeds))
        groups = itertools.groupby(wanted, key=lambda cell: (cell.agent, cell.diameter))
        for (agent, diameter), members in groups:
            missing = [cell for cell in members if cell.name not in done]
            if not missing:
                continue
            configs = list(dict.fromkeys(one for cell in missing for one in wanted[cell]))
            starts = _starts(plan, agent, diameter, configs, seeds, console)
            tables: dict[str, list[pl.DataFrame]] = {"lanes": [], "curves": []}
            for cell in missing:
                for config in wanted[cell]:
                    curves = _exact_curves(diameter, starts[config][:, cell.switches - 1])
                    numbers = np.array([next(lane) for _ in seeds], np.int32)
                    tables["lanes"].append(_lane_rows(cell, config, numbers, seeds, curves, value_limit(plan)))
                    if not areas_only:
                        tables["curves"].append(curve_rows(numbers, curves, MSE))
            directory.add({name: pl.concat(rows, how="diagonal_relaxed") for name, rows in tables.items() if rows})
            directory.log("cells done", agent=agent, diameter=diameter, cells=len(missing))
        directory.seal()
    return load(directory.path)


def _starts(
    plan: Plan, agent: str, diameter: float, configs: list[AgentConfig], seeds: Sequence[int], console: Console
) -> dict[AgentConfig, np.ndarray]:
    """configuration -> [seeds, most switches, states]: the estimate with which the next task begins, after 1, 2, … tasks."""
    if agent == "TD-reset":  # forgets everything: always zero
        return {config: np.zeros((len(seeds), max(SWITCHES), STATES)) for config in configs}
    lanes = [(hypers_of(config), seed) for config in configs for seed in seeds]
    driver = _driver(plan, agent, diameter)
    lived: dict[int, Any] = {}
    started = time.monotonic()
    with track(console, f"{agent}, ε = {diameter:g}", len(lanes) * driver.config.windows) as advance:

        def on_progress(progress: Progress) -> None:
            advance(progress.windows, progress.steps / (time.monotonic() - started))

        columns = [config for config, _ in lanes], [seed for _, seed in lanes]
        for some in driver.iter_finished(*columns, on_progress, plan.lanes_at_once):
            lived |= {number: outcome.record["curves"] for number, outcome in some.items()}
    # TD starts the next task with its last estimate; PT-TD with V^P, consolidated at the switch and frozen since.
    if agent == "TD":
        ends = np.stack([lived[i]["value"][:-1, :, 0] for i in range(len(lanes))])
    else:
        ends = np.stack([lived[i]["permanent"][1:, :, 0] for i in range(len(lanes))])
    by_config = ends.reshape(len(configs), len(seeds), *ends.shape[1:]).astype(np.float64)
    return dict(zip(configs, by_config, strict=True))


def _driver(plan: Plan, agent: str, diameter: float) -> Driver:
    stream = dataclasses.replace(plan.stream, tasks=_rewards(diameter))
    return make_driver(dataclasses.replace(plan, stream=stream), plan.contenders[agent].config)


def _exact_curves(diameter: float, starts: np.ndarray) -> np.ndarray:
    """[seeds, rounds] the expected error on the next task, for initial estimates [seeds, states]."""
    process = task_diameter_process(diameter)
    errors = starts[None] - process.values[:, None]
    return process.expect(_response(diameter).mse(errors))[:, 1:]


@cache
def _response(diameter: float) -> Response:
    return response(task_diameter_process(diameter), EXACT_STEP_SIZE, ROUNDS, SAMPLES)


def _lane_rows(
    cell: Cell, config: AgentConfig, lanes: np.ndarray, seeds: Sequence[int], curves: np.ndarray, limit: float
) -> pl.DataFrame:
    aucs = curves.mean(axis=1)
    return pl.DataFrame(
        {
            "lane": lanes,
            "contender": cell.name,
            "seed": np.array(seeds, np.int32),
            **{name: float(value) for name, value in vars(hypers_of(config)).items()},
            AUC + MSE: aucs,
            "steps": 0,
            "samples_dropped": 0,
            "diverged": ~possible(curves, MSE, limit).all(axis=1),
            "version": __version__,
        }
    )


def _figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    return {"diameter": diameter_panels(results, _places(results), MSE)}


def _places(results: Results) -> dict[str, tuple[str, float, int]]:
    """Contender -> agent, distance, switches."""
    return {
        cell.name: dataclasses.astuple(cell)
        for cell in cells(("PT-TD", "TD", "TD-reset"))
        if cell.name in results.contenders
    }  # type: ignore[return-value]


def _claims(results: Results) -> list[Claim]:
    """The observations of App. C.2."""
    aucs = {place: auc(results, name, MSE) for name, place in _places(results).items()}
    texts = {
        "same-after-one-task": "TD and PT-TD have the same error after data from one task",
        "gap-grows-with-switches": "the gap between TD and PT-TD grows with the number of task switches",
        "gap-grows-with-distance": "the gap between TD and PT-TD grows with the distance between tasks",
        "pt-is-lowest": "after many switches PT-TD has the lowest error, whatever the distance between tasks",
        "lowest-at-every-step": "after many switches PT-TD has low error at every timestep (§4.3): the lowest in every round, "
        "whatever the distance between tasks",
        "reset-is-worst": "starting from scratch at every task has the largest error",
    }
    if len(aucs) < len(cells(("PT-TD", "TD", "TD-reset"))) or len({len(sample) for sample in aucs.values()}) > 1:
        missing = Finding(NOT_RUN, "needs every cell, without diverged seeds")
        return [claim(name, text, missing) for name, text in texts.items()]
    few, many, near, far = min(SWITCHES), max(SWITCHES), min(DIAMETERS), max(DIAMETERS)
    gap = {(e, n): aucs["TD", e, n] - aucs["PT-TD", e, n] for e in DIAMETERS for n in SWITCHES}
    findings = {
        "same-after-one-task": [
            is_same(
                aucs["TD", e, few],
                aucs["PT-TD", e, few],
                SAME * float(aucs["TD", e, few].mean()),
                f"ε = {e:g}: TD − PT-TD",
            )
            for e in DIAMETERS
        ],
        "gap-grows-with-switches": [
            is_below(gap[e, few], gap[e, many], f"ε = {e:g}: gap after {few} − gap after {many}") for e in DIAMETERS
        ],
        "gap-grows-with-distance": [
            is_below(gap[near, many], gap[far, many], f"after {many} tasks: gap at ε = {near:g} − gap at ε = {far:g}")
        ],
        "pt-is-lowest": [
            is_below(aucs["PT-TD", e, many], aucs[other, e, many], f"ε = {e:g}, n = {many}: PT-TD − {other}")
            for e in DIAMETERS
            for other in ("TD", "TD-reset")
        ],
        "lowest-at-every-step": [
            is_below(ours, theirs, f"ε = {e:g}, n = {many}, round {number + 1}: PT-TD − {other}")
            for e in DIAMETERS
            for other in ("TD", "TD-reset")
            for number, (ours, theirs) in enumerate(
                zip(*(results.matrix(Cell(name, e, many).name, MSE).T for name in ("PT-TD", other)), strict=True)
            )
        ],
        "reset-is-worst": [
            is_below(aucs[other, e, n], aucs["TD-reset", e, n], f"ε = {e:g}, n = {n}: {other} − TD-reset")
            for e in DIAMETERS
            for n in SWITCHES
            for other in ("TD", "PT-TD")
        ],
    }
    return [claim(name, texts[name], everywhere(found)) for name, found in findings.items()]


EXPERIMENTS = (
    Experiment(
        name="appendix/task-diameter",
        figure="App. C.2, analytic MSVE against the task diameter",
        title="Exact error on a new task, by the distance between tasks",
        plans={PAPER: _plan, SMOKE: lambda: _plan(steps=50, seeds=5)},
        figures=_figures,
        claims=_claims,
        expected="1 min",
        primary_metrics=(MSE,),
        run_fn=_run_all_cells,
        remarks=(
            "Values of the seven tasks form a regular simplex of edge ε around a center drawn from N(0, I): the appendix does not "
            "give the center, and starting from zero is worse the farther away it is.",
            f"Each task before lasts {STEPS_PER_TASK} steps; the exact part has {ROUNDS} rounds of {SAMPLES} samples with "
            f"step size {EXACT_STEP_SIZE:g}. Rows of the printed P that sum to 1.01 or 0.99 are divided by their sum.",
            "Step sizes were chosen for every cell on tuning seeds.",
        ),
    ),
)
