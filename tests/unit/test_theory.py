"""Theorems 1 to 8 on random processes, hand-worked numbers, and what must be refused."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from processes import random_process
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.report.panels.theory import in_markdown, summary_table, theorem_table
from remanence.theory import (
    RewardProcess,
    common_values,
    contraction,
    error_bounds,
    exact_forgetting_times,
    forgetting_times,
    jumpstart_loss,
    linear_fixed_point,
    linear_transient_fixed_point,
    load_process,
    modified_process,
    permanent_moments,
    projection,
    retention_errors,
    state_values,
    stationary_distribution,
    task_distances,
    transient_fixed_point,
    transient_operator,
)
from remanence.theory.checks import Check
from remanence.theory.forgetting import mean_path_step_size
from remanence.theory.moments import learning_curve
from remanence.theory.simulation import simulate_rounds
from remanence.theory.task_diameter import PRINTED_TRANSITIONS, equidistant_values, task_diameter_process

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
def test_theorem_2_the_transient_target_contracts(seed: int) -> None:
    """Never more than γ; and γ is reached, by vectors that differ by the same amount everywhere."""
    process, rng = random_process(seed), np.random.default_rng(seed)
    permanent, left, right = rng.normal(size=(3, 50, process.num_states))
    arguments = (process.transitions[0], process.rewards[0], process.discount, permanent)
    moved = np.abs(transient_operator(*arguments, left) - transient_operator(*arguments, right)).max(axis=1)
    assert (moved <= process.discount * np.abs(left - right).max(axis=1) + 1e-12).all()
    shifted = transient_operator(*arguments, left + 2.0) - transient_operator(*arguments, left)
    np.testing.assert_allclose(shifted, 2 * process.discount, atol=1e-12)


@given(seed=SEEDS)
def test_theorem_3_repeated_targets_reach_what_the_permanent_part_lacks(seed: int) -> None:
    process, rng = random_process(seed), np.random.default_rng(seed)
    permanent = rng.normal(size=process.num_states)
    arguments = (process.transitions[0], process.rewards[0], process.discount, permanent)
    transient = rng.normal(size=process.num_states)
    for _ in range(800):
        transient = transient_operator(*arguments, transient)
    np.testing.assert_allclose(transient, transient_fixed_point(*arguments), atol=1e-9)
    np.testing.assert_allclose(transient + permanent, process.values[0], atol=1e-9)


@given(seed=SEEDS, actions=st.integers(1, 3))
def test_theorem_4_values_of_the_modified_process(seed: int, actions: int) -> None:
    """Each triple's value is r(s, a) + γ v(s') − V^P(s); only their mean over (a, s') is the transient fixed point."""
    rng = np.random.default_rng(seed)
    states, discount = 4, 0.8
    transitions = rng.dirichlet(np.full(states, 0.4), size=(states, actions))
    rewards, policy = rng.normal(size=(states, actions)), rng.dirichlet(np.ones(actions), size=states)
    permanent = rng.normal(size=states)
    modified = modified_process(transitions, rewards, policy, discount, permanent)
    np.testing.assert_allclose(modified.transitions.sum(axis=1), 1.0)
    values = np.linalg.solve(np.eye(len(modified.rewards)) - discount * modified.transitions, modified.rewards)

    mixed, paid = np.einsum("sa,san->sn", policy, transitions), (policy * rewards).sum(axis=1)
    original = state_values(mixed, paid, discount)
    s, a, following = modified.members.T
    np.testing.assert_allclose(values, rewards[s, a] + discount * original[following] - permanent[s], atol=1e-9)
    fixed = transient_fixed_point(mixed, paid, discount, permanent)
    np.testing.assert_allclose(modified.mean_by_state(values, states), fixed, atol=1e-9)
    assert np.abs(values - fixed[s]).max() > 1e-3  # the printed "same for all a and s'" does not hold


@given(seed=SEEDS, own_chains=st.booleans())
@settings(max_examples=25, deadline=None)
def test_theorem_5_the_permanent_part_settles_at_the_mean_of_tasks(seed: int, own_chains: bool) -> None:
    """Exact moments of the update against 4000 sequences of tasks, and the law that α = 1/k leaves of them."""
    process, rng = random_process(seed, own_chains=own_chains), np.random.default_rng(seed)
    start, steps = rng.normal(size=process.num_states), np.array([0.5, 0.3, 0.9, 0.2])
    moments = permanent_moments(process, steps, start)
    met = rng.choice(process.num_tasks, p=process.probabilities, size=(4000, len(steps)))
    estimate = np.broadcast_to(start, (4000, process.num_states))
    for step, task in zip(steps, met.T, strict=True):
        estimate = estimate + step * (process.values[task] - estimate)
    error = np.sqrt(np.diagonal(moments.covariance[-1]) / 4000)
    assert (np.abs(estimate.mean(axis=0) - moments.mean[-1]) <= 5 * error + 1e-12).all()
    np.testing.assert_allclose(np.cov(estimate.T), moments.covariance[-1], atol=0.15 * np.trace(moments.covariance[-1]))

    running = permanent_moments(process, 1.0 / np.arange(1, 2001), start)
    np.testing.assert_allclose(
        running.mean[1:], np.broadcast_to(common_values(process), running.mean[1:].shape), atol=1e-9
    )
    np.testing.assert_allclose(running.covariance[2000] * 2000, running.covariance[1], atol=1e-9)


@given(seed=SEEDS)
def test_theorem_6_the_mean_of_tasks_is_the_best_jumpstart(seed: int) -> None:
    process, rng = random_process(seed), np.random.default_rng(seed)
    centre = common_values(process)
    others = centre + rng.normal(size=(100, process.num_states))
    by_hand = 0.5 * sum(
        chance * ((others - values) ** 2).sum(axis=1)
        for chance, values in zip(process.probabilities, process.values, strict=True)
    )
    np.testing.assert_allclose(jumpstart_loss(process, others), by_hand)
    assert (jumpstart_loss(process, others) > jumpstart_loss(process, centre)).all()


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


def test_forgetting_times_by_hand() -> None:
    """Two states that stay where they are half of the time, γ = 0: values are rewards, ω = 1/2, C = exp(−1/8).

    Tasks (1, 1) and (−1, −1), equally likely: V^P = 0, D = 2, E Δ = ½ · 8 = 4, so √(D / E Δ) = √½ and
    k = 2 log(1 − √½) / (−1/8) = 16 · 1.22794…
    """
    process = RewardProcess(np.full((2, 2), 0.5), np.array([[1, 1], [-1, -1]]), 0.0)
    assert contraction(process) == pytest.approx(np.exp(-1 / 8))
    np.testing.assert_allclose(task_distances(process), 4)
    np.testing.assert_allclose(forgetting_times(process), -16 * np.log(1 - np.sqrt(0.5)))
    np.testing.assert_allclose(forgetting_times(process, printed=True), np.log(0.5) / -0.25)
    assert np.isinf(forgetting_times(process, permanent=np.array([5.0, 5.0]))).all()  # too far from both


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


@given(seed=SEEDS)
def test_linear_features(seed: int) -> None:
    """Theorems 2 and 3 with features: a contraction in the norm weighted by d; the sum of both parts is TD's fixed point."""
    process, rng = random_process(seed), np.random.default_rng(seed)
    features = rng.normal(size=(process.num_states, 2))
    transitions, rewards, visits = process.transitions[0], process.rewards[0], process.visits[0]
    projected = projection(features, visits)
    np.testing.assert_allclose(projected @ projected, projected, atol=1e-8)
    left, right = rng.normal(size=(2, process.num_states))
    apart = projected @ (process.discount * transitions @ (left - right))
    assert apart @ (visits * apart) <= process.discount**2 * (left - right) @ (visits * (left - right)) + 1e-12

    arguments = (transitions, rewards, process.discount, features, visits)
    weights = linear_fixed_point(*arguments)
    believed = features @ weights
    np.testing.assert_allclose(projected @ (rewards + process.discount * transitions @ believed), believed, atol=1e-8)
    permanent = rng.normal(size=2)
    transient = linear_transient_fixed_point(*arguments, features @ permanent)
    np.testing.assert_allclose(transient, weights - permanent, atol=1e-8)
    # What does not carry over: the sum is not the true value.
    assert np.abs(believed - process.values[0]).max() > 1e-6
    whole = linear_fixed_point(transitions, rewards, process.discount, np.eye(process.num_states), visits)
    np.testing.assert_allclose(whole, process.values[0], atol=1e-8)


def test_stationary_distribution_by_hand() -> None:
    """A goes to B; B goes to A or stays, half each: d_A = d_B / 2. A state that is left for good has no share."""
    np.testing.assert_allclose(stationary_distribution(np.array([[0, 1], [0.5, 0.5]])), [1 / 3, 2 / 3])
    passing = np.array([[0.2, 0.8, 0], [0, 0, 1], [0, 0.5, 0.5]])
    np.testing.assert_allclose(stationary_distribution(passing), [0, 1 / 3, 2 / 3], atol=1e-15)


def test_tasks_of_the_paper_are_equidistant() -> None:
    values = equidistant_values(2.5)
    apart = np.linalg.norm(values[:, None] - values[None], axis=-1)
    np.testing.assert_allclose(apart + 2.5 * np.eye(7), 2.5)
    np.testing.assert_allclose(task_diameter_process(2.5).values, values, atol=1e-12)
    np.testing.assert_allclose(values.mean(axis=0), equidistant_values(0.5).mean(axis=0), atol=1e-12)
    # Printed with two digits: this is why rows are divided by their sums.
    np.testing.assert_allclose(PRINTED_TRANSITIONS.sum(axis=1), [1, 1.01, 1, 1.01, 1, 0.99, 1])


GOOD = {"P": [[0.5, 0.5], [0.5, 0.5]], "r": [[1.0, 0.0], [0.0, 1.0]], "gamma": 0.5}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"P": [[0.5, 0.5], [0.5, 0.6]]}, r"row 1 of P must sum to 1; it sums to 1.1"),
        ({"P": [[1.5, -0.5], [0.5, 0.5]]}, r"row 0 of P holds a negative probability: -0.5 in column 1"),
        ({"P": [[0.5, 0.5]]}, r"P must be a square matrix"),
        ({"P": [[0.5, 0.5], [1.0]]}, r"P must be a regular array"),
        ({"P": [[[1, 0], [0, 1]]] * 3}, r"P is given for 3 tasks, r for 2"),
        ({"P": [[[0.5, 0.5]] * 2, [[0.5, 0.5], [0.7, 0.7]]]}, r"row 1 of P of task 1 must sum to 1; it sums to 1.4"),
        ({"r": [[1.0, 0.0, 2.0]]}, r"r must be \[tasks, 2\]"),
        ({"r": [[1.0, float("nan")]]}, r"r must hold finite numbers; at \[0, 1\]"),
        ({"gamma": 1.0}, r"γ must be in \[0, 1\); got 1.0"),
        ({"gamma": -0.1}, r"γ must be in \[0, 1\); got -0.1"),
        ({"p": [0.5, 0.6]}, r"must sum to 1; they sum to 1.1"),
        ({"p": [1.5, -0.5]}, r"task 1 cannot be negative"),
        ({"p": [1.0]}, r"one probability for each of 2 tasks"),
        ({"c": -1.0}, r"variance c cannot be negative"),
        ({"c": [1.0, 2.0, 3.0]}, r"variance c must be one number"),
        ({"reward": 1}, r"has reward, which is unknown"),
        ({"P": None}, r"P must"),
    ],
)
def test_bad_processes_are_refused(tmp_path: Path, change: dict, complaint: str) -> None:
    file = tmp_path / "mrp.json"
    file.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(UserError, match=complaint):
        load_process(file)


