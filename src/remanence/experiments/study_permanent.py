"""Does a permanent part that remembers add to what forgetting gains? Five worlds, from tables to Figure 5. Not in the paper.

Each world has the learner, and two forms of PT with a control each, whose permanent part never changes:

    PT-…             the paper's: V^P takes steps of size ᾱ, all weights of V^T are multiplied by λ
    PT-… by shares   ours: V^P absorbs a stated share a of V^T, and V^T itself is multiplied by λ (`agents/shares.py`)

So the gain of either form is split into forgetting (control − learner) and remembering (PT − control). Every agent, controls too,
is tuned by itself: remembering is what the best PT has over the best agent that only forgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from remanence.agents.configs import DQN, PTDQN, PTQ
from remanence.agents.shares import with_fields
from remanence.core.lazy import alt
from remanence.core.types import Episodes, Steps
from remanence.engine.probes import latest_returns
from remanence.experiments import figure5_jellybean, figure5_minatar
from remanence.experiments.base import NOT_IN_PAPER, SMOKE, Experiment
from remanence.experiments.deep import DECAYS, Continual
from remanence.experiments.figure3 import (
    DISCOUNTED_RETURN,
    EPSILON,
    GRID,
    MAX_STEPS,
    SWAPPED_REWARDS,
    plain_q,
    returns,
    swapping_stream,
)
from remanence.experiments.figure3_rooms import rooms_plan
from remanence.experiments.figure5_jellybean import jellybean_plan, small_jellybean_plan
from remanence.experiments.figure5_minatar import FILTERS, minatar_plan, released_plan, small_minatar_plan
from remanence.experiments.jellybean_claims import RATE
from remanence.report.figures import Line, learning_curves
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.store import Results
from remanence.runs.plan import Contender, Plan, shrink
from remanence.streams import Stream, cyclic
from remanence.worlds.jellybean import preset

FULL, LONG, SHORT = "full", "long", "short"
BY_SHARES = " by shares"  # ends the name of our form

Chosen = Mapping[str, Mapping[str, float]]  # contender -> its values


def with_control(name: str, one: Contender, idle: str) -> dict[str, Contender]:
    """A contender, and its control: the same agent whose permanent part never changes, because `idle` is 0."""
    search = {field: values for field, values in one.search.items() if field != idle}
    return {name: one, name + CONTROL_SUFFIX: Contender(with_fields(one.config, **{idle: 0.0}), search)}


def both_forms(paper: Contender, shares: Contender) -> dict[str, Contender]:
    name = paper.config.name
    return {**with_control(name, paper, "permanent_lr"), **with_control(name + BY_SHARES, shares, "absorb")}


def tuned(contenders: Mapping[str, Contender], chosen: Chosen) -> dict[str, Contender]:
    """The same contenders with the values that tuning seeds chose for each."""
    return {
        name: replace(one, config=with_fields(one.config, **chosen.get(name, {}))) for name, one in contenders.items()
    }


# The slippery grid of Figure 4, tables. A task lasts 50 episodes; 16 does not divide it.

TABLE_STEPS = (0.8, 0.5, 0.3, 0.1)
SLIPPERY: Chosen = {
    "PT-Q": {"permanent_lr": 0.003},
    f"PT-Q{CONTROL_SUFFIX}": {"decay": 0.1},
    f"PT-Q{BY_SHARES}{CONTROL_SUFFIX}": {"decay": 0.89},
}  # of the others, the values below


def slippery_plan() -> Plan:
    paper = PTQ(permanent_lr=0.01, transient_lr=0.5, decay=0.5, consolidate_every=Episodes(16), epsilon=EPSILON)
    shares = PTQ(absorb=0.01, transient_lr=0.5, decay=0.94, consolidate_every=Episodes(1), epsilon=EPSILON)
    permanent_lrs = (0.1, 0.03, 0.01, 0.003, 0.001)
    kept = (0.89, 0.94, 0.97, 0.985)  # half-lives of 6, 11, 23 and 46 episodes
    forms = both_forms(
        Contender(
            paper, {"permanent_lr": permanent_lrs, "transient_lr": TABLE_STEPS, "decay": (0.1, 0.3, 0.5, 0.7, 0.9)}
        ),
        Contender(shares, {"absorb": (0.01, 0.003, 0.001), "transient_lr": TABLE_STEPS, "decay": kept}),
    )
    return Plan(
        world=GRID,
        stream=swapping_stream(segments=10, boundaries_known=False),
        contenders=tuned({"Q": plain_q(0.5), **forms}, SLIPPERY),
        probe=returns,
        truth={"method": "value iteration"},
        max_steps=MAX_STEPS,
    )


# The same grid, its tasks counted in steps, with tables and with networks side by side.

TASK_STEPS = 2_000
RECURRING: Chosen = {
    "Q": {"lr": 0.8},
    f"PT-Q{BY_SHARES}": {"transient_lr": 0.3, "decay": 0.63},
    f"PT-Q{BY_SHARES}{CONTROL_SUFFIX}": {"transient_lr": 0.3, "decay": 0.63},
    "DQN": {"lr": 3e-3},
    "PT-DQN": {"decay": 0.95},
    f"PT-DQN{CONTROL_SUFFIX}": {"decay": 0.95},
    f"PT-DQN{BY_SHARES}": {"decay": 0.63},
    f"PT-DQN{BY_SHARES}{CONTROL_SUFFIX}": {"decay": 0.63},
}
LONGER: Chosen = {}  # not tuned yet


def recurring_plan(chosen: Chosen = RECURRING, times: int = 1, segments: int = 10) -> Plan:
    """Args: times: how much longer tasks, intervals and replay buffers are than 2000, 200 and 1000 steps."""
    task, every = TASK_STEPS * times, TASK_STEPS * times // 10
    shared: dict[str, Any] = {
        "hidden": (64, 64),
        "batch": 32,
        "replay": task // 2,
        "target_every": 100,
        "epsilon": EPSILON,
    }
    absorb, kept = (0.1, 0.03, 0.01), (0.25, 0.4, 0.63, 0.79, 0.89)  # half-lives of 100 to 1200 steps, times `times`
    start = {"absorb": 0.03, "decay": 0.79, "consolidate_every": every}
    table = Contender(
        PTQ(transient_lr=0.5, epsilon=EPSILON, **start),  # type: ignore[arg-type]
        {"absorb": absorb, "transient_lr": TABLE_STEPS, "decay": kept},
    )
    paper = PTDQN(permanent_lr=1e-2, transient_lr=1e-3, decay=0.75, consolidate_every=every, **shared)
    shares = PTDQN(permanent_lr=1e-3, transient_lr=1e-3, **start, **shared)
    contenders = {
        "Q": plain_q(0.5),
        **with_control(f"PT-Q{BY_SHARES}", table, "absorb"),
        "DQN": Contender(DQN(lr=1e-3, **shared), {"lr": (3e-3, 1e-3, 3e-4)}),
        **both_forms(
            Contender(paper, {"permanent_lr": (1e-1, 1e-2, 1e-3), "decay": DECAYS}),
            Contender(shares, {"absorb": absorb, "decay": kept}),
        ),
    }
    return Plan(
        world=GRID,
        stream=Stream(SWAPPED_REWARDS, cyclic(2, segments), Steps(task), boundaries_known=False),
        contenders=tuned(contenders, chosen),
        probe=lambda _: latest_returns,
        round_steps=50,
        window=task // 10,
    )


# The two rooms of Figure 3d, whose task boundaries are known: V^T is reset there, and V^P absorbs a share.


def _rooms() -> Plan:
    plan = rooms_plan()
    paper = plan.contenders["PT-DQN"]
    search = {"absorb": (0.6, 0.3, 0.1), "transient_lr": paper.search["transient_lr"]}
    shares = Contender(with_fields(paper.config, absorb=0.3, reinit=False), search)
    return replace(plan, contenders={"DQN": plan.contenders["DQN"], **both_forms(paper, shares)})


# The worlds of Figure 5. Both forms forget in the same way, by all weights, so they share a control.


def _of_figure5(published: Mapping[str, float], plain: float, make: Continual) -> dict[str, Contender]:
    paper = make.permanent_transient(published)
    ours = Contender(
        with_fields(paper.config, absorb=0.05, decay_output=False, permanent_lr=1e-3, max_batches=None),
        {"absorb": (0.2, 0.05, 0.0125), "transient_lr": make.transient_search, "decay": (0.55, 0.75)},
    )
    return {
        "DQN": make.plain(plain),
        **with_control(paper.config.name, paper, "permanent_lr"),
        paper.config.name + BY_SHARES: ours,
    }


JELLYBEAN = partial(_of_figure5, figure5_jellybean.CHOSEN, 1e-4)
MINATAR = partial(_of_figure5, figure5_minatar.CHOSEN, 1e-5)
SHORTER, MINATAR_REPLAY = 5, 100_000


def _jellybean() -> Plan:
    return jellybean_plan(preset("released"), JELLYBEAN, segments=6, seeds=5, sync_target=True)


def _minatar() -> Plan:
    return replace(released_plan(MINATAR), seeds=5)


def _short_minatar() -> Plan:
    """Each game comes twice, and all times are a fifth as long. Networks are those of the paper's text, half as wide as the
    released ones. The step size of DQN is the transient one: the published 1e-5 is for longer runs."""
    step_sizes = partial(_of_figure5, figure5_minatar.CHOSEN, figure5_minatar.CHOSEN["transient_lr"])
    every = figure5_minatar.CONSOLIDATE_EVERY // SHORTER
    plan = minatar_plan(FILTERS, every, sync_target=True, contenders=step_sizes)
    games = plan.stream.num_tasks
    contenders = {
        name: replace(one, config=with_fields(one.config, replay=MINATAR_REPLAY // SHORTER))
        for name, one in plan.contenders.items()
    }
    stream = replace(
        plan.stream, order=cyclic(games, 2 * games), segment_length=Steps(figure5_minatar.SWITCH // SHORTER)
    )
    return replace(plan, stream=stream, contenders=contenders, seeds=5)


def _figures(metric: str, title: str, results: Results) -> dict[str, alt.TopLevelMixin]:
    window = results.description["window"]
    x = "episode" if window == 1 else f"window of {window:,} steps"
    return {"curves": learning_curves(results, [Line(metric)], title, x)}


def _study(
    name: str,
    title: str,
    metric: str,
    plans: Mapping[str, Callable[[], Plan]],
    expected: str,
    *remarks: str,
    **more: Any,
) -> Experiment:
    return Experiment(
        name=f"study/permanent/{name}",
        figure=NOT_IN_PAPER,
        title=f"Forgetting and remembering: {title}",
        plans=plans,
        figures=partial(_figures, metric, title[0].upper() + title[1:]),
        claims=lambda _: [],
        expected=expected,
        primary_metrics=(metric,),
        remarks=remarks,
        **more,
    )


TUNED = "Every agent, controls too, was tuned by itself on seeds 1000 and up, which are not reported."
UNTUNED = (
    "DQN and PT-DQN have the published step sizes, PT-DQN by shares values that were not tuned; "
    "`remanence sweep` tunes all of them."
)

EXPERIMENTS = (
    _study(
        "slippery",
        "slippery grid, tables",
        DISCOUNTED_RETURN,
        {FULL: slippery_plan, SMOKE: lambda: shrink(slippery_plan(), segments=3, segment_length=10, seeds=3)},
        "10 s",
        TUNED,
    ),
    _study(
        "recurring",
        "slippery grid, tables and networks",
        RATE,
        {
            FULL: recurring_plan,
            LONG: partial(recurring_plan, LONGER, 4, 6),
            SMOKE: lambda: shrink(recurring_plan(), segments=3, segment_length=400, seeds=3),
        },
        "10 min",
        TUNED,
        "Tasks last 2000 steps, and 8000 in the preset long.",
    ),
    _study(
        "two-rooms",
        "two rooms, networks",
        DISCOUNTED_RETURN,
        {FULL: _rooms, SMOKE: lambda: shrink(_rooms(), segments=3, segment_length=10, seeds=2)},
        "6 to 12 h",
        "Task boundaries are known, as in Figure 3d.",
        UNTUNED,
    ),
    _study(
        "jellybean",
        "Jelly Bean World, networks",
        RATE,
        {FULL: _jellybean, SMOKE: partial(small_jellybean_plan, JELLYBEAN)},
        "4 h",
        UNTUNED,
    ),
    _study(
        "minatar",
        "MinAtar, networks",
        figure5_minatar.LAST100,
        {FULL: _minatar, SHORT: _short_minatar, SMOKE: partial(small_minatar_plan, MINATAR)},
        "30 h",
        UNTUNED,
        "In the preset short each of the three games comes twice, in the same order for all seeds, for 100 000 steps each time;"
        " DQN has the step size 1e-4 there, as PT-DQN has.",
        continual=figure5_minatar.RETURN,
    ),
)
