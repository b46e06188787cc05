"""Heat maps of the appendix: true values per task, and the predictions of TD and PT-TD over episodes (App. C.1.1)."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl

from remanence.agents.base import Agent
from remanence.core.lazy import alt
from remanence.engine.life import Probe
from remanence.engine.probes import value_maps
from remanence.experiments.base import PAPER, SMOKE, Experiment
from remanence.experiments.figure2 import EXPERIMENTS as PANELS
from remanence.experiments.figure2 import GRID, SQUARE, TRUTH_EPISODES, corner_grid_stream
from remanence.experiments.prediction import CURRENT, GOAL_REWARDS, OTHERS
from remanence.report.panels.heatmaps import evolution, lattice
from remanence.results.claims import Claim, claim, lower
from remanence.results.store import Results
from remanence.runs.plan import Plan, shrink
from remanence.worlds.true_values import Truth, continuous_grid_truth, corner_grid_truth

EVOLUTION_WINDOWS = (1, 50, 51, 75, 100, 101, 200, 201, 450, 500)


def _map_probe(agent: Agent) -> Probe:
    return value_maps(agent, np.arange(GRID.num_states, dtype=np.int32))


def _evolution_plan() -> Plan:
    tabular = PANELS[0].plan(PAPER)
    return dataclasses.replace(tabular.select(["TD", "PT-TD"]), maps=_map_probe, map_windows=EVOLUTION_WINDOWS)


def _values_plan() -> Plan:
    return Plan(
        world=GRID,
        stream=corner_grid_stream(),
        contenders={},
        probe=lambda _: lambda _: {},
        truth={"discrete": "linear solve", "continuous": "monte carlo", "episodes": TRUTH_EPISODES},
        seeds=1,
    )


def _discrete_lattice(values: np.ndarray) -> pl.DataFrame:
    """[tasks, states] as rows of column, row (upwards), task, value."""
    row, column = np.divmod(np.arange(GRID.num_states), GRID.size)
    return pl.concat(
        pl.DataFrame({"x": column, "y": GRID.size - 1 - row, "task": f"task {task + 1}", "value": of_task})
        for task, of_task in enumerate(values)
    )


def _continuous_lattice(truth: Truth) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame(
            {
                "x": truth.points[:, 0].astype(float),
                "y": truth.points[:, 1].astype(float),
                "task": f"task {task + 1}",
                "value": v,
            }
        )
        for task, v in enumerate(truth.values)
    )


def _true_value_figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    del results  # no simulation: the true values are the result
    discrete = corner_grid_truth(GRID, GOAL_REWARDS)
    continuous = continuous_grid_truth(SQUARE, GOAL_REWARDS, TRUTH_EPISODES)
    return {
        "discrete": lattice(_discrete_lattice(discrete.values), "True values, discrete grid (γ = 0.9)", numbers=True),
        "continuous": lattice(
            _continuous_lattice(continuous), "True values, continuous grid (γ = 0.99)", numbers=False
        ),
    }


def _evolution_figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    truth = corner_grid_truth(GRID, GOAL_REWARDS)
    return {"evolution": evolution(results, truth.values, GRID.size)}


def _evolution_claims(results: Results) -> list[Claim]:
    """The paper says that the heat maps confirm the curves (§5.1): the permanent part holds what all tasks have in common."""
    truth = corner_grid_truth(GRID, GOAL_REWARDS).values
    common = truth.mean(axis=0)
    last_window = results.maps["window"].max() if len(results.maps) else None
    distance = {}
    for name, part in {"TD": "value", "PT-TD": "permanent"}.items():
        if seeds := results.sound_seeds(name) if name in results.contenders else []:
            lanes = [results.lane(name, seed) for seed in seeds]
            rows = results.maps.filter(
                pl.col("lane").is_in(lanes) & (pl.col("part") == part) & (pl.col("window") == last_window)
            )
            values = rows.sort("lane", "point")["value"].to_numpy().reshape(len(lanes), -1)
            distance[name] = np.sqrt(((values - common) ** 2).mean(axis=1))
    return [
        claim(
            "permanent-keeps-common",
            "the permanent value function holds what all tasks have in common: at the end it is closer to the mean of the tasks' "
            "values than TD's estimate is",
            lower(
                results, "PT-TD", "TD", distance, "distance to the mean of the tasks' values, of PT-TD's permanent part"
            ),
        )
    ]


EXPERIMENTS = (
    Experiment(
        name="appendix/true-values",
        figure="App. C.1.1, heat maps of true values",
        title="True value functions of the prediction tasks",
        plans={PAPER: _values_plan, SMOKE: _values_plan},
        figures=_true_value_figures,
        claims=lambda _: [],
        expected="1 s, and 25 s once for the true values",
    ),
    Experiment(
        name="appendix/prediction-evolution",
        figure="App. C.1.1, evolution of predictions",
        title="How predictions evolve on the discrete grid",
        plans={
            PAPER: _evolution_plan,
            SMOKE: lambda: shrink(_evolution_plan(), segments=3, segment_length=10, seeds=3),
        },
        figures=_evolution_figures,
        claims=_evolution_claims,
        primary_metrics=(CURRENT, OTHERS),
        expected="10 s",
        remarks=("Maps are means over seeds.",),
    ),
)
