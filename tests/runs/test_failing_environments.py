"""Environments that break after the check at the start: named when it happens, and the other lives go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import remanence
from remanence.core.errors import UserError
from remanence.gym.contract import checked_reward
from scripted import Corridor, quiet

BREAKS_AT, STEPS, SEEDS = 30, 60, 4
Spoil = Callable[[tuple], tuple]


class Late(Corridor):
    """The second environment that is made for a life returns something wrong after its 30th step; the first is only checked."""

    made = 0

    def __init__(self, kind: str, spoil: Spoil, every: bool = False) -> None:
        super().__init__(kind)
        self.spoil, self.steps = spoil, 0
        self.breaks = every or Late.made == 2
        Late.made += 1

    def step(self, action: int) -> Any:
        answer = super().step(action)
        self.steps += 1
        return self.spoil(answer) if self.breaks and self.steps > BREAKS_AT else answer


@pytest.fixture(autouse=True)
def _none_made() -> None:
    Late.made = 0


def at(place: int, value: Any) -> Spoil:
    """Replaces one part of what a step returns."""
    return lambda answer: (*answer[:place], value, *answer[place + 1 :])


def broken_wheel(_: tuple) -> tuple:
    raise ZeroDivisionError("a broken wheel")


PICTURE = np.zeros((1, 5, Corridor.length))


@pytest.mark.parametrize(
    ("kind", "spoil", "says"),
    [
        ("number", at(0, 100), r"an observation outside of Discrete\(6, start=3\): 100"),
        ("number", at(0, 2), "an observation outside of"),
        ("number", at(0, 4.5), "an observation of dtype float64 instead of int64: 4.5"),
        ("number", at(0, "4"), "an observation of dtype"),
        ("choice", at(0, np.array([6, 1])), "an observation outside of MultiDiscrete"),
        ("bits", at(0, np.full(6, 2, np.int8)), "an observation outside of MultiBinary"),
        ("float picture", at(0, PICTURE + np.nan), "an observation that is not finite"),
        ("float picture", at(0, PICTURE + 1.01), "an observation outside of Box"),
        ("float picture", at(0, PICTURE[:, :2]), r"an observation of shape \(1, 2, 6\) instead of \(1, 5, 6\)"),
        ("number", at(1, None), "a reward that is not a finite number: None"),
        ("number", at(1, "3"), "a reward that is not a finite number: '3'"),
        ("number", at(1, float("nan")), "a reward that is not a finite number: nan"),
        ("number", at(2, "no"), "terminated that is not True or False: 'no'"),
        ("number", at(3, 0.5), "truncated that is not True or False: 0.5"),
        ("number", lambda answer: answer[:4], "instead of obs, reward, terminated, truncated, info"),
        ("number", broken_wheel, "ZeroDivisionError: a broken wheel"),
    ],
)
def test_it_is_named_and_the_others_go_on(kind: str, spoil: Spoil, says: str) -> None:
    expected = rf"Random: Late failed with seed \d at step {BREAKS_AT}: .*{says}"
    with pytest.warns(UserWarning, match=expected):
        found = quiet("Random", lambda: Late(kind, spoil), STEPS, seeds=SEEDS, window=10)
    (failed,) = found.lanes.filter(pl.col("failed") != "").iter_rows(named=True)
    assert failed["diverged"]
    assert found.diverged("Random") == [failed["seed"]]
    assert f"with seed {failed['seed']} at" in failed["failed"]
    healthy = quiet("Random", lambda: Corridor(kind), STEPS, seeds=SEEDS, window=10)
    others = pl.col("lane") != failed["lane"]
    assert found.curves.filter(others).equals(healthy.curves.filter(others))
    before = (pl.col("lane") == failed["lane"]) & (pl.col("window") <= BREAKS_AT // 10)
    assert found.curves.filter(before).equals(healthy.curves.filter(before))


def test_lives_that_count_episodes_end_too() -> None:
    episodes = remanence.Stationary(episodes=30)
    with pytest.warns(UserWarning, match="a broken wheel"):
        found = quiet("Random", lambda: Late("number", broken_wheel), episodes, seeds=3)
    assert found.lanes["failed"].str.len_chars().sort().to_list()[:2] == [0, 0]
    assert len(found.curves.filter(pl.col("metric") == "return")) == 3 * 30


def test_if_all_fail_it_is_an_error_and_nothing_is_averaged() -> None:
    with pytest.raises(UserError, match="Q: Late failed with seed 0 at step 30: ZeroDivisionError") as told:
        quiet("Q", lambda: Late("number", broken_wheel, every=True), STEPS, seeds=2)
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_a_failed_life_is_saved_with_its_reason(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="a broken wheel"):
        found = quiet("Q", lambda: Late("number", broken_wheel), STEPS, seeds=SEEDS)
    again = remanence.load_results(found.save(tmp_path / "run"))
    assert again.lanes["failed"].to_list() == found.lanes["failed"].to_list()
    assert len(again.sound_seeds("Q")) == SEEDS - 1


def test_rounding_at_a_bound_is_no_failure() -> None:
    edge = lambda answer: (PICTURE + np.float64(np.float32(1.0)) + 1e-7, *answer[1:])  # noqa: E731
    found = quiet("Random", lambda: Late("float picture", edge), STEPS, seeds=2)
    assert set(found.lanes["failed"]) == {""}
    assert checked_reward(np.float32(2.5)) == 2.5
