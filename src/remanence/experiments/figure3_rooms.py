"""Figure 3d: deep control in two rooms whose goals swap rewards, task boundaries known (paper, §5.2, App. C.1.3)."""

from __future__ import annotations

from functools import partial

from remanence.agents.configs import DQN, PTDQN
from remanence.core.lazy import alt
from remanence.core.types import Episodes
from remanence.engine.probes import episode_return
from remanence.experiments.base import PAPER, RELEASED, SMOKE, Experiment
from remanence.experiments.controls import with_controls
from remanence.experiments.deep import CONTROL_HEAD, DeepStepSizes, rooms_trunk, semi_continual
from remanence.experiments.figure3 import DISCOUNTED_RETURN, EPSILON, control_claims
from remanence.report.figures import Line
from remanence.report.panels.published import curves_with_published
from remanence.results.published import Published
from remanence.results.store import Results
from remanence.runs.plan import Plan, shrink
from remanence.streams import Stream, cyclic
from remanence.worlds import TWO_ROOMS_TASKS, two_rooms

# The published step sizes; they are in the grids of App. C.4.
CHOSEN = DeepStepSizes(plain=3e-4, reset=3e-4, permanent=3e-6, transient=1e-4)
SEARCH = {
    "plain": (3e-3, 1e-3, 3e-4, 1e-4, 3e-5),
    "reset": (1e-2, 3e-3, 1e-3, 3e-4, 1e-4),
    "permanent": (1e-5, 3e-6, 1e-6, 3e-7),
    "transient": (3e-4, 1e-4, 3e-5, 1e-5),
}

SMOOTH = 10  # episodes
PUBLISHED = Published("figure3-rooms", (PAPER, RELEASED, SMOKE), segment_length=500, smooth=SMOOTH)


def rooms_plan(released: bool = False) -> Plan:
    world = two_rooms()
    contenders = semi_continual(
        DQN,
        PTDQN,
        {
            "trunk": rooms_trunk(),
            "layers": CONTROL_HEAD,
            "output_init": "small",
            "replay": 100_000,
            "target_every": 200,
            "epsilon": EPSILON,
            "frames": 4,
            "repeat_first": released,
        },
        {"permanent_optimizer": "adam", "buffer": 100_000, "in_order": False, "max_batches": 100},
        CHOSEN,
        SEARCH,
        sync_target=released,
    )
    return Plan(
        world=world,
        stream=Stream(TWO_ROOMS_TASKS, cyclic(2, 5), Episodes(500), boundaries_known=True),
        contenders=with_controls(contenders),
        probe=lambda _: episode_return(),
        round_steps=2,  # a lane whose episode ended waits for the end of the round
        lanes_at_once=60,
    )


def _figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    line, title = Line(DISCOUNTED_RETURN), "Two rooms, deep control"
    return curves_with_published(results, [line], PUBLISHED, title, x="episode", smooth=SMOOTH)


EXPERIMENTS = (
    Experiment(
        name="figure3/rooms",
        figure="Figure 3d",
        title="Two rooms, deep control",
        plans={
            PAPER: rooms_plan,
            RELEASED: partial(rooms_plan, released=True),
            SMOKE: lambda: shrink(rooms_plan(), segments=3, segment_length=10, seeds=2),
        },
        figures=_figures,
        claims=partial(control_claims, family="DQN"),
        expected="5 to 10 h",
        primary_metrics=(DISCOUNTED_RETURN,),
        published=PUBLISHED,
        remarks=(
            "Curves are trailing means of 10 episodes, as published; numbers and claims are not smoothed.",
            "Episodes are truncated after 100 steps, where we bootstrap. There are three actions: the printed 4 is an error.",
            "Inputs are four stacked frames, as in the released code. The text has one, but most cells of the upper room look "
            "alike, and with one frame DQN hardly learns (docs/deviations.md).",
            "PT-DQN without consolidation is a control of ours: its transient head is reset at each switch, its trunk is not.",
            "In the preset released the first frame of an episode is repeated, where paper has zeros, and DQN copies its target "
            "network at a switch.",
        ),
    ),
)