def test_a_chain_with_two_ends_is_refused() -> None:
    process = RewardProcess(np.eye(2), np.zeros(2), 0.5)
    with pytest.raises(
        UserError, match=r"no unique stationary distribution: the states \[0\] and \[1\] are 2 recurrent classes"
    ):
        process.visits  # noqa: B018


def test_files_of_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "mrp.json").write_text(json.dumps({**GOOD, "p": [0.25, 0.75]}))
    np.savez(tmp_path / "mrp.npz", P=GOOD["P"], r=GOOD["r"], gamma=0.5, p=[0.25, 0.75])
    for name in ("mrp.json", "mrp.npz"):
        process = load_process(tmp_path / name)
        # v = r + ½ · mean(v): the mean is 1, so the values are 1.5 and 0.5 and their mirror image.
        np.testing.assert_allclose(process.values, [[1.5, 0.5], [0.5, 1.5]])
        np.testing.assert_allclose(common_values(process), [0.75, 1.25])
    (tmp_path / "short.json").write_text("{}")
    for name, complaint in (("short.json", "lacks P, r, gamma"), ("none.npz", "no file"), ("mrp.txt", "neither")):
        with pytest.raises(UserError, match=complaint):
            load_process(tmp_path / name)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "broken.npz").write_text("no archive")
    for name in ("broken.json", "broken.npz"):
        with pytest.raises(UserError, match="cannot be read"):
            load_process(tmp_path / name)


