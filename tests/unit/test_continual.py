"""Continual-learning metrics on curves made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from remanence.core.errors import UserError
from remanence.results.continual import best_final_levels, continual_metrics, of_run
from remanence.results.store import Results
from remanence.results.summary import summarise

# Three segments of ten episodes, tasks 0, 1, 0; one seed. A return: higher is better.
CURVE = np.array([[*np.linspace(0.1, 1.0, 10), *[0.0] * 4, *[1.0] * 6, *[0.5] * 2, *[1.0] * 8]])
ORDER = [0, 1, 0]
RESET = np.zeros_like(CURVE)


def test_every_metric_by_hand() -> None:
    measured = continual_metrics(CURVE, ORDER, lower=False, baseline=RESET)
    assert measured.performance == pytest.approx([CURVE.mean()])
    assert measured.jumpstart == pytest.approx([(0.0 + 0.5) / 2])
    # The final level of both tasks is 1. Means of five episodes reach 0.9 after episode 9 of the second segment (no 0 among
    # them) and 6 of the third (one 0.5).
    assert measured.recovery == pytest.approx([(9 + 6) / 2])
    assert measured.forgetting == pytest.approx([1.0 - 0.5])  # task 0 was left at 1 and comes back at 0.5
    assert measured.transfer == pytest.approx([(CURVE[0, 10:20].mean() + CURVE[0, 20:].mean()) / 2])


def test_signs_turn_for_errors() -> None:
    """The same story told as an error, 1 − return, has the same forgetting and transfer."""
    told_as_return = continual_metrics(CURVE, ORDER, lower=False, baseline=RESET)
    told_as_error = continual_metrics(1 - CURVE, ORDER, lower=True, baseline=1 - RESET)
    assert told_as_error.forgetting == pytest.approx(told_as_return.forgetting)
    assert told_as_error.transfer == pytest.approx(told_as_return.transfer)


def test_what_cannot_be_said_is_none() -> None:
    one_segment = continual_metrics(CURVE[:, :10], [0], lower=False, baseline=None).estimates()
    assert one_segment["performance"] is not None
    assert all(one_segment[name] is None for name in ("jumpstart", "recovery", "forgetting", "transfer"))
    never_back = continual_metrics(CURVE[:, :20], [0, 1], lower=False, baseline=None).estimates()
    assert never_back["forgetting"] is None


def test_a_segment_that_never_recovers_counts_in_full() -> None:
    curve = np.array([[0.0] * 10 + [0.0, 5.0] * 5])  # its five-episode mean never comes near its final level of 5
    assert continual_metrics(curve, [0, 1], lower=False, baseline=None).recovery == pytest.approx([10])


def test_an_agent_that_never_earns_anything_never_recovers() -> None:
    """The level is the best contender's: 1. Half of it is not enough, more than it is."""
    curves = {"idle": [0.0] * 20, "half": [0.5] * 20, "good": [0.0] * 13 + [1.0] * 7, "better": [1.0] * 10 + [2.0] * 10}
    three = recovery({name: curves[name] for name in ("idle", "half", "good")})
    assert three == {"idle": 10, "half": 10, "good": 8}  # episodes 4 to 8 of the segment are the first five of 1
    assert recovery(curves) == {"idle": 10, "half": 10, "good": 10, "better": 5}


def recovery(curves: dict[str, list[float]], metric: str = "return") -> dict[str, float]:
    """Episodes to recover of one seed, two segments of ten episodes."""
    return {name: one.recovery.item() for name, one in of_run(in_memory(curves, metric=metric), metric).items()}


def test_better_than_the_level_is_recovered_for_errors_too() -> None:
    curves = {
        "settled": [1.0] * 20,
        "below at once": [1.0] * 10 + [0.5] * 5 + [1.5] * 5,
        "above": [1.0] * 10 + [2.0] * 10,
    }
    assert recovery(curves, "rmsve_current") == {"settled": 5, "below at once": 5, "above": 10}


