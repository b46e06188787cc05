"""Agents of the library in a sampled process against the theory, and the task-diameter experiment in small."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from conftest import key_stub
from remanence.agents import Hypers, pt_td, td
from remanence.agents.behaviour import uniform
from remanence.agents.linear import linear, one_hot
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Episodes
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, ProbeInput
from remanence.engine.probes import value_maps
from remanence.experiments import appendix_task_diameter as task_diameter
from remanence.results.statistics import normal_interval
from remanence.streams import RandomOrder, Stream
from remanence.theory import RewardProcess, common_values, learning_curve
from remanence.worlds import Chain
from remanence.worlds.chain import ChainState, Chance

CHAIN = ((0.1, 0.6, 0.3), (0.5, 0.0, 0.5), (0.2, 0.3, 0.5))
PROCESS = RewardProcess(np.array(CHAIN), np.array([[1.0, 0.0, -1.0], [0.5, 2.0, 1.0]]), 0.6, variance=0.25)


def test_chain_follows_its_matrix() -> None:
    """20 000 steps from each state: frequencies and rewards within 4 standard errors; cut off, not ended, at its length."""
    world = Chain(CHAIN, length=5, noise=0.5, discount=0.6)
    rewards = jnp.asarray(PROCESS.rewards[0], jnp.float32)
    keys = jax.vmap(make_key)(jnp.arange(20_000))
    for place in range(3):
        start = ChainState(jnp.int32(place), jnp.int32(0))
        _, seen = jax.vmap(lambda key, start=start: world.step(key, start, jnp.int32(0), rewards))(keys)
        share = np.bincount(np.asarray(seen.obs), minlength=3) / 20_000
        np.testing.assert_allclose(share, CHAIN[place], atol=4 * 0.5 / np.sqrt(20_000))
        assert abs(float(seen.reward.mean()) - PROCESS.rewards[0, place]) < 4 * 0.5 / np.sqrt(20_000)
        assert float(seen.reward.std()) == pytest.approx(0.5, rel=0.03)
    for luck, place in ((0.0, 0), (0.0999, 0), (0.1001, 1), (0.6999, 1), (0.7001, 2), (0.9999, 2)):
        chance = Chance(jnp.float32(luck), jnp.float32(0.0))
        assert int(world.apply(ChainState(jnp.int32(0), jnp.int32(3)), jnp.int32(0), rewards, chance)[0].place) == place
    ends = [world.step(key_stub(), ChainState(jnp.int32(0), jnp.int32(n)), jnp.int32(0), rewards)[1] for n in (3, 4)]
    assert [bool(one.last) for one in ends] == [False, True]
    assert all(float(one.discount) == pytest.approx(0.6) for one in ends)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"length": 0}, "at least one step"), ({"noise": -1.0}, "negative"), ({"discount": 1.0}, "γ")],
)
def test_bad_chains_are_refused(change: dict, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Chain(**{"transitions": CHAIN, "length": 3, **change})


def test_pt_td_converges_to_what_the_theorems_say() -> None:
    """60 tasks of 1000 steps in 200 lanes: V^P to E_τ[v_τ] (Theorem 5), V^P + V^T to the live task's v_τ (Theorem 3)."""
    agent = pt_td(linear(one_hot(3)), uniform(1))
    stream = Stream(PROCESS.rewards.astype(np.float32), RandomOrder(60), Episodes(1), boundaries_known=True)

    def probe(probe_input: ProbeInput) -> dict[str, Array]:
        return {**value_maps(agent, np.arange(3, dtype=np.int32))(probe_input), "task": probe_input.task_id}

    driver = Driver(LifeConfig(agent, Chain(CHAIN, 1000, 0.5, 0.6), stream, probe), round_steps=500)
    record = driver.run([Hypers(permanent_lr=0.0003, transient_lr=0.05, decay=0.0)] * 200, list(range(200))).record
    permanent = record["permanent"][:, 59, :, 0].astype(np.float64)
    for state in range(3):
        estimate = normal_interval(permanent[:, state])
        centre, error = common_values(PROCESS)[state], (estimate.high - estimate.low) / (2 * 1.645)
        assert abs(estimate.mean - centre) < 4 * error + 0.01
    live = PROCESS.values[record["task"][:, 30:]]
    gap = record["value"][:, 30:, :, 0] - live
    assert np.abs(gap.mean(axis=(0, 1))).max() < 0.03  # unbiased in the end
    assert np.sqrt((gap**2).mean()) < 0.15  # and the noise of the step size is small


def test_td_of_the_library_follows_the_exact_mean() -> None:
    """Along one trajectory samples are not independent, so only what that does not change is compared: where it settles."""
    agent = td(linear(one_hot(3)), uniform(1))
    stream = Stream(PROCESS.rewards[:1].astype(np.float32), (0,), Episodes(1), boundaries_known=True)
    probe = value_maps(agent, np.arange(3, dtype=np.int32))
    driver = Driver(LifeConfig(agent, Chain(CHAIN, 3000, 0.5, 0.6), stream, probe), round_steps=500)
    values = driver.run([Hypers(lr=0.05)] * 400, list(range(400))).record["value"][:, 0, :, 0].astype(np.float64)
    exact = learning_curve(PROCESS, 0.05, 3000)
    error = values.std(axis=0) / np.sqrt(400)
    assert (np.abs(values.mean(axis=0) - exact.mean[0, -1]) < 4 * error + 2e-3).all()
    np.testing.assert_allclose(values.std(axis=0), np.sqrt(exact.variance[0, -1]), rtol=0.3)


def test_the_experiment_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One distance, two numbers of tasks: the JSON of the contract, exact numbers for the reset variant, and no work twice."""
    monkeypatch.setattr(task_diameter, "DIAMETERS", (1.0,))
    monkeypatch.setattr(task_diameter, "SWITCHES", (1, 3))
    command = ["run", "appendix/task-diameter", "--preset", "smoke", "--out", str(tmp_path), "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert set(first["contenders"]) == {f"{agent} ε=1 n={n}" for agent in ("TD", "TD-reset", "PT-TD") for n in (1, 3)}
    process = task_diameter.task_diameter_process(1.0)
    curve = process.expect(learning_curve(process, 0.01, 100, 10).mse())[1:]
    reset = first["contenders"]["TD-reset ε=1 n=3"]["metrics"]["mse"]
    assert reset["auc_mean"] == pytest.approx(curve.mean(), rel=1e-9)
    np.testing.assert_allclose([reset["first"][0], reset["last"][0]], [curve[0], curve[-1]])
    assert first["contenders"]["PT-TD ε=1 n=3"]["hypers"]["permanent_lr"] in task_diameter.PERMANENT_STEP_SIZES
    assert {one["id"] for one in first["claims"]} >= {"same-after-one-task", "reset-is-worst"}
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["contenders"] == first["contenders"]
    assert main([*command, "--set", "TD.lr=0.1"]) == 2
    assert "chooses its step sizes itself" in capsys.readouterr().err
