"""The split of PT's gain into forgetting and remembering, and the collapse of k and λ to one lifetime."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from made_up import made_up_run, scattered
from remanence.experiments import REGISTRY
from remanence.report.panels.lifetime import lifetime_panel
from remanence.results.collapse import Cell, between, collapse, explained, predicted
from remanence.results.continual import of_run
from remanence.results.gains import CONTROL_SUFFIX, gains, learner_of
from remanence.theory.shares import mean_lifetime


def run(metric: str, **means: float):
    curves = {name: scattered(np.full(100, mean), 0.1, 6, n) for n, (name, mean) in enumerate(means.items())}
    return made_up_run(curves, metric)


def test_a_gain_is_split_by_the_control() -> None:
    means = {"Q": 1.0, "PT-Q k=1": 1.5, "PT-Q k=1" + CONTROL_SUFFIX: 1.2, "PT-Q k=5": 2.0, "Q-reset": 0.1}
    (one,) = gains(run("discounted_return", **means), "discounted_return")
    assert (one.agent, one.learner, one.seeds) == ("PT-Q k=1", "Q", 6)
    assert one.forgetting.mean == pytest.approx(0.2)
    assert one.remembering.mean == pytest.approx(0.3)
    assert one.total.mean == pytest.approx(0.5)
    assert one.forgetting.low < 0.2 < one.forgetting.high
    assert one.to_json()["total"][0] == pytest.approx(0.5)


def test_a_variant_without_a_control_of_its_own_has_that_of_its_form() -> None:
    means = {"Q": 1.0, "PT-Q": 1.5, "PT-Q by shares": 2.0, "PT-Q" + CONTROL_SUFFIX: 1.2}
    found = gains(run("discounted_return", **means), "discounted_return")
    assert {one.agent: one.remembering.mean for one in found} == {
        "PT-Q": pytest.approx(0.3),
        "PT-Q by shares": pytest.approx(0.8),
    }


def test_of_an_error_a_gain_is_what_it_falls_by() -> None:
    means = {"TD": 1.0, "PT-TD": 0.5, "PT-TD" + CONTROL_SUFFIX: 0.8}
    (one,) = gains(run("rmsve_current", **means), "rmsve_current")
    assert one.forgetting.mean == pytest.approx(0.2)
    assert one.remembering.mean == pytest.approx(0.3)


def test_seeds_in_which_one_of_the_three_diverged_are_left_out() -> None:
    results = run("discounted_return", **{"Q": 1.0, "PT-Q": 1.5, "PT-Q" + CONTROL_SUFFIX: 1.2})
    lost = (pl.col("contender") == "Q") & (pl.col("seed") == 2)
    lanes = results.lanes.with_columns(diverged=lost)
    (one,) = gains(dataclasses.replace(results, lanes=lanes), "discounted_return")
    assert one.seeds == 5


def test_the_learner_of_an_agent() -> None:
    assert [learner_of(name) for name in ("PT-Q k=5 decay=0.5", "PT-DQN", "PT-DQN-1x", "Q")] == ["Q", "DQN", "DQN", ""]


@pytest.mark.parametrize("name", ["figure3/tabular", "figure3/rooms", "figure4"])
def test_every_pt_agent_has_a_control_that_differs_in_nothing_else(name: str) -> None:
    contenders = REGISTRY[name].plan("paper").contenders
    agents = [one for one in contenders if one.startswith("PT-") and not one.endswith(CONTROL_SUFFIX)]
    assert len(agents) == (25 if name == "figure4" else 1)
    for one in agents:
        control = contenders[one + CONTROL_SUFFIX].config
        assert control == dataclasses.replace(contenders[one].config, permanent_lr=0.0)  # type: ignore[type-var]
        assert not contenders[one + CONTROL_SUFFIX].search  # sweeps are those of the paper


def test_a_control_sets_no_level_of_recovery() -> None:
    """What others recover to must not depend on a control that the paper does not have."""
    curve = np.concatenate([np.linspace(0, 1, 50)] * 2)
    curves = {"Q": scattered(curve, 1e-3), "PT-Q": scattered(curve, 1e-3)}
    alone = of_run(made_up_run(curves, "return"), "return")["Q"].recovery
    control = {"PT-Q" + CONTROL_SUFFIX: scattered(2 * curve, 1e-3)}
    np.testing.assert_array_equal(of_run(made_up_run(curves | control, "return"), "return")["Q"].recovery, alone)


INTERVALS, DECAYS = (1, 5, 10, 25, 100), (0.1, 0.3, 0.5, 0.7, 0.9)


def cells() -> list[Cell]:
    return [Cell(k, decay, mean_lifetime(k, decay)) for k in INTERVALS for decay in DECAYS]


def test_cells_on_one_curve_collapse() -> None:
    log_tau = np.log([cell.lifetime for cell in cells()])
    noise = 0.01 * np.random.default_rng(0).normal(size=(len(log_tau), 20))
    found = collapse(cells(), (-((log_tau - np.log(20)) ** 2))[:, None] + noise, lower=False)
    assert found.by_lifetime.mean > 0.999
    assert found.held_out.mean > 0.999
    assert found.ceiling > 0.999
    assert found.by_decay.mean < 0.5
    assert found.by_interval.mean < 0.9
    assert found.best.low <= found.best.mean <= found.best.high
    assert found.best.mean == pytest.approx(20, rel=0.02)
    np.testing.assert_allclose(found.at(np.array([20.0])), 0.0, atol=0.02)
    assert collapse(cells(), ((log_tau - np.log(20)) ** 2)[:, None] + noise, lower=True).best.mean == pytest.approx(
        20, rel=0.02
    )


def test_cells_that_k_tells_apart_do_not() -> None:
    samples = np.array([[np.log(cell.k)] * 3 for cell in cells()]) + 0.01 * np.random.default_rng(0).normal(
        size=(25, 3)
    )
    found = collapse(cells(), samples, lower=False)
    assert found.by_interval.mean > 0.99 > 0.9 > found.by_lifetime.mean > found.held_out.mean


def test_a_panel_draws_all_cells_and_says_which_its_curve_is_fitted_to() -> None:
    all_cells = cells()
    log_tau = np.log([cell.lifetime for cell in all_cells])
    mean = np.where(
        [cell.k == 100 for cell in all_cells], -5.0, -((log_tau - np.log(20)) ** 2)
    )  # k = 100 lies off the curve
    samples = mean[:, None] + 0.01 * np.random.default_rng(0).normal(size=(25, 20))
    drawn = lifetime_panel(all_cells, samples, "discounted_return", "", 50, ("Q", 0.0), fitted_to=25).to_dict()
    assert drawn["title"]["subtitle"][1].startswith("fitted to k ≤ 25 only, it explains 100% of the variance")
    drawn_cells = [layer for layer in drawn["layer"] if layer["mark"]["type"] == "point"]
    assert [len(drawn["datasets"][layer["data"]["name"]]) for layer in drawn_cells] == [25]
    drawn = lifetime_panel(all_cells, samples, "discounted_return", "", 50, ("Q", 0.0)).to_dict()
    assert "fitted to" not in drawn["title"]["subtitle"][1]


def test_shares_of_variance() -> None:
    groups, y = np.array([0, 0, 1, 1]), np.array([0.0, 2.0, 4.0, 6.0])
    assert between(groups, y) == pytest.approx(16 / 20)
    assert between(groups, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(1.0)
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert explained(x, x**3) == pytest.approx(1.0)
    assert explained(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])) == pytest.approx(0.8)  # two levels
    # The group at 10 lies outside of what the other covers: it is not predicted.
    far = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 2.5, 10.0])
    y = far**3
    y[-1] = -1e6
    assert predicted(far, y, np.array([0, 0, 0, 0, 0, 1, 1])) <= 1.0
