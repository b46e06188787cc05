"""Policies that are kept: they act, tell what they believe, and come back from a file as they were."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import remanence
from remanence.core.errors import UserError
from remanence.live_env import LiveResults
from scripted import Corridor, Script, notebook, quiet

SMALL = {"hidden": (8,), "replay": 200, "batch": 16}
OBS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def lived() -> LiveResults:
    return quiet(remanence.PTDQN(consolidate_every=50, **SMALL), "CartPole-v1", 200, seeds=2)


@pytest.fixture(scope="module")
def tables() -> LiveResults:
    return quiet(["Q", remanence.PTQ(consolidate_every=50, decay=0.0), "Random"], Corridor, 300)


def test_values_by_part(lived: LiveResults) -> None:
    parts = lived.policy("PT-DQN").values(OBS)
    assert set(parts) == {"value", "permanent", "transient"}
    assert parts["value"].shape == (3, 2)
    np.testing.assert_allclose(parts["value"], parts["permanent"] + parts["transient"], rtol=1e-6)
    assert np.abs(parts["permanent"]).min() > 0
    one = lived.policy("PT-DQN").values(OBS[1])
    np.testing.assert_allclose(one["transient"], parts["transient"][1], rtol=1e-5)
    assert not np.allclose(lived.policy("PT-DQN", 1).values(OBS)["value"], parts["value"])


def test_it_acts_greedily_or_as_in_its_life(lived: LiveResults) -> None:
    policy = lived.policy("PT-DQN")
    for obs in OBS:
        assert policy.act(obs) == policy.values(obs)["value"].argmax()
    rng = np.random.default_rng(0)
    explored = [policy.act(OBS[0], greedy=False, rng=rng) != policy.act(OBS[0]) for _ in range(400)]
    assert 0.01 < np.mean(explored) < 0.12  # half of ε = 0.1


def test_actions_are_the_environments(tables: LiveResults) -> None:
    """Random has nothing to say and no ε: it draws any action."""
    policy = tables.policy("Random")
    assert {policy.act(3, greedy=False) for _ in range(50)} == {0, 1}
    kept = quiet("Random", Script, 10).policy("Random")
    assert kept.act(np.zeros(4, np.float32)) == 5


@pytest.mark.parametrize("name", ["Q", "PT-Q", "Random"])
def test_a_table_comes_back_from_its_file(tables: LiveResults, name: str, tmp_path: Path) -> None:
    policy = tables.policy(name)
    again = remanence.load_policy(policy.save(tmp_path / "deep" / "policy.npz"))
    states = np.arange(3, 9)
    for part, values in policy.values(states).items():
        np.testing.assert_array_equal(again.values(states)[part], values)
    assert (again.name, again.config, again.spaces) == (policy.name, policy.config, policy.spaces)
    assert again.about["seed"] == 0


def test_networks_come_back_and_act_alike(lived: LiveResults, tmp_path: Path) -> None:
    policy = lived.policy("PT-DQN", 1)
    again = remanence.load_policy(policy.save(tmp_path / "policy.npz"))
    for part, values in policy.values(OBS).items():
        np.testing.assert_array_equal(again.values(OBS)[part], values)
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        assert again.act(obs) == policy.act(obs)
        obs, *_ = env.step(again.act(obs))
    assert list(tmp_path.iterdir()) == [tmp_path / "policy.npz"]
    assert (tmp_path / "policy.npz").stat().st_size < 20_000  # weights alone, not what was remembered


def test_an_agent_of_ones_own_acts_but_is_not_saved(tmp_path: Path) -> None:
    policy = quiet({"mine": notebook(10)}, Script, 10).policy("mine")
    assert policy.act(np.zeros(4, np.float32)) == 5
    assert {policy.act(np.zeros(4, np.float32), greedy=False) for _ in range(20)} == {5}  # it always acts so
    with pytest.raises(UserError, match="your own agent"):
        policy.save(tmp_path / "mine.npz")


def test_a_wrong_observation_is_told(lived: LiveResults) -> None:
    with pytest.raises(UserError, match=r"has shape \(4,\)"):
        lived.policy("PT-DQN").values(np.zeros(5))
    with pytest.raises(UserError, match="act takes one observation"):
        lived.policy("PT-DQN").act(OBS)


def _changed(content: bytes, **changes: Any) -> bytes:
    """The same file with another `about`, or without some arrays."""
    with np.load(io.BytesIO(content)) as saved:
        arrays = dict(saved)
    about = json.loads(str(arrays["about"]))
    arrays["about"] = np.array(json.dumps(about | changes))
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda _: b"", "no policy saved by remanence, or it is damaged"),
        (lambda _: b"hello", "no policy saved by remanence, or it is damaged"),
        (lambda content: content[: len(content) // 2], "no policy saved by remanence, or it is damaged"),
        (lambda content: content[:200] + bytes(50) + content[250:], "no policy saved by remanence, or it is damaged"),
        (lambda content: _changed(content, format=99), "another version of remanence"),
        (lambda content: _changed(content, config={"kind": "DQM"}), "no policy saved by remanence, or it is damaged"),
        (lambda content: _changed(content, config={"kind": "DQN"}), "no policy saved by remanence, or it is damaged"),
        (lambda content: _changed(content, spaces=3), "no policy saved by remanence, or it is damaged"),
    ],
)
def test_a_damaged_file_is_told(lived: LiveResults, tmp_path: Path, damage: Any, says: str) -> None:
    path = lived.policy("PT-DQN").save(tmp_path / "policy.npz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=says):
        remanence.load_policy(path)


def test_no_file_and_no_pickle(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no policy"):
        remanence.load_policy(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "evil.npz", about=np.array([object()], object))
    with pytest.raises(UserError, match="damaged"):
        remanence.load_policy(tmp_path / "evil.npz")