def test_theory_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ten theorems hold on a user's process; JSON and Markdown carry them."""
    file = tmp_path / "mrp.json"
    rng = np.random.default_rng(5)
    chain = rng.dirichlet(np.ones(3), size=3).tolist()
    file.write_text(json.dumps({"P": chain, "r": rng.normal(size=(2, 3)).tolist(), "gamma": 0.6, "c": 0.1}))
    assert main(["theory", "--mrp", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["theorem"] for one in answer["theorems"]] == [str(n) for n in range(1, 11)]
    assert all(one["holds"] for one in answer["theorems"])
    np.testing.assert_allclose(answer["summary"]["permanent_fixed_point"], common_values(load_process(file)))
    best = answer["summary"]["best_step_size_from_zero"]
    assert 0 < best["step_size"] < answer["summary"]["stability_limit"]
    assert best["mse_best_schedule"] <= best["mse"]

    file.write_text(json.dumps({**GOOD, "gamma": 2}))
    assert main(["theory", "--mrp", str(file)]) == 2
    assert "γ must be in [0, 1)" in capsys.readouterr().err


def test_tables_of_the_theory() -> None:
    """Brackets are text, not styles; bars do not break a Markdown table; a time that never comes says so."""
    check = Check("5", "V^P converges to E_τ[v_τ]", "|mean − E_τ[v_τ]|", 1e-12, True, "as it should")
    found = {
        "permanent_fixed_point": [1.0, 2.0],
        "jumpstart_loss": 0.5,
        "forgetting_time": None,
        "forgetting_time_exact": 12.0,
    }
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(theorem_table([check]))
    console.print(summary_table(found))
    printed = console.export_text()
    assert "E_τ[v_τ]" in printed
    assert "never" in printed
    text = in_markdown("a process", [check], found)
    row = next(line for line in text.splitlines() if line.startswith("| 5"))
    assert row.replace("\\|", "").count("|") == 7
