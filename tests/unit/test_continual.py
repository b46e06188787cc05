"""Continual-learning metrics on curves made by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from remanence.results.continual import continual_metrics, of_run
from remanence.results.store import Results

# Three segments of ten episodes, tasks 0, 1, 0; one seed. A return: higher is better.
CURVE = np.array([[*np.linspace(0.1, 1.0, 10), *[0.0] * 4, *[1.0] * 6, *[0.5] * 2, *[1.0] * 8]])
ORDER = [0, 1, 0]
RESET = np.zeros_like(CURVE)


def test_every_metric_by_hand() -> None:
    measured = continual_metrics(CURVE, ORDER, lower=False, baseline=RESET)
    assert measured.performance == pytest.approx([CURVE.mean()])
    assert measured.jumpstart == pytest.approx([(0.0 + 0.5) / 2])
    # Means of five episodes reach 0.9 after episode 9 of the second segment (no 0 among them) and 6 of the third (one 0.5).
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


def run_of(metric: str, levels: dict[str, float]) -> Results:
    """Two segments of one window, one seed: the first is 0, the second at the given level."""
    names = list(levels)
    lanes = pl.DataFrame({"lane": range(len(names)), "contender": names, "seed": 0, "diverged": False})
    rows = [
        (lane, window, metric, value)
        for lane, name in enumerate(names)
        for window, value in ((1, 0.0), (2, levels[name]))
    ]
    curves = pl.DataFrame(rows, schema=["lane", "window", "metric", "value"], orient="row")
    stream = {"order": [0, 1], "segment_length": {"episodes": 1}}
    return Results(None, {"stream": stream, "contenders": dict.fromkeys(names), "seeds": [0]}, lanes, curves)


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
    transfer = {name: measured.transfer for name, measured in of_run(run_of("return", levels), "return").items()}
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
    gain = {metric: of_run(run_of(metric, levels), metric)["TD"].transfer for metric in ("rmsve_current", "return")}
    assert {metric: None if values is None else values.tolist() for metric, values in gain.items()} == {
        "rmsve_current": [3],
        "return": [-3],
    }
