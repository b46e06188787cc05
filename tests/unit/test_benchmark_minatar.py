"""The benchmark of DQN on single games: the last returns decide its claim, and its agent is the published one."""

from __future__ import annotations

import numpy as np
import pytest

from made_up import made_up_run
from remanence.experiments.base import SMOKE
from remanence.experiments.benchmark_minatar import AGENT, FULL, PUBLISHED, STEPS
from remanence.experiments.registry import REGISTRY
from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, TOO_FEW, UNDECIDED
from remanence.results.store import Results
from remanence.runs.describe import num_weights

NAME = "benchmark/minatar/breakout"


def ended_at(returns: list[float]) -> Results:
    """Seeds whose curves are far from the published mean but for their last windows."""
    curves = np.full((len(returns), 200), 100.0)
    curves[:, -1] = returns
    return made_up_run({"DQN": curves}, "return_last100", {"steps": STEPS}, 5_000, FULL)


@pytest.mark.parametrize(
    ("returns", "verdict"),
    [
        ([9.0, 9.4, 9.2, 9.1, 9.3], REPRODUCED),
        ([5.0, 5.4, 5.2, 5.1, 5.3], NOT_REPRODUCED),
        ([14.0, 14.1, 14.2, 14.3, 14.4], NOT_REPRODUCED),
        ([4.0, 15.0, 9.0, 8.0, 11.0], UNDECIDED),
        ([9.0, 9.4, 9.2], TOO_FEW),
    ],
)
def test_the_last_returns_are_compared_with_the_published_mean(returns: list[float], verdict: str) -> None:
    (one,) = REGISTRY[NAME].claims(ended_at(returns))
    assert one.verdict == verdict
    assert f"= {np.mean(returns) - PUBLISHED['breakout']:+.4f}" in one.evidence


def test_a_game_without_a_published_number_claims_nothing() -> None:
    assert REGISTRY["benchmark/minatar/seaquest"].claims(ended_at([1.0] * 5)) == []


def test_the_agent_is_the_published_one() -> None:
    """16 filters of 3×3×4 for breakout, 128 units on 8×8×16 of them, six actions; random for 5000 steps, then ε falls to 0.1."""
    plan = REGISTRY[NAME].plan(FULL)
    conv, hidden, output = (3 * 3 * 4 + 1) * 16, (8 * 8 * 16 + 1) * 128, (128 + 1) * 6
    assert num_weights(plan.contenders["DQN"].config, plan.spec) == conv + hidden + output
    epsilon = AGENT.epsilon
    assert callable(epsilon)
    assert [float(epsilon(step)) for step in (0, 5_000, 55_000, 105_000, STEPS)] == pytest.approx(
        [1, 1, 0.55, 0.1, 0.1]
    )
    assert plan.world.ramping  # type: ignore[attr-defined]


@pytest.mark.parametrize("game", [*PUBLISHED, "seaquest"])
def test_the_small_run_learns_too(game: str) -> None:
    plan = REGISTRY[f"benchmark/minatar/{game}"].plan(SMOKE)
    assert plan.contenders["DQN"].config.learning_starts < plan.stream.segment_length.count  # type: ignore[attr-defined]
