"""What agents are shown of an environment: nothing is lost, and they learn from whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import remanence
from remanence.agents.networks import Scale
from remanence.core.errors import UserError
from remanence.gym.spaces import read_spaces
from scripted import Corridor, curve, quiet


@pytest.mark.parametrize("agent", ["Q", "PT-Q"])
def test_tables_learn_the_way(agent: str) -> None:
    results = quiet(agent, Corridor, 2_000, discount=0.9)
    policy = results.policy(agent)
    assert [policy.act(cell + 3) for cell in range(5)] == [1] * 5
    assert policy.values(7)["value"][1] == pytest.approx(1.0, abs=0.05)
    assert curve(results, "episode_length", agent)[-10:].mean() < 7


def test_observations_as_agents_see_them() -> None:
    """Bits, one bit per choice, channels where they belong, and numbers from 0."""

    def seen(kind: str) -> np.ndarray:
        env = Corridor(kind)
        return read_spaces(env.observation_space, env.action_space).encode(env.reset()[0])

    np.testing.assert_array_equal(seen("bits"), [1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(seen("choice"), [1, 0, 0, 0, 0, 0, 0, 1])
    assert seen("number") == 0
    assert seen("picture").shape == (4, 6, 1)
    assert seen("float picture").shape == (5, 6, 1)
    assert [seen(kind).dtype for kind in ("bits", "choice", "number", "picture", "float picture")] == [
        bool,
        bool,
        np.int32,
        np.uint8,
        np.float32,
    ]


def test_nothing_of_an_observation_is_lost() -> None:
    def seen(space: gymnasium.Space, obs: Any) -> np.ndarray:
        return read_spaces(space, spaces.Discrete(2)).encode(np.asarray(obs))

    np.testing.assert_array_equal(seen(spaces.MultiDiscrete([2, 3], start=[5, -1]), [6, -1]), [0, 1, 1, 0, 0])
    assert seen(spaces.Box(0, 2**40, (1,), np.int64), [2**31 + 5]) == np.float32(2**31 + 5)
    frames = spaces.Box(0, 255, (8, 20, 20), np.uint8)
    assert seen(frames, np.zeros((8, 20, 20), np.uint8)).shape == (20, 20, 8)
    assert seen(spaces.Box(0, 1, (10, 10, 7), np.uint8), np.zeros((10, 10, 7), np.uint8)).shape == (10, 10, 7)


def nested() -> spaces.Dict:
    picture = spaces.Box(0, 4, (1, 2, 1), np.uint8)
    pair = spaces.Tuple([spaces.Discrete(2), spaces.Box(-9.0, 9.0, (2,), np.float32)])
    return spaces.Dict({"door": spaces.Discrete(3, start=1), "pair": pair, "sight": picture})


def test_dicts_and_tuples_are_one_vector() -> None:
    """Door 2 of 1, 2, 3 is (0, 1, 0); the pair is (0, 1) and two numbers; uint8 images are divided by their largest value, 4."""
    seen = read_spaces(nested(), spaces.Discrete(2))
    obs = {"door": 2, "pair": (1, np.array([0.5, -3.0], np.float32)), "sight": np.array([[[4], [1]]], np.uint8)}
    assert seen.encode(obs).tolist() == [0, 1, 0, 0, 1, 0.5, -3, 1, 0.25]
    assert (seen.shape, seen.dtype) == ((9,), "float32")
    many, is_batch = seen.encode_many([obs, {**obs, "door": 3}])
    assert is_batch
    assert many[:, :3].tolist() == [[0, 1, 0], [0, 0, 1]]
    bits = read_spaces(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(2)}), spaces.Discrete(2))
    assert bits.dtype == "bool"
    with pytest.raises(UserError, match="not Text"):
        read_spaces(spaces.Dict({"mission": spaces.Text(5)}), spaces.Discrete(2))


class Told(Corridor):
    """The corridor as a dict: where one is, and a light that means nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"cell": spaces.Discrete(6), "light": spaces.Box(0.0, 1.0, (1,), np.float32)}
        )

    def _see(self) -> Any:
        return {"cell": self.cell, "light": np.ones(1, np.float32)}


def test_agents_learn_from_a_dict_and_their_policies_take_it(tmp_path: Path) -> None:
    policy = quiet(remanence.DQN(hidden=(16,), lr=0.01, epsilon=0.3), Told, 1_500, discount=0.9).policy("DQN")
    again = remanence.load_policy(policy.save(tmp_path / "policy.npz"))
    assert again.spaces == policy.spaces
    cells = [{"cell": cell, "light": np.ones(1, np.float32)} for cell in range(5)]
    assert [again.act(cell) for cell in cells] == [1] * 5
    np.testing.assert_array_equal(again.values(cells)["value"], policy.values(cells)["value"])
    stacking = quiet(remanence.DQN(hidden=(4,), frames=2), Told, 80).policy("DQN")
    assert stacking.values(cells[:2])["value"].shape == (2,)
    with pytest.raises(UserError, match="give a list of the last 2 observations"):
        stacking.act(cells[0])


@pytest.mark.parametrize(("max_value", "divided"), [(1, False), (255, True), (10, True)])
def test_bytes_are_divided_by_what_their_space_allows(max_value: int, divided: bool) -> None:
    read = read_spaces(spaces.Box(0, max_value, (5, 5, 2), np.uint8), spaces.Discrete(2))
    spec = read.env_spec(tasks=1)
    layers = remanence.DQN().hidden_layers(spec.obs, spec.obs.shape)
    assert (layers[0] == Scale(max_value)) == divided


@pytest.mark.parametrize("kind", ["number", "choice", "picture"])
def test_networks_learn_the_way_whatever_they_see(kind: str) -> None:
    recipe = remanence.DQN(lr=3e-3, hidden=(32,), batch=32, replay=1_000, epsilon=0.3, target_every=50)
    results = quiet(recipe, lambda: Corridor(kind), 1_500, discount=0.9)
    env, policy = Corridor(kind), results.policy("DQN")
    obs, _ = env.reset()
    for _ in range(5):
        obs, reward, ended, _, _ = env.step(policy.act(obs))
    assert ended
    assert reward == 1.0
