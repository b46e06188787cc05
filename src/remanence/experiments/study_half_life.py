"""What PT gains by its half-life, and what a half-life that is wrong by a factor of ten costs. Not in the paper.

The worlds are those of `study/permanent/slippery` and `study/permanent/recurring`, with step sizes that were tuned there. Of PT
only the half-life is given; interval, λ and the absorbed share follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from remanence.agents.configs import PTDQN, PTQ
from remanence.agents.shares import with_fields
from remanence.core.lazy import alt
from remanence.core.types import Episodes
from remanence.experiments import study_lifetime
from remanence.experiments.base import NOT_IN_PAPER, SMOKE, Experiment
from remanence.experiments.figure3 import DISCOUNTED_RETURN, EPSILON
from remanence.experiments.jellybean_claims import RATE
from remanence.experiments.study_permanent import recurring_plan, slippery_plan
from remanence.report.panels.half_life import half_life_panel
from remanence.results.observations import Observation
from remanence.results.statistics import Estimate, paired_difference
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Contender, Plan, shrink

FULL = "full"
EPISODES = (1, 2, 5, 10, 17, 25, 50, 100, 170)  # of 50 in a task
STEPS = (70, 200, 400, 670, 1_000, 2_000, 4_000, 6_700)  # of 2 000


@dataclass(frozen=True)
class Place(study_lifetime.Place):
    task: int
    """how long one lasts, in the unit of half-lives"""


def _tables() -> Plan:
    plan = slippery_plan()
    agents = {
        f"PT-Q h={count}": Contender(PTQ(transient_half_life=Episodes(count), transient_lr=0.5, epsilon=EPSILON))
        for count in EPISODES
    }
    return replace(plan, contenders={"Q": plan.contenders["Q"], **agents})


def _networks() -> Plan:
    """The network, batch and replay buffer of the study; its step size of the transient part is the default."""
    plan = recurring_plan()
    learner = plan.contenders["DQN"].config
    shared = {name: getattr(learner, name) for name in ("hidden", "batch", "replay", "target_every", "epsilon")}
    agents = {
        f"PT-DQN h={count}": Contender(with_fields(PTDQN(**shared), transient_half_life=count)) for count in STEPS
    }
    return replace(plan, contenders={"DQN": plan.contenders["DQN"], **agents})


def gains(place: Place, results: Results) -> list[tuple[float, Estimate]]:
    """Each half-life, relative to the length of a task, with the gain over the learner, paired over seeds."""
    plain = auc(results, place.learner, place.metric)
    return [
        (int(name.rpartition("=")[2]) / place.task, paired_difference(auc(results, name, place.metric), plain))
        for name in results.contenders
        if name != place.learner
    ]


def _observations(place: Place, results: Results) -> list[Observation]:
    if place.learner not in results.contenders or len(results.seeds) < 2:
        return []
    plain = auc(results, place.learner, place.metric).mean()
    said = "; ".join(
        f"{share:.3g}: {gain:+.4f} [{low:+.4f}, {high:+.4f}]" for share, (gain, low, high) in gains(place, results)
    )
    text = f"gain over {place.learner} ({plain:.4f}) by half-life / length of a task"
    return [Observation("by-half-life", text, said)]


def _figures(place: Place, results: Results) -> dict[str, alt.TopLevelMixin]:
    if place.learner not in results.contenders:
        return {}
    panel = half_life_panel(gains(place, results), place.metric, place.title, place.learner, len(results.seeds))
    return {"half-life": panel}


def _small(place: Place) -> Plan:
    """The learner and two half-lives."""
    plan = place.plan()
    length = 10 if place.learner == "Q" else 400
    return shrink(plan, segments=3, segment_length=length, seeds=3).select([*plan.contenders][:3])


PLACES = (
    Place("tables", "Slippery grid, tables", "Q", DISCOUNTED_RETURN, _tables, "20 s", 50),
    Place("networks", "Slippery grid, networks", "DQN", RATE, _networks, "5 min", 2_000),
)

EXPERIMENTS = tuple(
    Experiment(
        name=f"study/half-life/{place.name}",
        figure=NOT_IN_PAPER,
        title=f"Half-life of the transient part: {place.title.lower()}",
        plans={FULL: place.plan, SMOKE: partial(_small, place)},
        figures=partial(_figures, place),
        claims=lambda _: [],
        observations=partial(_observations, place),
        expected=place.expected,
        primary_metrics=(place.metric,),
        remarks=(
            "Task boundaries are unknown. Only the half-life of PT is given; its interval, λ and share follow from it.",
        ),
    )
    for place in PLACES
)
