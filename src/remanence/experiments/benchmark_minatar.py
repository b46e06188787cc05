"""DQN alone on each game of MinAtar, as Young and Tian (2019) ran it: our DQN, judged by a table that others published."""

from __future__ import annotations

from functools import partial

import numpy as np

from remanence.agents.behaviour import Linear
from remanence.agents.configs import DQN
from remanence.agents.networks import Conv, Dense, Flatten, Relu
from remanence.core.lazy import alt
from remanence.core.types import Steps
from remanence.engine.probes import latest_returns
from remanence.experiments.base import NOT_IN_PAPER, SMOKE, Experiment
from remanence.experiments.figure5_minatar import LAST100
from remanence.report.figures import Line, learning_curves
from remanence.results.claims import NOT_RUN, Claim, Finding, claim, is_same
from remanence.results.store import Results
from remanence.results.summary import per_seed
from remanence.runs.plan import Contender, Plan, shrink
from remanence.streams import Stream, cyclic
from remanence.worlds import MinAtar
from remanence.worlds.minatar.world import GAMES

FULL = "full"
STEPS, WINDOW = 1_000_000, 5_000
PUBLISHED = {"asterix": 6.9, "breakout": 9.2, "freeway": 47.7, "space_invaders": 33.3}
"""mean returns of DQN after 1M steps, of 30 runs; there is no such number for seaquest"""
MARGIN = 0.15  # of the published mean, whose error is not known

AGENT = DQN(
    lr=2.5e-4,
    layers=(Conv(16, 3, "uniform"), Relu(), Flatten(), Dense(128, "uniform"), Relu()),
    batch=32,
    replay=100_000,
    replace=False,
    implicit_next=True,
    learning_starts=5_000,
    target_every=1_000,
    epsilon=Linear(1.0, 0.1, 100_000, after=5_000),
    optimizer="rmsprop of dqn",
    loss="huber",
)


def _plan(game: str) -> Plan:
    """Sticky actions, all six of them, and games that become harder over time."""
    return Plan(
        world=MinAtar(game),
        stream=Stream(np.zeros(1, np.int32), cyclic(1, 1), Steps(STEPS), boundaries_known=False),
        contenders={"DQN": Contender(AGENT)},
        probe=lambda _: latest_returns,
        seeds=5,
        round_steps=200,
        window=WINDOW,
    )


def _smoke(game: str) -> Plan:
    return shrink(_plan(game), segments=1, segment_length=1_000, seeds=2).override("DQN", "learning_starts", 200)


def _claims(game: str, results: Results) -> list[Claim]:
    if game not in PUBLISHED:
        return []
    if "DQN" not in results.contenders:
        finding = Finding(NOT_RUN, "DQN did not run")
    else:
        last = per_seed(results, "DQN", LAST100, last=1 / results.windows)
        published = PUBLISHED[game]
        finding = is_same(last, np.full_like(last, published), MARGIN * published, f"DQN {last.mean():.1f} − published")
    text = f"after 1M steps DQN's mean return is the published {PUBLISHED[game]:g} (30 runs), within {MARGIN:.0%}"
    return [claim("published-return", text, finding)]


def _figures(game: str, results: Results) -> dict[str, alt.TopLevelMixin]:
    return {"curves": learning_curves(results, [Line(LAST100)], _title(game), f"window of {results.window:,} steps")}


def _title(game: str) -> str:
    return f"MinAtar, {game.replace('_', ' ')} alone"


EXPERIMENTS = tuple(
    Experiment(
        name=f"benchmark/minatar/{game}",
        figure=NOT_IN_PAPER,
        title=_title(game),
        plans={FULL: partial(_plan, game), SMOKE: partial(_smoke, game)},
        figures=partial(_figures, game),
        claims=partial(_claims, game),
        expected="20 min",
        primary_metrics=(LAST100,),
        remarks=(
            "Network, optimizer, replay buffer, exploration and the games are those of Young and Tian (2019): sticky actions, and"
            " games that become harder. Returns are those of episodes while it learns, the mean of the last 100.",
        ),
    )
    for game in GAMES
)
