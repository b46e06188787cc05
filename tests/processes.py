"""Random reward processes."""

from __future__ import annotations

import numpy as np

from remanence.theory import RewardProcess


def random_process(seed: int, tasks: int = 3, own_chains: bool = False, noise: float = 0.1) -> RewardProcess:
    """Three to six states, each followed by all with some chance; values of order one."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(3, 7))
    shape = (tasks, states) if own_chains else (states,)
    transitions = 0.9 * rng.dirichlet(np.full(states, 0.5), size=shape) + 0.1 / states
    discount = float(rng.uniform(0.2, 0.95))
    return RewardProcess(
        transitions,
        rng.normal(size=(tasks, states)),
        discount,
        rng.dirichlet(np.ones(tasks)),
        noise * rng.random(states),
    )
