"""Impossible values: the paper's consolidation makes them where it absorbs and keeps too much, stated shares do not."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

import remanence
from remanence import PTDQN

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "batch": 16,
    "replay": 256,
    "target_every": 20,
    "transient_lr": 3e-3,
    "consolidate_every": 100,
}


class OneForEver(gymnasium.Env):
    """Every step has reward 1, and no episode ends: with γ = 0.9 every value is 10."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        del options
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action: int) -> Any:
        del action
        return self._obs(), 1.0, False, False, {}

    def _obs(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


def values(config: PTDQN) -> tuple[float, float, list[str]]:
    """The largest value, relative to 10; what the last consolidation absorbed and kept; the warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = remanence.live({"PT": config}, OneForEver, 1_500, seeds=2, discount=0.9, progress=False)
    last = {metric: results.matrix("PT", metric) for metric in ("value_ratio", "absorbed", "kept")}
    shares = float((last["absorbed"] + last["kept"])[:, -1].mean())
    return float(last["value_ratio"].max()), shares, [str(one.message) for one in said]


def test_the_papers_form_inflates_values_where_it_absorbs_and_keeps_more_than_there_is() -> None:
    largest, shares, said = values(PTDQN(**SMALL, permanent_lr=0.1))
    assert shares > 1.1
    assert largest > 1.5
    assert any("/ (1 − γ)" in one for one in said)


@pytest.mark.parametrize(
    ("absorb", "optimizer"),
    [
        (0.025, "adam"),
        (0.25, "sgd"),
    ],  # steps of Adam scatter: with nothing forgotten, the largest of two values grows by an eighth
    ids=["a tenth", "nothing is forgotten"],
)
def test_stated_shares_do_not(absorb: float, optimizer: str) -> None:
    largest, shares, said = values(PTDQN(**SMALL, absorb=absorb, permanent_optimizer=optimizer))
    assert shares == pytest.approx(0.75 + absorb, abs=0.01)
    assert largest < 1.1
    assert not any("/ (1 − γ)" in one for one in said)


def test_nor_if_all_weights_decay() -> None:
    """The target network gives away at once what the permanent one absorbs: else the bootstrap counts it until the next copy."""
    config = PTDQN(
        **{**SMALL, "target_every": 100}, absorb=0.5, decay=0.5, decay_output=False, permanent_optimizer="sgd"
    )
    largest, shares, _ = values(config)
    assert 0.5 < shares < 1
    assert largest < 1.1