def test_where_the_optimum_is_measured_it_is_the_level() -> None:
    """Both stay at 1. Without regret that is the best level; with it, the optimum is 2, which none reaches."""
    curves = {"A": [1.0] * 20, "B": [1.0] * 20}
    alone = in_memory(curves, metric="discounted_return")
    assert of_run(alone, "discounted_return")["A"].recovery.item() == 5
    rows = alone.curves.with_columns(metric=pl.lit("regret"), value=pl.lit(1.0))
    measured = dataclasses.replace(alone, curves=pl.concat([alone.curves, rows]))
    assert of_run(measured, "discounted_return")["A"].recovery.item() == 10


def test_the_optimum_of_a_task_that_returns_is_its_mean() -> None:
    """Tasks 0 1 0 with the optima 1, 2 and 1; agents whose return is 1 less are never near it, of the same task too."""
    best = np.repeat([1.0, 2.0, 1.0], 10)
    results = in_memory({"best": best.tolist(), "worse": (best - 1).tolist()}, metric="discounted_return", order=ORDER)
    regret = results.curves.with_columns(
        metric=pl.lit("regret"), value=pl.when(pl.col("lane") == 0).then(0.0).otherwise(1.0)
    )
    measured = dataclasses.replace(results, curves=pl.concat([results.curves, regret]))
    found = {name: one.recovery.item() for name, one in of_run(measured, "discounted_return").items()}
    assert found == {"best": 5, "worse": 10}


def test_controls_set_no_level() -> None:
    """A control of ours reaches 2: A, which stays at 1, recovers all the same. It would not if the control counted."""
    curves = {"A": [1.0] * 20, "A without consolidation": [2.0] * 20, "B": [1.0] * 20}
    assert recovery(curves) == {"A": 5, "A without consolidation": 5, "B": 5}
    assert recovery({name: curves[name] for name in ("A without consolidation",)}) == {"A without consolidation": 5}


def test_the_final_level_is_the_last_tenth_of_a_segment() -> None:
    """Of 40 windows the last four; of six windows the last one. Of two contenders the better, for each task."""
    rising = np.array([[0.0] * 36 + [1.0, 2.0, 3.0, 6.0]])
    assert best_final_levels([(rising, np.array([[7]]))], lower=False) == {7: 3.0}
    short = np.array([[0.0] * 5 + [1.0] + [0.0] * 5 + [5.0]])
    order = np.array([[0, 1]])
    assert best_final_levels([(short, order)], lower=False) == {0: 1.0, 1: 5.0}
    other = np.full((1, 12), 2.0)
    assert best_final_levels([(short, order), (other, order)], lower=False) == {0: 2.0, 1: 5.0}
    assert best_final_levels([(short, order), (other, order)], lower=True) == {0: 1.0, 1: 2.0}


def test_a_switch_that_keeps_the_task_is_no_switch() -> None:
    """Two seeds draw 0 0 1 0 and 0 1 1 1, in segments of two episodes; only the first comes back to a task."""
    order = np.array([[0, 0, 1, 0], [0, 1, 1, 1]])
    curves = np.array([[1.0, 2, 30, 4, 5, 6, 1, 8], [1.0, 2, 3, 4, 50, 6, 70, 8]])
    measured = continual_metrics(curves, order, lower=False, baseline=np.zeros((2, 8)))
    np.testing.assert_array_equal(measured.jumpstart, [(5 + 1) / 2, 3])
    np.testing.assert_array_equal(measured.transfer, [(5.5 + 4.5) / 2, 3.5])
    np.testing.assert_array_equal(measured.forgetting, [4 - 1, np.nan])  # left at the end of the second segment
    estimate = measured.estimates()["forgetting"]
    assert estimate is not None
    assert estimate.mean == 3
    assert np.isnan(estimate.low)  # of one seed


