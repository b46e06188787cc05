"""Continual-learning metrics on curves made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from remanence.results.continual import continual_metrics, lower_is_better

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
    assert lower_is_better("rmsve_current")
    assert lower_is_better("regret")
    assert not lower_is_better("return")


def test_what_cannot_be_said_is_none() -> None:
    one_segment = continual_metrics(CURVE[:, :10], [0], lower=False, baseline=None).estimates()
    assert one_segment["performance"] is not None
    assert all(one_segment[name] is None for name in ("jumpstart", "recovery", "forgetting", "transfer"))
    never_back = continual_metrics(CURVE[:, :20], [0, 1], lower=False, baseline=None).estimates()
    assert never_back["forgetting"] is None


def test_a_segment_that_never_recovers_counts_in_full() -> None:
    curve = np.array([[0.0] * 10 + [0.0, 5.0] * 5])  # its five-episode mean never comes near its final level of 5
    assert continual_metrics(curve, [0, 1], lower=False, baseline=None).recovery == pytest.approx([10])
