"""Theorems 2 to 6 on random processes, hand-worked numbers, and what must be refused (1, 7 and 8: parity/test_theorems.py)."""

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
from remanence.core.errors import UserError
from remanence.report.panels.theory import in_markdown, summary_table, theorem_table
from remanence.theory import (
    RewardProcess,
    common_values,
    contraction,
    forgetting_times,
    jumpstart_loss,
    linear_fixed_point,
    linear_transient_fixed_point,
    load_process,
    modified_process,
    permanent_moments,
    projection,
    state_values,
    stationary_distribution,
    task_distances,
    transient_fixed_point,
    transient_operator,
)
from remanence.theory.checks import Check
from remanence.theory.task_diameter import PRINTED_TRANSITIONS, equidistant_values, task_diameter_process

SEEDS = st.integers(0, 2**32 - 1)


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
