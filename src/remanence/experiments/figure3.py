"""Figure 3: control in a slippery grid whose two goals swap rewards, task boundaries known (paper, §5.2, App. A)."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from remanence.agents.base import Agent
from remanence.agents.configs import PTQ, Q
from remanence.core.lazy import alt
from remanence.core.types import Episodes
from remanence.engine.life import Probe
from remanence.engine.probes import episode_return, value_maps
from remanence.experiments.base import PAPER, RELEASED, SMOKE, Experiment
from remanence.experiments.controls import with_controls
from remanence.report.figures import Line
from remanence.report.panels.policies import policy_maps
from remanence.report.panels.published import curves_with_published
from remanence.results.claims import Claim, claim, lower
from remanence.results.continual import of_run
from remanence.results.published import Published
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Contender, Plan, shrink
from remanence.streams import Stream, cyclic
from remanence.theory import optimal_values
from remanence.worlds import SlipperyGrid
from remanence.worlds.grids.slippery import SWAPPED_GOALS

GRID = SlipperyGrid()
SWAPPED_REWARDS = SWAPPED_GOALS
EPSILON = 0.1
SEGMENT_LENGTH = 50
PUBLISHED = Published("figure3-tabular", (RELEASED, PAPER, SMOKE), segment_length=SEGMENT_LENGTH)
DISCOUNTED_RETURN = "discounted_return"
MAX_STEPS = 500_000  # about 1000 per episode, ten times what a random policy needs: only agents that diverge come near

# Step sizes searched (paper, App. C.4, "Search space of learning rates for the tabular control task").
STEP_SIZES = (0.8, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
PERMANENT_STEP_SIZES = (0.8, 0.5, 0.3, 0.1, 0.05, 0.01, 0.005, 0.001)
TRANSIENT_STEP_SIZES = (0.8, 0.5, 0.3, 0.1, 0.05, 0.01)


def swapping_stream(segments: int, boundaries_known: bool) -> Stream:
    return Stream(SWAPPED_REWARDS, cyclic(2, segments), Episodes(SEGMENT_LENGTH), boundaries_known)


def plain_q(lr: float) -> Contender:
    return Contender(Q(lr=lr, epsilon=EPSILON), {"lr": STEP_SIZES})


def returns(_: Agent) -> Probe:
    """Returns, and regret against the exact optimum."""
    best = optimal_values(*GRID.dynamics(SWAPPED_REWARDS), GRID.discount).max(axis=-1)
    return episode_return(best[:, GRID.cell(GRID.start)])


def _plan(segments: int) -> Plan:
    return Plan(
        world=GRID,
        stream=swapping_stream(segments, boundaries_known=True),
        contenders=with_controls(
            {
                "Q": plain_q(0.5),
                "Q-reset": Contender(Q(lr=0.1, epsilon=EPSILON, reset=True), {"lr": STEP_SIZES}),
                "PT-Q": Contender(
                    PTQ(permanent_lr=0.01, transient_lr=0.5, decay=0.0, consolidate_every=None, epsilon=EPSILON),
                    {"permanent_lr": PERMANENT_STEP_SIZES, "transient_lr": TRANSIENT_STEP_SIZES},
                ),
            }
        ),
        probe=returns,
        truth={"method": "value iteration"},
        max_steps=MAX_STEPS,
        maps=lambda agent: value_maps(agent, np.arange(GRID.num_states, dtype=np.int32)),
        map_windows=(
            SEGMENT_LENGTH,
            SEGMENT_LENGTH + 1,
            2 * SEGMENT_LENGTH,
            2 * SEGMENT_LENGTH + 1,
            segments * SEGMENT_LENGTH,
        ),
    )


def _figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    title = "Slippery grid, tabular control"
    curves = curves_with_published(results, [Line(DISCOUNTED_RETURN)], PUBLISHED, title, x="episode")
    return {**curves, "policies": policy_maps(results, GRID)}


def control_claims(results: Results, family: str = "Q") -> list[Claim]:
    """The claims of §5.2 ("Observations") about a control panel: the learner, its reset variant and PT."""
    plain, reset, ours = family, f"{family}-reset", f"PT-{family}"
    aucs = {name: auc(results, name, DISCOUNTED_RETURN) for name in results.contenders}
    measured = of_run(results, DISCOUNTED_RETURN)
    recovery = {name: metrics.recovery for name, metrics in measured.items()}
    early = {name: _first_episodes(results, name) for name in results.contenders if results.switches}
    less = partial(lower, results)
    return [
        claim(
            "pt-highest",
            f"{ours} collects more return than {plain} with and without reset",
            *(less(rival, ours, aucs, "mean return") for rival in (plain, reset)),
        ),
        claim(
            "reset-relearns",
            f"{reset} must learn a good policy from scratch at each switch: in the first fifth of a task it collects less "
            f"than {ours}",
            less(reset, ours, early, "mean return soon after a switch"),
        ),
        claim(
            "q-readjusts",
            f"{plain} needs many samples to re-adjust when the rewards are swapped: in the first fifth of a task it collects less "
            f"than {ours}",
            less(plain, ours, early, "mean return soon after a switch"),
        ),
        claim(
            "pt-few-samples",
            f"{ours} needs comparatively few samples to find a good policy after a switch: it recovers in fewer episodes",
            *(less(ours, rival, recovery, "episodes to recover") for rival in (plain, reset)),
        ),
    ]


def _first_episodes(results: Results, name: str) -> np.ndarray:
    """[seeds] mean return of the first fifth of the episodes after a switch: ten of fifty."""
    curves, count = results.matrix(name, DISCOUNTED_RETURN), max(1, results.segment_length // 5)
    return curves.reshape(len(curves), -1, results.segment_length)[:, 1:, :count].mean(axis=(1, 2))


EXPERIMENTS = (
    Experiment(
        name="figure3/tabular",
        figure="Figure 3b",
        title="Slippery grid, tabular control",
        plans={
            PAPER: partial(_plan, 10),
            RELEASED: partial(_plan, 6),
            SMOKE: lambda: shrink(
                dataclasses.replace(_plan(3), map_windows=(10, 11, 30)), segments=3, segment_length=10, seeds=3
            ),
        },
        figures=_figures,
        claims=control_claims,
        expected="10 s",
        primary_metrics=(DISCOUNTED_RETURN, "regret"),
        reference=RELEASED,
        published=PUBLISHED,
        remarks=(
            "`discounted_return` is shown, as in the published panel; `return`, the undiscounted one, is stored too.",
            "PT-Q without consolidation is a control of ours. Task boundaries are known, so λ = 0, and it is Q-reset with PT-Q's "
            "transient step size.",
            "The preset released has 300 episodes, as the published panel; paper has the 500 of the text.",
        ),
    ),
)
