"""What the tests of Jelly Bean World share: the recorded traces, quick rules, and a walk."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from remanence.worlds.jellybean import preset

TRACES = sorted((Path(__file__).parent / "data" / "jbw").glob("*.npz"))
UP, LEFT, RIGHT, DOWN = range(4)
QUICK = dataclasses.replace(preset("released"), iterations=50)  # where only the bookkeeping matters


def wandering(steps: int, lanes: int, seed: int = 0) -> np.ndarray:
    """[steps, lanes] actions that change now and then, so that agents get far."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, 4, (steps // 20 + 1, lanes)), 20, axis=0)[:steps].astype(np.int8)
