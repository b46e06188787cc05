"""Theorems 1, 7 and 8, judged by whole learning curves, exact and simulated."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import random_process
from remanence.theory import (
    RewardProcess,
    common_values,
    error_bounds,
    exact_forgetting_times,
    forgetting_times,
    retention_errors,
)
from remanence.theory.forgetting import mean_path_step_size
from remanence.theory.moments import learning_curve
from remanence.theory.simulation import simulate_rounds
from remanence.theory.task_diameter import task_diameter_process

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_theorem_1_pt_from_zero_equals_td_from_the_permanent_values(seed: int) -> None:
    process = random_process(seed)
    permanent = np.random.default_rng(seed).normal(size=process.num_states)
    common = {"step_size": 0.2, "rounds": 200, "samples": 1, "runs": 3, "seed": seed % 1000}
    td = simulate_rounds(process, 1, transient=permanent, **common)[200]
    pt = simulate_rounds(process, 1, permanent=permanent, **common)[200]
    np.testing.assert_allclose(pt, td, atol=1e-12)
    assert np.ptp(td, axis=0).min() > 0  # runs differ: something was learned from samples


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_theorem_7_the_bound_on_the_forgetting_time_holds(seed: int) -> None:
    """From k_i on, V^P is the better estimate of task i along TD's mean path. The bound is loose: at least twice too long."""
    rng = np.random.default_rng(seed)
    process = RewardProcess(rng.dirichlet(np.full(4, 5.0), size=4), rng.normal(size=(3, 4)), 0.3)
    times = forgetting_times(process)
    assert np.isfinite(times).all()
    exact = exact_forgetting_times(process, horizon=int(np.ceil(times.max())) + 50, mean_path=True)
    assert (exact <= np.ceil(times)).all()
    assert (exact >= 1).all()
    assert (exact < times / 2).all()


def test_theorem_7_as_printed_is_too_optimistic() -> None:
    """The paper's own process: the printed k_0 says 15 steps, the exact mean path needs 583."""
    process = task_diameter_process(1.0)
    printed = forgetting_times(process, printed=True)
    exact = exact_forgetting_times(process, horizon=2000, mean_path=True)
    assert (printed < 20).all()
    assert (exact > 10 * printed).all()
    curve = learning_curve(process, mean_path_step_size(process.discount), 20, start=process.values)
    errors = process.expect(((curve.mean - process.values[None, :, None]) ** 2).sum(axis=-1))
    assert (errors[:, 20] < retention_errors(process, common_values(process))).all()


@given(seed=SEEDS, own_chains=st.booleans())
@settings(max_examples=15, deadline=None)
def test_theorem_8_bounds_hold_and_pt_has_the_lower_one(seed: int, own_chains: bool) -> None:
    process = random_process(seed, own_chains=own_chains)
    steps = np.arange(201)
    of_td, of_pt = error_bounds(process, steps)
    assert (of_pt <= of_td + 1e-12).all()
    starts = np.concatenate([process.values, common_values(process)[None]])
    curve = learning_curve(process, mean_path_step_size(process.discount), 200, start=starts)
    errors = process.expect((curve.bias**2).sum(axis=-1))
    bounds = np.concatenate([of_td, of_pt[None]])
    assert (errors <= bounds * (1 + 1e-9)).all()
    np.testing.assert_allclose(errors[:, 0], bounds[:, 0])  # tight at the switch
