"""Converts the outcomes of lanes into rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.agents.base import Agent, BuiltAgent, per_lane_fields
from remanence.core.types import Hypers
from remanence.engine.lanes import Outcome
from remanence.metrics import metric
from remanence.results.schema import curve_rows
from remanence.runs.jobs import Lane
from remanence.runs.plan import Plan

# How many times larger than what is possible a value or its error must be, to count as divergence.
MARGIN = 100.0
MAX_SHOWN = 8  # seeds in a warning
AUC = "auc_"  # prefix of columns that hold areas under curves


def tables(
    finished: Sequence[tuple[Lane, Outcome]], plan: Plan, auc_metrics: Sequence[str] | None
) -> dict[str, pl.DataFrame]:
    """Tables of lanes, curves and maps, of lanes of one group.

    If `auc_metrics` is given, only the areas under these curves, as columns of `lanes`.
    """
    lanes, outcomes = [lane for lane, _ in finished], [outcome for _, outcome in finished]
    records = [outcome.record for outcome in outcomes]
    numbers = np.array([lane.number for lane in lanes], np.int32)
    measured: dict[str, Any] = {}
    if auc_metrics is not None:
        for metric in auc_metrics:
            measured[AUC + metric] = [float(record["curves"][metric].mean(dtype=np.float64)) for record in records]
        finite = np.all([np.isfinite(column) for column in measured.values()], axis=0)
    else:
        finite = np.array([all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(record)) for record in records])
    shown, limit = set(auc_metrics or records[0]["curves"]), value_limit(plan)
    finite &= [all(possible(record["curves"][name], name, limit).all() for name in shown) for record in records]
    if any(outcome.notes is not None for outcome in outcomes):
        measured["failed"] = [failure_of(lane, outcome) for lane, outcome in finished]
        agent = lanes[0].config.build(plan.spec)  # lanes of a group differ in step sizes only
        finite &= [_sound(outcome, plan, agent) for outcome in outcomes]
    rows = {"lanes": _lane_rows(lanes, _columns(lanes, plan), outcomes, numbers, measured, finite)}
    if auc_metrics is not None:
        return rows
    curves, maps = (
        {part: np.stack([record[kind][part] for record in records]) for part in records[0][kind]}
        for kind in ("curves", "maps")
    )
    if plan.curves:
        curves = {name: curves[name].astype(np.float64) for name in plan.curves if name in curves}
    windows = len(jax.tree.leaves(records[0])[0])  # fewer than a life has, if it was stopped
    shared = {name: np.asarray(one, np.float64)[:windows] for name, one in plan.same_for_all.items()}
    curves |= {name: np.tile(one, (len(lanes), 1)) for name, one in shared.items()}
    if curves:
        rows["curves"] = pl.concat(curve_rows(numbers, values, metric) for metric, values in curves.items())
    if maps:
        rows["maps"] = pl.concat(_map_rows(numbers, plan.map_windows, values, part) for part, values in maps.items())
    return rows


def failure_of(lane: Lane, outcome: Outcome) -> str:
    """Why the environment of a lane failed; empty if it did not."""
    failure = outcome.notes.failure if outcome.notes is not None else None
    return f"{failure.env} failed with seed {lane.seed} at step {failure.step}: {failure.what}" if failure else ""


def _sound(outcome: Outcome, plan: Plan, agent: Agent) -> bool:
    """Whether weights are finite, and values within what rewards allow, with room for those of a network that has learned
    nothing."""
    weights = [leaf for leaf in jax.tree.leaves(outcome.policy) if leaf.dtype.kind == "f"]
    if outcome.notes.failure or not all(np.isfinite(leaf).all() for leaf in weights):
        return False
    curves = outcome.record["curves"]
    reward = float(agent.learned_reward(np.float32(outcome.notes.largest_reward)))  # type: ignore[arg-type]
    absurd = MARGIN * largest_value(reward, plan.world.discount, int(outcome.steps))
    return bool((curves["largest_value"] <= absurd + MARGIN * curves["largest_input"]).all())


def value_limit(plan: Plan) -> float:
    """The limit of value errors in a plan, with a margin; infinite if the largest reward is not known."""
    world, rewards = plan.world, [np.abs(leaf).max() for leaf in jax.tree.leaves(plan.stream.tasks)]
    return MARGIN * largest_value(max(rewards), world.discount) if world.rewards_of_task and rewards else np.inf


def largest_value(reward: float, discount: float, steps: float = np.inf) -> float:
    """The largest value that rewards and γ allow: r / (1 − γ), or r in each of `steps` steps if that is less."""
    return float(reward) * min(steps, 1.0 / (1.0 - discount) if discount < 1.0 else np.inf) if reward else 0.0


def divergence(name: str, seeds: Sequence[int], count: int) -> str:
    """The warning that an agent diverged with these seeds, of so many."""
    shown = ", ".join(map(str, seeds[:MAX_SHOWN])) + (", …" if len(seeds) > MAX_SHOWN else "")
    return f"{name} diverged in {len(seeds)} of {count} seeds ({shown}): left out of averages; try smaller step sizes"


def value_ratios(curves: pl.DataFrame, lanes: Sequence[int]) -> list[float]:
    """The largest `value_ratio` of each lane in the second half of its life, when the largest reward is mostly known."""
    ratios = curves.filter(pl.col("lane").is_in(lanes) & (pl.col("metric") == "value_ratio"))
    late = ratios.filter(pl.col("window") > pl.col("window").max() / 2)
    return late.group_by("lane").agg(pl.col("value").max())["value"].to_list()


def possible(values: np.ndarray, name: str, limit: float) -> np.ndarray:
    """Whether each value of a metric is within what value errors may be; an agent beyond it has diverged."""
    power = {"value": 1, "value²": 2}.get(metric(name).unit)
    return np.isfinite(values) if power is None else np.abs(values) <= limit**power


def _columns(lanes: Sequence[Lane], plan: Plan) -> list[str]:
    """Fields of configurations that have a column: those in which lanes may differ, and those that are searched."""
    fields = [list(_numbers(lane)) for lane in lanes]
    searched = [tuple(plan.contenders[lane.contender].search) for lane in lanes]
    return list(dict.fromkeys(name for names in (*fields, *searched) for name in names))


def _numbers(lane: Lane) -> dict[str, Any]:
    """The fields in which lanes of one program may differ; of an agent that was built by hand, its hyperparameters."""
    if isinstance(lane.config, BuiltAgent):
        return vars(lane.hypers) if isinstance(lane.hypers, Hypers) else {}
    values = {name: getattr(lane.config, name) for name in per_lane_fields(type(lane.config))}
    return {name: value for name, value in values.items() if value is not None}


def _value(lane: Lane, name: str) -> float:
    numbers = _numbers(lane)
    return float(numbers[name] if name in numbers else getattr(lane.config, name))


def _lane_rows(
    lanes: Sequence[Lane],
    columns: Sequence[str],
    outcomes: Sequence[Outcome],
    numbers: np.ndarray,
    measured: dict[str, Any],
    finite: np.ndarray,
) -> pl.DataFrame:
    seeds = [lane.seed for lane in lanes]
    return pl.DataFrame(
        {
            "lane": numbers,
            "contender": [lane.contender for lane in lanes],
            "seed": np.array(seeds, np.int64 if max(seeds) >= 2**31 else np.int32),
            **{name: [_value(lane, name) for lane in lanes] for name in columns},
            **measured,
            "steps": np.array([outcome.steps for outcome in outcomes]),
            "samples_dropped": np.array([outcome.samples_dropped for outcome in outcomes]),
            "diverged": ~finite,
            "version": __version__,
        }
    )


def _map_rows(lanes: np.ndarray, windows: Sequence[int], values: np.ndarray, part: str) -> pl.DataFrame:
    """One row per value of [lanes, windows, points, outputs], at the chosen windows."""
    chosen = values[:, np.array(windows) - 1]
    axes = np.meshgrid(
        lanes, np.array(windows, np.int32), *(np.arange(n, dtype=np.int32) for n in chosen.shape[2:]), indexing="ij"
    )
    lane, window, point, output = (axis.ravel() for axis in axes)
    return pl.DataFrame(
        {"lane": lane, "window": window, "part": part, "point": point, "output": output, "value": chosen.ravel()}
    )
