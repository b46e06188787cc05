"""Predictions reach the true values of a small grid."""

from __future__ import annotations

import numpy as np

from conftest import GRID, TASKS, TD, brute_force_values
from remanence.agents import Hypers
from remanence.core.types import Episodes
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import value_maps
from remanence.streams import Stream


def test_td_finds_the_true_values() -> None:
    """In one lasting task, with a small step size, the mean estimate of many lives reaches the Bellman solution."""
    task = Stream(TASKS[2:3], (0,), Episodes(8_000), boundaries_known=True)
    program = Driver(LifeConfig(TD, GRID, task, value_maps(TD, np.arange(25))))
    believed = program.run([Hypers(lr=0.02)] * 16, range(16)).record["value"][..., 0]  # [lanes, episodes, states]
    learned = believed[:, 3_000:].mean(axis=(0, 1))
    np.testing.assert_allclose(learned, brute_force_values(TASKS[2], GRID.discount), atol=0.01)
    assert np.abs(believed[:, 0].mean(axis=0) - learned).max() > 0.3  # it had something to learn
