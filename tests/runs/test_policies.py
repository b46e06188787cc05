"""Policies that are kept: they act, tell what they believe, and come back from a file as they were."""

from __future__ import annotations

import dataclasses
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

import remanence
from remanence.agents.base import Agent, BuiltAgent, PerLane, hypers_of
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import EnvSpec, Hypers, Key, Transition
from remanence.gym.policy import Policy
from remanence.gym.spaces import DISCRETE, Spaces
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


class Ledger(NamedTuple):
    """A state without a permanent or transient part."""

    table: Array  # [states, actions]
    seen: Array  # [1000] a memory that no policy needs


@dataclass(frozen=True)
class Counter:
    """A configuration of one's own: the value of an action is how often it was taken, less what `lazy` says."""

    lazy: PerLane = 0.5
    keep_memory: bool = False

    @property
    def name(self) -> str:
        return "Counter"

    def build(self, spec: EnvSpec) -> Agent:
        def learn(state: Ledger, hypers: Hypers, transition: Transition, key: Key) -> Ledger:
            del key
            more = jnp.where(transition.valid, 1.0 - hypers.lazy, 0.0)
            return state._replace(table=state.table.at[transition.obs, transition.action].add(more))

        return Agent(
            init=lambda *_: Ledger(jnp.zeros((spec.obs.num_states, spec.num_actions)), jnp.zeros(1000)),
            act=lambda state, hypers, obs, key: jax.random.randint(key, (), 0, spec.num_actions),  # noqa: ARG005
            learn=learn,
            consolidate=lambda state, *_: state,
            inspect=lambda state, obs: {"value": state.table[obs]},
            policy_state=(lambda state: state) if self.keep_memory else lambda state: state._replace(seen=()),
        )


STATES = np.arange(3, 9)  # of Corridor


@pytest.fixture(scope="module")
def counted() -> Policy:
    return quiet(Counter(), Corridor, 200).policy("Counter")


def test_a_configuration_of_ones_own_acts_and_comes_back(counted: Policy, tmp_path: Path) -> None:
    values = counted.values(STATES)["value"]
    assert values.sum() == pytest.approx(200 * 0.5)  # every step counted, so it is the state at the end of the life
    again = remanence.load_policy(counted.save(tmp_path / "own.npz"), agent=Counter())
    np.testing.assert_array_equal(again.values(STATES)["value"], values)
    assert [again.act(state) for state in STATES] == values.argmax(axis=1).tolist()
    assert {again.act(3, greedy=False) for _ in range(50)} == {0, 1}
    assert again.config == Counter()
    assert set(again.about) == {"remanence", "seed"}


def test_a_class_of_ones_own_is_enough_if_its_fields_are_plain_data(counted: Policy, tmp_path: Path) -> None:
    """The file holds them; it holds no code, so the class is given."""
    path = dataclasses.replace(counted, config=Counter(lazy=0.25)).save(tmp_path / "own.npz")
    again = remanence.load_policy(path, agent=Counter)
    assert again.config == Counter(lazy=0.25)
    np.testing.assert_array_equal(again.values(STATES)["value"], counted.values(STATES)["value"])
    with pytest.raises(UserError, match="is the policy of a Counter, not of a PTDQN"):
        remanence.load_policy(path, agent=remanence.PTDQN)
    built = dataclasses.replace(counted, config=BuiltAgent(counted.agent)).save(tmp_path / "built.npz")
    with pytest.raises(UserError, match="give the configuration itself"):
        remanence.load_policy(built, agent=BuiltAgent)


def test_without_its_configuration_it_is_refused_in_one_sentence(counted: Policy, tmp_path: Path) -> None:
    path = counted.save(tmp_path / "own.npz")
    with pytest.raises(UserError, match=r"Counter is a class of your own.* load_policy\(path, agent=…\)$") as told:
        remanence.load_policy(path)
    assert "\n" not in str(told.value)
    with pytest.raises(UserError, match="not a policy of this agent saved by remanence"):
        remanence.load_policy(path, agent=remanence.Q())


def test_a_class_of_ones_own_is_not_taken_for_ours_of_the_same_name(counted: Policy, tmp_path: Path) -> None:
    named_q = dataclasses.make_dataclass("Q", [], bases=(Counter,), frozen=True)
    path = dataclasses.replace(counted, config=named_q()).save(tmp_path / "own.npz")
    with pytest.raises(UserError, match="Q is a class of your own"):
        remanence.load_policy(path)


