"""What is measured, by hand and against NumPy."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from remanence.agents import Agent
from remanence.engine.life import ProbeInput
from remanence.engine.parts import begin
from remanence.engine.probes import value_error, value_maps
from remanence.worlds.true_values import Truth


def believer(*parts: str) -> Agent:
    """An agent whose state is what it believes: {part: [points]}; observations are point numbers."""

    def never(*_: object) -> Array:
        raise AssertionError("a probe only inspects")

    return Agent(
        never, never, never, never, inspect=lambda state, obs: {part: state[part][obs][None] for part in parts}
    )


def at(task: int, **beliefs: list[float] | np.ndarray) -> ProbeInput:
    state = {part: jnp.asarray(belief, jnp.float32) for part, belief in beliefs.items()}
    return ProbeInput(state, jnp.int32(task), window=None)  # type: ignore[arg-type]


TRUTH = Truth(
    points=np.arange(2),
    values=np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]),
    weights=np.array([0.25, 0.75]),
    final=np.array([False, False]),
)


def test_errors_of_one_value_function_by_hand() -> None:
    """Task 1, v = (2, 4): squared errors (4, 4); others: task 0 (1, 16), task 2 (1, 0)."""
    measured = jax.jit(value_error(believer("value"), TRUTH))(at(1, value=[2, 4]))
    assert {name: float(number) for name, number in measured.items()} == {
        "rmsve_current": 2,
        "rmsve_current_unweighted": 2,
        "rmsve_others": pytest.approx((np.sqrt(17 / 2) + np.sqrt(1 / 2)) / 2),
        "mse_others": pytest.approx((17 / 2 + 1 / 2) / 2),
    }


def test_current_error_weighs_points() -> None:
    """Task 0, v = (3, 0): only the first point is wrong, by 2. Weighted √(0.25 · 4) = 1, unweighted √(4 / 2)."""
    measured = jax.jit(value_error(believer("value"), TRUTH))(at(0, value=[3, 0]))
    assert float(measured["rmsve_current"]) == 1
    assert float(measured["rmsve_current_unweighted"]) == pytest.approx(np.sqrt(2))


def test_other_tasks_judge_the_permanent_part_alone() -> None:
    """Task 2, value perfect, permanent (1, 1): others are task 0 (0, 1) and task 1 (1, 1)."""
    measured = jax.jit(value_error(believer("value", "permanent"), TRUTH))(at(2, value=[3, 4], permanent=[1, 1]))
    assert float(measured["rmsve_current"]) == 0
    assert float(measured["mse_others"]) == pytest.approx((0.5 + 1) / 2)
    assert float(measured["rmsve_others"]) == pytest.approx((np.sqrt(0.5) + 1) / 2)


def test_final_points_count_without_error() -> None:
    """As `test_errors_of_one_value_function_by_hand`, but episodes end in the second point: only its share of the mean is left."""
    ends = dataclasses.replace(TRUTH, final=np.array([False, True]))
    measured = jax.jit(value_error(believer("value"), ends))(at(1, value=[2, 4]))
    assert {name: float(number) for name, number in measured.items()} == {
        "rmsve_current": pytest.approx(np.sqrt(0.25 * 4)),
        "rmsve_current_unweighted": pytest.approx(np.sqrt(4 / 2)),
        "rmsve_others": pytest.approx(np.sqrt(1 / 2)),
        "mse_others": pytest.approx(1 / 2),
    }


@pytest.mark.parametrize("points", [1, 25, 32, 33, 213])
def test_errors_against_numpy(points: int) -> None:
    """Any number of points, also around the length at which the sum over points is unrolled."""
    rng = np.random.default_rng(points)
    value, permanent = rng.normal(size=(2, points))
    weights = rng.random(points)
    final = np.arange(points) % 7 == 3
    truth = Truth(np.arange(points), rng.normal(size=(4, points)), weights / weights.sum(), final)
    probe = jax.jit(value_error(believer("value", "permanent"), truth))
    for task in (0, 3):
        measured = probe(at(task, value=value, permanent=permanent))
        squared = ~final * (value - truth.values[task]) ** 2
        others = np.delete(~final * (permanent - truth.values) ** 2, task, axis=0).mean(axis=1)
        expected = {
            "rmsve_current": np.sqrt(truth.weights @ squared),
            "rmsve_current_unweighted": np.sqrt(squared.mean()),
            "rmsve_others": np.sqrt(others).mean(),
            "mse_others": others.mean(),
        }
        assert {name: float(number) for name, number in measured.items()} == pytest.approx(expected, rel=1e-5)


def test_where_parts_are_watched_the_permanent_one_is_compared_with_the_mean_over_tasks() -> None:
    """The mean of the three tasks is (4/3, 2); V^P = (1/3, 5) is 1 and 3 away, the final point counts without error."""
    truth = dataclasses.replace(TRUTH, final=np.array([True, False]))
    probe_input = at(0, value=[0, 0], permanent=[1 / 3, 5])._replace(parts=begin(None))
    for one, distance in ((TRUTH, np.sqrt((1 + 9) / 2)), (truth, np.sqrt(9 / 2))):
        measured = value_error(believer("value", "permanent"), one)(probe_input)
        assert float(measured["rmsve_permanent"]) == pytest.approx(distance)


def test_maps_show_every_part_at_the_given_points() -> None:
    probe = value_maps(believer("value", "transient"), np.array([2, 0]))
    maps = probe(at(0, value=[1, 2, 3], transient=[4, 5, 6]))
    assert {part: values.tolist() for part, values in maps.items()} == {"value": [[3], [1]], "transient": [[6], [4]]}
