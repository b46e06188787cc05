"""Is the transient lifetime the one parameter behind k and λ? The same lifetimes with several k, in three worlds. Not in the paper.

Every cell has an interval k of `INTERVALS` and a lifetime τ of `LIFETIMES`, so λ = e^(−k/τ): if only τ matters, cells of equal τ
perform alike. Task boundaries are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from remanence.agents.base import Agent
from remanence.agents.configs import PTQ, PTTD, TD
from remanence.core.lazy import alt
from remanence.core.types import Episodes
from remanence.engine.life import Probe
from remanence.engine.probes import value_error
from remanence.experiments.base import NOT_IN_PAPER, SMOKE, Experiment
from remanence.experiments.figure2 import GRID as CORNER_GRID
from remanence.experiments.figure3 import DISCOUNTED_RETURN, EPSILON, GRID, MAX_STEPS, plain_q, returns, swapping_stream
from remanence.experiments.lifetimes import described, plane
from remanence.experiments.prediction import CURRENT, GOAL_REWARDS
from remanence.metrics import lower_is_better
from remanence.report.panels.lifetime import lifetime_panel
from remanence.results.collapse import between, collapse
from remanence.results.observations import Observation
from remanence.results.statistics import paired_difference
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Contender, Plan, shrink
from remanence.streams import Stream, cyclic
from remanence.theory.shares import mean_lifetime, share_left
from remanence.theory.task_diameter import DISCOUNT, REWARD_NOISE, TRANSITIONS, task_diameter_process
from remanence.worlds import Chain
from remanence.worlds.true_values import Truth, corner_grid_truth

FULL = "full"
TASK = 50  # episodes
INTERVALS = (1, 4, 8, 16, 32)  # from 4 on no divisor of a task: consolidations fall on all of its episodes
LIFETIMES = tuple(TASK / 3 * 10 ** (power / 2) for power in range(-2, 4))  # a tenth to thirty times a third of a task
WRONG = 10  # by how much a lifetime is wrong in the advice
DIAMETER, STEPS_PER_EPISODE = 2.0, 10
CHAIN = task_diameter_process(DIAMETER)

# Closer together at the top, where a short lifetime has its narrow best: a + λ near 1, and the agent nearly the plain learner.
PERMANENT_STEP_SIZES = (0.9, 0.5, 0.3, 0.2, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 3e-05, 1e-05)

Pairs = Mapping[int, tuple[tuple[float, float], ...]]
# (permanent, transient) step sizes per k, one pair per lifetime: the best of these grids on the tuning seeds, by
# `remanence sweep study/lifetime/… --tuning-seeds 10`.
SLIPPERY: Pairs = {
    1: ((1e-05, 0.5), (0.0001, 0.5), (0.01, 0.5), (0.01, 0.5), (0.001, 0.5), (0.0003, 0.5)),
    4: ((0.0001, 0.5), (3e-05, 0.5), (0.03, 0.5), (0.003, 0.5), (3e-05, 0.5), (0.001, 0.5)),
    8: ((1e-05, 0.5), (1e-05, 0.5), (0.01, 0.5), (0.001, 0.5), (0.003, 0.5), (0.001, 0.5)),
    16: ((0.5, 0.5), (0.0001, 0.5), (0.003, 0.5), (0.003, 0.5), (0.0003, 0.5), (0.001, 0.5)),
    32: ((0.03, 0.5), (1e-05, 0.5), (0.01, 0.5), (0.003, 0.5), (0.0003, 0.5), (0.0003, 0.5)),
}
CORNERS: Pairs = {
    1: ((0.9, 0.2), (0.5, 0.2), (0.03, 0.3), (0.01, 0.3), (0.003, 0.3), (1e-05, 0.3)),
    4: ((0.9, 0.3), (0.9, 0.2), (0.03, 0.3), (0.01, 0.3), (0.003, 0.3), (1e-05, 0.3)),
    8: ((0.9, 0.3), (0.5, 0.3), (0.03, 0.3), (0.01, 0.3), (0.003, 0.3), (1e-05, 0.3)),
    16: ((0.9, 0.3), (0.9, 0.3), (0.03, 0.3), (0.01, 0.3), (0.003, 0.3), (1e-05, 0.3)),
    32: ((0.03, 0.3), (0.03, 0.3), (0.03, 0.3), (0.01, 0.3), (0.003, 0.3), (1e-05, 0.3)),
}
SEVEN: Pairs = {
    1: ((0.9, 0.05), (0.1, 0.1), (0.01, 0.1), (0.003, 0.1), (0.0003, 0.1), (1e-05, 0.1)),
    4: ((0.9, 0.1), (0.9, 0.05), (0.01, 0.1), (0.003, 0.1), (0.0003, 0.1), (1e-05, 0.1)),
    8: ((0.9, 0.1), (0.1, 0.1), (0.01, 0.1), (0.003, 0.1), (0.0003, 0.1), (1e-05, 0.1)),
    16: ((0.9, 0.1), (0.1, 0.1), (0.01, 0.1), (0.003, 0.1), (0.001, 0.1), (1e-05, 0.1)),
    32: ((0.03, 0.1), (0.03, 0.1), (0.01, 0.1), (0.003, 0.1), (0.001, 0.1), (1e-05, 0.1)),
}


@dataclass(frozen=True)
class Place:
    """One of the three worlds."""

    name: str
    title: str
    learner: str
    metric: str
    plan: Callable[[], Plan]
    expected: str


def cell_name(agent: str, k: int, tau: float) -> str:
    return f"{agent} k={k} τ={tau:.3g}"


def _cells(
    agent: type[PTQ] | type[PTTD], pairs: Pairs, step_sizes: tuple[float, ...], **fields: object
) -> dict[str, Contender]:
    search = {"permanent_lr": PERMANENT_STEP_SIZES, "transient_lr": step_sizes}
    return {
        cell_name(agent().name, k, tau): Contender(
            agent(
                permanent_lr=permanent,
                transient_lr=transient,
                decay=share_left(k, tau),
                consolidate_every=Episodes(k),
                **fields,  # type: ignore[arg-type]
            ),
            search,
        )
        for k in INTERVALS
        for tau, (permanent, transient) in zip(LIFETIMES, pairs[k], strict=True)
    }


def _slippery() -> Plan:
    return Plan(
        world=GRID,
        stream=swapping_stream(segments=10, boundaries_known=False),
        contenders={"Q": plain_q(0.5), **_cells(PTQ, SLIPPERY, (0.5,), epsilon=EPSILON)},
        probe=returns,
        truth={"method": "value iteration"},
        max_steps=MAX_STEPS,
    )


def _corners() -> Plan:
    def error(agent: Agent) -> Probe:
        return value_error(agent, corner_grid_truth(CORNER_GRID, GOAL_REWARDS))

    steps = (0.5, 0.3, 0.2)
    return Plan(
        world=CORNER_GRID,
        stream=Stream(GOAL_REWARDS, cyclic(4, 12), Episodes(TASK), boundaries_known=False),
        contenders={"TD": Contender(TD(lr=0.3), {"lr": steps}), **_cells(PTTD, CORNERS, steps)},
        probe=error,
        truth={"method": "linear solve"},
    )


def _chain() -> Plan:
    states, steps = CHAIN.num_states, (0.3, 0.1, 0.05, 0.03)
    truth = Truth(np.arange(states, dtype=np.int32), CHAIN.values, CHAIN.visits[0], np.zeros(states, bool))
    return Plan(
        world=Chain(tuple(map(tuple, TRANSITIONS.tolist())), STEPS_PER_EPISODE, REWARD_NOISE, DISCOUNT),
        stream=Stream(CHAIN.rewards.astype(np.float32), cyclic(states, 2 * states), Episodes(TASK), False),
        contenders={"TD": Contender(TD(lr=0.1), {"lr": steps}), **_cells(PTTD, SEVEN, steps)},
        probe=lambda agent: value_error(agent, truth),
        truth={"method": "linear solve"},
    )


def _observations(place: Place, results: Results) -> list[Observation]:
    lower = lower_is_better(place.metric)
    cells, samples = plane(results, place.metric)
    if len(cells) < len(INTERVALS) * len(LIFETIMES):
        return []
    by_mean = collapse(*plane(results, place.metric, mean_lifetime), lower)
    means = samples.mean(axis=1)
    often = np.array([cell.k < TASK / 3 for cell in cells])
    taus, ks = np.tile(np.arange(len(LIFETIMES)), len(INTERVALS)), np.array([cell.k for cell in cells])
    return [
        Observation(
            "collapse",
            "k and λ act through the transient lifetime τ = −k / ln λ",
            described(collapse(cells, samples, lower)),
        ),
        Observation("collapse-mean", "the same with the mean lifetime (k/2) coth(k/2τ)", described(by_mean)),
        Observation(
            "same-lifetime",
            "cells of equal τ perform alike, whatever k",
            f"of the variance between cells {between(taus, means):.0%} lies between lifetimes and {between(ks, means):.0%} between "
            f"intervals; with k below a third of a task {between(taus[often], means[often]):.0%} and "
            f"{between(ks[often], means[often]):.0%}",
        ),
        Observation(
            "wrong-lifetime",
            f"what a lifetime of a third of a task gains, and one that is wrong by a factor of {WRONG}",
            _advice(place, results, samples),
        ),
    ]


def _advice(place: Place, results: Results, samples: np.ndarray) -> str:
    """Gains over the learner without a permanent part, means over all k, paired over seeds."""
    by_tau = samples.reshape(len(INTERVALS), len(LIFETIMES), -1).mean(axis=0)
    plain = auc(results, place.learner, place.metric)
    sign = -1.0 if lower_is_better(place.metric) else 1.0
    factors = {"a third of a task": 1.0, f"{WRONG} times too short": 1 / WRONG, f"{WRONG} times too long": WRONG}
    parts = []
    for name, factor in factors.items():
        level = int(np.abs(np.log(np.array(LIFETIMES) * 3 / TASK / factor)).argmin())
        gain, low, high = paired_difference(sign * by_tau[level], sign * plain)
        parts.append(f"{name} {gain:+.4f} [{low:+.4f}, {high:+.4f}]")
    return f"gain over {place.learner} ({plain.mean():.4f}): {'; '.join(parts)}"


def _figures(place: Place, results: Results) -> dict[str, alt.TopLevelMixin]:
    cells, samples = plane(results, place.metric)
    plain = float(auc(results, place.learner, place.metric).mean())
    return {"lifetime": lifetime_panel(cells, samples, place.metric, place.title, TASK, (place.learner, plain))}


def _small(place: Place) -> Plan:
    """Two intervals only: each one takes seconds to compile."""
    plan = shrink(place.plan(), segments=3, segment_length=10, seeds=3)
    kept = (None, Episodes(4), Episodes(16))  # None: the learner without a permanent part
    return plan.select(
        name for name, one in plan.contenders.items() if getattr(one.config, "consolidate_every", None) in kept
    )


PLACES = (
    Place("control", "Slippery grid, control", "Q", DISCOUNTED_RETURN, _slippery, "1 min"),
    Place("prediction", "Discrete grid, prediction", "TD", CURRENT, _corners, "1 min"),
    Place("chain", "Chain of seven states, prediction", "TD", CURRENT, _chain, "1 min"),
)

EXPERIMENTS = tuple(
    Experiment(
        name=f"study/lifetime/{place.name}",
        figure=NOT_IN_PAPER,
        title=f"Transient lifetime: {place.title.lower()}",
        plans={
            FULL: place.plan,
            SMOKE: partial(_small, place),
        },
        figures=partial(_figures, place),
        claims=lambda _: [],
        observations=partial(_observations, place),
        expected=place.expected,
        primary_metrics=(place.metric,),
        remarks=(
            f"Tasks last {TASK} episodes, their boundaries are unknown. Lifetimes are counted in episodes.",
            "Step sizes of each cell were chosen on tuning seeds 1000 to 1009, disjoint from the seeds reported here.",
        ),
    )
    for place in PLACES
)