@pytest.mark.parametrize(
    "option",
    [{"penalty": lambda weights, _: 0.0 * jax.tree.leaves(weights)[0].sum()}, {"optimizer": optax.scale_by_lion()}],
)
def test_a_configuration_with_functions_in_it_is_given_again(option: dict, tmp_path: Path) -> None:
    config = remanence.DQN(**SMALL, **option)
    policy = quiet(config, "CartPole-v1", 40).policy("DQN")
    path = policy.save(tmp_path / "policy.npz")
    with pytest.raises(UserError, match=r"has functions in it.*agent=…"):
        remanence.load_policy(path)
    again = remanence.load_policy(path, agent=config)
    np.testing.assert_array_equal(again.values(OBS)["value"], policy.values(OBS)["value"])


def test_the_agent_decides_what_is_saved(counted: Policy, lived: LiveResults, tmp_path: Path) -> None:
    def arrays(policy: Policy) -> dict[str, np.ndarray]:
        with np.load(policy.save(tmp_path / "policy.npz")) as saved:
            return {name.removeprefix("weights"): saved[name] for name in saved.files if name != "about"}

    assert set(arrays(counted)) == {".table"}
    whole = quiet(Counter(keep_memory=True), Corridor, 20).policy("Counter")
    assert set(arrays(whole)) == {".table", ".seen"}
    deep = arrays(lived.policy("PT-DQN"))
    assert {name.split(".")[1].split("[")[0] for name in deep} == {"permanent", "transient", "recent"}
    assert sum(leaf.size for leaf in deep.values()) == 2 * (4 * 8 + 8 + 8 * 2 + 2)  # two networks, and no replay buffer


def test_stacked_frames(tmp_path: Path) -> None:
    """The network sees the last two observations, one behind the other."""
    lived = quiet(remanence.DQN(frames=2, **SMALL), "CartPole-v1", 60).policy("DQN")
    policy = remanence.load_policy(lived.save(tmp_path / "policy.npz"))
    stacks = np.stack([OBS[:2], OBS[1:], OBS[1::-1]])  # [3, frames, 4]
    joined = jnp.asarray(stacks.reshape(3, 8))
    by_hand = np.stack([policy.agent.inspect(policy.state, one)["value"] for one in joined])
    np.testing.assert_allclose(policy.values(stacks)["value"], by_hand, rtol=1e-5)
    assert not np.allclose(by_hand[0], by_hand[2])  # the order of frames matters
    for stack, values in zip(stacks, by_hand, strict=True):
        assert policy.act(stack) == values.argmax()


@pytest.mark.parametrize("wrong", [OBS[0], OBS, np.zeros((2, 5)), np.zeros((3, 3, 4)), np.zeros((1, 1, 2, 4)), 3.0])
def test_what_is_no_stack_of_frames_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"the last 2 observations, oldest first, as an array of shape \(2, 4\); got"):
        stacking().act(wrong)


def test_a_stacking_agent_takes_one_stack_and_acts_greedily() -> None:
    with pytest.raises(UserError, match=r"act takes one observation, of shape \(2, 4\); got \(5, 2, 4\)"):
        stacking().act(np.zeros((5, 2, 4)))
    with pytest.raises(UserError, match="can only act greedily here"):
        stacking().act(OBS[:2], greedy=False)


def stacking() -> Policy:
    """A policy before its first step, for observations of shape (4,)."""
    spaces = Spaces("vector", (4,), (4,), "float32", 2)
    config = remanence.DQN(frames=2, **SMALL)
    agent = config.build(spaces.env_spec(1))
    return Policy("DQN", config, spaces, 1, agent.policy_state(agent.init(make_key(0), hypers_of(config))))


def test_a_built_agent_is_a_configuration_too(tmp_path: Path) -> None:
    policy = quiet({"mine": notebook(10)}, Script, 10).policy("mine")
    assert policy.act(np.zeros(4, np.float32)) == 5
    assert {policy.act(np.zeros(4, np.float32), greedy=False) for _ in range(20)} == {5}  # it always acts so
    path = policy.save(tmp_path / "mine.npz")
    with pytest.raises(UserError, match="BuiltAgent is a class of your own"):
        remanence.load_policy(path)
    kept, n = remanence.load_policy(path, agent=BuiltAgent(notebook(10))).state
    np.testing.assert_array_equal(kept["reward"], policy.state[0]["reward"])
    assert n == 10