def test_recorded_tasks_are_read_where_each_seed_draws_its_own() -> None:
    results = in_memory({"A": [1.0, 2, 3, 4], "B": [1.0, 2, 3, 4]}, order=[None, None], tasks=[0.0, 0.0, 1.0, 1.0])
    assert results.tasks("A").tolist() == [[0, 1]]
    assert results.switched("A").tolist() == [[False, True]]
    kept = in_memory({"A": [1.0, 2, 3, 4]}, order=[None, None], tasks=[1.0] * 4)
    assert kept.switched("A").tolist() == [[False, False]]
    assert of_run(kept, "return")["A"].estimates()["jumpstart"] is None
    old = in_memory({"A": [1.0, 2, 3, 4]}, order=[None, None])  # recorded without tasks
    assert of_run(old, "return")["A"].jumpstart.tolist() == [3.0]
    assert old.switches == [2]
    assert in_memory({"A": [1.0] * 6}, order=[0, 0, 1]).switches == [4]


def test_a_window_without_a_value_is_refused() -> None:
    holed = CURVE.copy()
    holed[0, 3] = np.nan
    with pytest.raises(UserError, match="the curves has 1 of 30 values that are NaN"):
        continual_metrics(holed, ORDER, lower=False, baseline=None)
    with pytest.raises(UserError, match="1 of 1 curves of A have windows in which return is NaN"):
        of_run(in_memory({"A": [1.0, np.nan]}), "return")
    with pytest.raises(UserError, match="in which return is NaN"):
        summarise(in_memory({"A": [1.0, np.nan]}))


def in_memory(
    curves: dict[str, list[float]],
    order: Sequence[int | None] = (0, 1),
    metric: str = "return",
    tasks: list[float] | None = None,
) -> Results:
    """A run of one seed. `tasks`: the curve that holds the task of each window."""
    measured = {metric: curves, **({"task": dict.fromkeys(curves, tasks)} if tasks else {})}
    rows = [
        (lane, window + 1, what, value)
        for what, by_name in measured.items()
        for lane, values in enumerate(by_name.values())
        for window, value in enumerate(values)
    ]
    lanes = {"lane": range(len(curves)), "contender": list(curves), "seed": 0, "diverged": False, "samples_dropped": 0}
    length = len(next(iter(curves.values()))) // len(order)
    description = {
        "stream": {"order": list(order), "segment_length": {"episodes": length}},
        "contenders": {name: {"hypers": {}} for name in curves},
        "seeds": [0],
    }
    table = pl.DataFrame(rows, schema=["lane", "window", "metric", "value"], orient="row")
    return Results(None, description, pl.DataFrame(lanes), table)


def test_transfer_is_over_the_reset_contender_of_the_same_family() -> None:
    levels = {
        "Q-reset": 1.0,
        "DQN-reset": 10.0,
        "Q": 2.0,
        "PT-Q k=1 decay=0.1": 3.0,
        "DQN": 14.0,
        "DQN-multihead": 15.0,
        "PT-DQN": 16.0,
        "PT-DQN λ=0.55": 17.0,
        "PT-DQN-1x": 18.0,
        "TD": 20.0,
        "Random": 30.0,
    }
    transfer = {
        name: measured.transfer
        for name, measured in of_run(
            in_memory({name: [0.0, level] for name, level in levels.items()}), "return"
        ).items()
    }
    assert {name: None if values is None else values.tolist() for name, values in transfer.items()} == {
        "Q-reset": None,
        "DQN-reset": None,
        "Q": [1],
        "PT-Q k=1 decay=0.1": [2],
        "DQN": [4],
        "DQN-multihead": [5],
        "PT-DQN": [6],
        "PT-DQN λ=0.55": [7],
        "PT-DQN-1x": [8],
        "TD": None,
        "Random": None,
    }


def test_the_direction_is_the_metrics() -> None:
    """Three less than the reset contender: a gain of an error, a loss of a return."""
    levels = {"TD": 2.0, "TD-reset": 5.0}
    curves = {name: [0.0, level] for name, level in levels.items()}
    gain = {
        metric: of_run(in_memory(curves, metric=metric), metric)["TD"].transfer
        for metric in ("rmsve_current", "return")
    }
    assert {metric: None if values is None else values.tolist() for metric, values in gain.items()} == {
        "rmsve_current": [3],
        "return": [-3],
    }