def test_a_wrong_observation_is_told(lived: LiveResults) -> None:
    with pytest.raises(UserError, match=r"has shape \(4,\)"):
        lived.policy("PT-DQN").values(np.zeros(5))
    with pytest.raises(UserError, match="act takes one observation"):
        lived.policy("PT-DQN").act(OBS)
    with pytest.raises(UserError, match="an observation consists of numbers; got 'a'"):
        lived.policy("PT-DQN").act("a")


@pytest.mark.parametrize("wrong", [99, -1, 1.5, 3.5, float("nan"), "a", None])
def test_a_table_knows_its_states_only(tables: LiveResults, wrong: Any) -> None:
    with pytest.raises(UserError, match=r"a state is an integer from 3 to \d+; got|consists of numbers; got"):
        tables.policy("Q").act(wrong)


def test_observations_in_parts() -> None:
    parts = ("a", Spaces(DISCRETE, (), (), "int32", 2, 3)), ("b", Spaces("vector", (2,), (2,), "float32", 2))
    together = Spaces("vector", (), (5,), "float32", 2, parts=parts)
    policy = Policy("DQN", remanence.DQN(), together, 1, ())
    assert "observations of 2 parts, 2 actions" in repr(policy)
    assert together.encode_many({"a": 1, "b": [0.5, 2.0]})[0].tolist() == [[0.0, 1.0, 0.0, 0.5, 2.0]]
    for wrong in ("a", 3, {"a": 1}, {"a": "x", "b": [0.5, 2.0]}):
        with pytest.raises(UserError, match="an observation has numbers in the parts a, b; got"):
            together.encode_many(wrong)


def _changed(content: bytes, **changes: Any) -> bytes:
    """The same file with another `about`, or without some arrays."""
    with np.load(io.BytesIO(content)) as saved:
        arrays = dict(saved)
    about = json.loads(str(arrays["about"]))
    arrays["about"] = np.array(json.dumps(about | changes))
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _spaces(**changes: Any) -> dict:
    return {"kind": "vector", "env_shape": [4], "shape": [4], "dtype": "float32", "actions": 2, **changes}


def _with_nan(content: bytes) -> bytes:
    """The same file with one weight that is not a number."""
    arrays = dict(np.load(io.BytesIO(content)))
    name = next(name for name, array in arrays.items() if array.dtype == np.float32 and array.ndim)
    arrays[name].flat[0] = np.nan
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda _: b"", "not a policy of this agent saved by remanence, or it is damaged"),
        (lambda _: b"hello", "not a policy of this agent saved by remanence, or it is damaged"),
        (
            lambda content: content[: len(content) // 2],
            "not a policy of this agent saved by remanence, or it is damaged",
        ),
        (
            lambda content: content[:200] + bytes(50) + content[250:],
            "not a policy of this agent saved by remanence, or it is damaged",
        ),
        (lambda content: _changed(content, format=99), "another version of remanence"),
        (
            lambda content: _changed(content, config={"kind": "DQM"}),
            "not a policy of this agent saved by remanence, or it is damaged",
        ),
        (
            lambda content: _changed(content, config={"kind": "DQN"}),
            "not a policy of this agent saved by remanence, or it is damaged",
        ),
        (
            lambda content: _changed(content, spaces=3),
            "not a policy of this agent saved by remanence, or it is damaged",
        ),
        (lambda content: _changed(content, tasks="many"), "damaged"),
        (lambda content: _changed(content, needs_agent={}), "damaged"),
        (lambda content: _changed(content, tasks=10**30), "damaged"),
        (lambda content: _changed(content, spaces=_spaces(shape=[10**15])), "damaged"),
        (lambda content: _changed(content, spaces=_spaces(shape=[-1])), "damaged"),
        (lambda content: _changed(content, spaces=_spaces(actions=10**12)), "damaged"),
        (lambda content: _changed(content, spaces=_spaces(dtype="object")), "damaged"),
        (lambda content: _changed(content, spaces=_spaces(dtype="no such")), "damaged"),
        (lambda content: _with_nan(content), "weights that are NaN or infinite"),
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
