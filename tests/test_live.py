"""Lives in a user's own environments: every transition is what the environment gave, and nothing starts on bad input."""

from __future__ import annotations

import dataclasses
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import remanence
from remanence.agents import Agent, TDHypers, q_learning
from remanence.agents.behaviour import epsilon_greedy
from remanence.errors import UserError
from remanence.lanes import Driver
from remanence.life import Setting
from remanence.own.spaces import read_spaces
from remanence.results.store import Results
from remanence.streams import Stream
from remanence.types import Steps
from remanence.values import linear, one_hot
from remanence.worlds import CornerGrid
from remanence.worlds import gymnasium as hosted

STEPS = 40
README = Path(__file__).parent.parent / "README.md"


class Script(gymnasium.Env):
    """Counts. Action 1 ends the episode for good, and so does step 3 of every other one; the others are cut off after 4.

    An observation is (episode, step in it, parameter at its last reset, parameter now); the reward is 100 · episode + step +
    parameter / 1000.
    """

    observation_space = spaces.Box(-1.0, 1e6, (4,), np.float32)
    action_space = spaces.Discrete(2, start=5)
    made: list[Script] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.episode, self.at, self.parameter, self.then = -1, 0, 0.0, 0.0
        self.closed, self.seeds, self.view = False, [], np.zeros(4, np.float32)
        Script.made.append(self)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[np.ndarray, dict]:
        self.seeds.append(seed)
        self.episode, self.at, self.then = self.episode + 1, 0, self.parameter
        return self._see(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in (5, 6)
        self.at += 1
        ended = action == 6 or (self.episode % 2 == 1 and self.at == 3)
        return self._see(), 100.0 * self.episode + self.at + self.parameter / 1000, ended, self.at == 4, {}

    def close(self) -> None:
        self.closed = True

    def _see(self) -> np.ndarray:
        """Always the same array: who wants to keep it must copy it."""
        self.view[:] = self.episode, self.at, self.then, self.parameter
        return self.view


def set_parameter(env: Any, value: float) -> None:
    env.unwrapped.parameter = value


def notebook(steps: int = STEPS, acts: Callable = lambda _: jnp.int32(0), **options: Any) -> Agent:
    """Writes every transition down as the loop gave it."""

    def learn(state: Any, hypers: Any, transition: Any, key: Any) -> Any:
        del hypers, key
        kept, n = state
        here = jnp.where(transition.real, n, steps)
        kept = {name: kept[name].at[here].set(getattr(transition, name), mode="drop") for name in kept}
        return kept, n + transition.real

    form = {"obs": (4,), "action": (), "reward": (), "discount": (), "next_obs": (4,), "last": ()}
    return Agent(
        init=lambda *_: ({name: jnp.zeros((steps, *shape)) for name, shape in form.items()}, jnp.int32(0)),
        act=lambda *given: acts(given[2]),
        learn=learn,
        consolidate=lambda state, *_: state,
        inspect=lambda *_: {"value": jnp.zeros(2)},
        **options,
    )


def written(results: Results, name: str = "agent", seed: int = 0) -> dict[str, np.ndarray]:
    kept, n = results.policy(name, seed).state
    assert n == results.lanes["steps"][0]
    return kept


def quiet(*arguments: Any, **options: Any) -> Results:
    return remanence.live(*arguments, progress=False, **options)


def curve(results: Results, metric: str, name: str = "agent") -> np.ndarray:
    return results.matrix(name, metric)[0]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Script.made.clear()


def test_every_transition_is_the_environments() -> None:
    """Ends, cuts, terminal observations, first observations, seeds and closing, exactly."""
    results = quiet(notebook(), Script, STEPS, discount=0.5, window=10)
    kept = written(results)
    expected, episode, at = [], 0, 0
    for _ in range(STEPS):
        ended, cut = episode % 2 == 1 and at + 1 == 3, at + 1 == 4
        expected.append((episode, at, at + 1, 100 * episode + at + 1, 0.0 if ended else 0.5, ended or cut))
        episode, at = (episode + 1, 0) if ended or cut else (episode, at + 1)
    table = np.array(expected, np.float32)
    np.testing.assert_array_equal(kept["obs"][:, :2], table[:, [0, 1]])
    np.testing.assert_array_equal(kept["next_obs"][:, :2], table[:, [0, 2]])
    np.testing.assert_array_equal(kept["reward"], table[:, 3])
    np.testing.assert_array_equal(kept["discount"], table[:, 4])
    np.testing.assert_array_equal(kept["last"], table[:, 5])

    ends = np.flatnonzero(table[:, 5])
    starts = np.concatenate([[0], ends[:-1] + 1])
    returns = np.array([table[a : b + 1, 3].sum() for a, b in zip(starts, ends, strict=True)])
    for page in range(4):
        own = (ends >= 10 * page) & (ends < 10 * page + 10)
        assert curve(results, "return")[page] == pytest.approx(returns[own].mean())
        assert curve(results, "episode_length")[page] == pytest.approx((ends - starts + 1)[own].mean())
        assert curve(results, "episodes")[page] == own.sum()
        assert curve(results, "reward_rate")[page] == pytest.approx(table[10 * page : 10 * page + 10, 3].mean())
    lived = Script.made[-1]
    assert lived.seeds[0] is not None
    assert set(lived.seeds[1:]) == {None}
    assert len(lived.seeds) == 1 + len(ends)
    assert all(one.closed for one in Script.made)


def test_actions_reach_the_environment() -> None:
    """Action 1 of the agent is the space's second one, and ends an episode for good."""
    kept = written(quiet(notebook(acts=lambda obs: (obs[1] == 1).astype(jnp.int32)), Script, STEPS))
    np.testing.assert_array_equal(kept["action"], np.tile([0, 1], STEPS // 2))
    np.testing.assert_array_equal(kept["discount"], np.tile(np.array([0.99, 0], np.float32), STEPS // 2))
    np.testing.assert_array_equal(kept["obs"][:, 0], np.arange(STEPS) // 2)


def test_drift_moves_with_every_step() -> None:
    kept = written(quiet(notebook(), Script, remanence.Drift(set_parameter, 10.0, 49.0, steps=STEPS)))
    now = 10.0 + np.arange(STEPS)  # the parameter of each step, in force before a reset
    np.testing.assert_allclose(kept["next_obs"][:, 3], now)
    first = kept["obs"][:, 1] == 0
    np.testing.assert_allclose(kept["obs"][first, 2], now[first])
    results = quiet(notebook(), Script, remanence.Drift(set_parameter, 0.0, 1.0, steps=STEPS, path=lambda x: x * x))
    np.testing.assert_allclose(curve(results, "parameter"), (np.arange(STEPS) / (STEPS - 1)) ** 2)


@pytest.mark.parametrize("ends", [False, True])
def test_switches_of_a_parameter(ends: bool) -> None:
    """In the middle of an episode, or cutting it off: what follows the cut is still worth something."""
    stream = remanence.Switches(set_parameter, [7.0, 9.0], every=10, order=[1, 0, 0, 1], ends_episode=ends)
    results = quiet(notebook(), Script, stream, window=5)
    kept = written(results)
    np.testing.assert_array_equal(kept["next_obs"][:, 3], np.repeat([9, 7, 7, 9], 10))
    np.testing.assert_array_equal(curve(results, "parameter"), np.repeat([9, 7, 7, 9], 2))
    np.testing.assert_array_equal(curve(results, "task"), np.repeat([1, 0, 0, 1], 2))
    assert results.switches == [2, 4, 6]
    cut = [9, 29]  # between segments 1 and 2 nothing changes
    if ends:
        assert kept["last"][cut].all()
        assert (kept["discount"][cut] == np.float32(0.99)).all()
        np.testing.assert_array_equal(kept["obs"][[10, 30], 1], 0)
        np.testing.assert_array_equal(kept["obs"][[10, 30], 2], [7, 9])
    else:
        np.testing.assert_array_equal(kept["last"], written(quiet(notebook(), Script, STEPS))["last"])


def test_switches_between_environments() -> None:
    """Each keeps its own episodes; a switch cuts the one under way off."""
    made = {"low": Script, "high": lambda: gymnasium.wrappers.TransformReward(Script(), lambda r: float(r) + 0.5)}
    results = quiet(notebook(), made, remanence.Switches(every=10, segments=4, told=True))
    kept = written(results)
    np.testing.assert_array_equal(kept["reward"] % 1, np.repeat([0, 0.5, 0, 0.5], 10))
    np.testing.assert_array_equal(kept["last"][9::10], 1)
    np.testing.assert_array_equal(kept["discount"][[9, 19]], np.float32(0.99))
    np.testing.assert_array_equal(kept["obs"][0::10, 1], 0)
    np.testing.assert_array_equal(kept["obs"][0:10, 0], kept["obs"][10:20, 0])
    assert kept["obs"][20, 0] == kept["obs"][9, 0] + 1
    assert results.description["stream"]["tasks"] == ["low", "high"]


def test_episodes_as_the_clock() -> None:
    """A page is an episode; lanes that wait for each other do not move."""
    stream = remanence.Switches(set_parameter, [1.0, 2.0], every=remanence.Episodes(2), segments=3)
    results = quiet(notebook(100), Script, stream, seeds=2)
    np.testing.assert_array_equal(curve(results, "episode_length"), [4, 3, 4, 3, 4, 3])
    np.testing.assert_array_equal(curve(results, "parameter"), [1, 1, 2, 2, 1, 1])
    assert results.lanes["steps"].to_list() == [21, 21]
    kept = written(results, seed=1)
    np.testing.assert_array_equal(kept["obs"][:21, 2], np.repeat([1, 2, 1], 7))
    drift = quiet(notebook(100), Script, remanence.Drift(set_parameter, 0.0, 5.0, episodes=6))
    np.testing.assert_array_equal(curve(drift, "parameter"), np.arange(6))
    np.testing.assert_array_equal(written(drift)["obs"][:21, 2], np.repeat(np.arange(6), [4, 3] * 3))


def test_a_life_without_an_end_has_no_return() -> None:
    endless = lambda: gymnasium.wrappers.TransformReward(Endless(), lambda _: 2.0)  # noqa: E731
    results = quiet("Q", endless, 20, window=5)
    assert np.isnan(curve(results, "return", "Q")).all()
    np.testing.assert_array_equal(curve(results, "reward_rate", "Q"), 2.0)
    assert "reward per step" in str(results.plot().to_dict())


class Endless(gymnasium.Env):
    observation_space = action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        return int(action), 0.0, False, False, {}


def test_random_order_never_repeats_and_is_the_same_for_all() -> None:
    table = remanence.Switches(set_parameter, [1, 2, 3], every=5, segments=50, order="random").timetable(["one"])
    assert set(table.order) == {0, 1, 2}
    assert all(one != two for one, two in zip(table.order, table.order[1:], strict=False))


def test_the_parts_of_a_vector_are_lives_side_by_side() -> None:
    """Whatever it does itself when an episode ends: each part is lived as if it were alone."""
    louder = lambda: gymnasium.wrappers.TransformReward(Script(), lambda reward: float(reward) + 0.5)  # noqa: E731
    vector = lambda: gymnasium.vector.SyncVectorEnv([Script, louder])  # noqa: E731
    results = quiet(notebook(), vector, STEPS)
    assert results.seeds == [0, 1]
    one, two = written(results, seed=0), written(results, seed=1)
    alone = written(quiet(notebook(), Script, STEPS))
    for name, values in alone.items():
        np.testing.assert_array_equal(one[name], values)
        np.testing.assert_array_equal(two[name], values + 0.5 * (name == "reward"))
    with pytest.raises(UserError, match="has 2 parts"):
        quiet(notebook(), vector, STEPS, seeds=3)
    with pytest.raises(UserError, match="give seeds=2"):
        quiet(notebook(), lambda: gymnasium.make_vec("CartPole-v1", 2), STEPS)


class Grid(gymnasium.Env):
    """Our corner grid, played by hand."""

    def __init__(self) -> None:
        self.world, self.task = CornerGrid(size=3), jnp.array([0.0, 1.0, 0.0, 1.0])
        self.observation_space, self.action_space = spaces.Discrete(9), spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.cell = 4
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        from remanence.random import make_key

        self.cell, seen = self.world.step(make_key(0), jnp.int32(self.cell), jnp.int32(action), self.task)
        return int(seen.obs), float(seen.reward), bool(seen.discount == 0), bool(seen.last & (seen.discount > 0)), {}


def test_an_agent_learns_the_same_in_the_world_and_in_the_environment() -> None:
    """The same table, started in the same cell: a life inside the compiled program and one outside end alike, bit for bit."""
    world, steps = CornerGrid(size=3), 150
    agent = q_learning(linear(one_hot(9), 4), epsilon_greedy(0.3))
    started = _StartsInTheMiddle(world)
    task = np.array([[0.0, 1.0, 0.0, 1.0]], np.float32)
    inside = Driver(
        Setting(
            agent, started, Stream(task, (0,), Steps(steps), told=False), lambda m: {"r": m.tally.reward}, window=steps
        ),
        devices=1,
    ).run([TDHypers(0.3)], [3])
    outside = quiet((agent, TDHypers(0.3)), Grid, steps, seeds=[3], discount=world.discount)
    assert np.abs(inside.agents).sum() > 0
    np.testing.assert_array_equal(inside.agents[0], outside.policy("agent", 3).state)
    assert curve(outside, "reward_rate").mean() * steps == pytest.approx(float(inside.record["r"].sum()))


@dataclasses.dataclass(frozen=True)
class _StartsInTheMiddle:
    grid: CornerGrid

    @property
    def num_actions(self) -> int:
        return 4

    @property
    def discount(self) -> float:
        return self.grid.discount

    def reset(self, key: Any, task: Any) -> Any:
        del key, task
        return jnp.int32(4), jnp.int32(4)

    def step(self, key: Any, state: Any, action: Any, task: Any) -> Any:
        return self.grid.step(key, state, action, task)


class Corridor(gymnasium.Env):
    """Walk to the right end; the way is told by `kind`: a number, bits, or a picture."""

    length = 6

    def __init__(self, kind: str = "number") -> None:
        self.kind, self.action_space = kind, spaces.Discrete(2)
        self.observation_space = {
            "number": spaces.Discrete(self.length, start=3),
            "bits": spaces.MultiBinary(self.length),
            "choice": spaces.MultiDiscrete([self.length, 2]),
            "picture": spaces.Box(0, 255, (4, self.length, 1), np.uint8),
            "float picture": spaces.Box(0.0, 1.0, (1, 5, self.length), np.float64),
        }[kind]

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return self._see(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        there = self.cell == self.length - 1
        return self._see(), float(there), there, False, {}

    def _see(self) -> Any:
        if self.kind == "number":
            return self.cell + 3
        if self.kind == "choice":
            return np.array([self.cell, 1])
        line = np.arange(self.length) == self.cell
        if self.kind == "bits":
            return line.astype(np.int8)
        if self.kind == "picture":
            return np.tile(255 * line.astype(np.uint8), (4, 1))[..., None]
        return np.tile(line.astype(np.float64), (1, 5, 1))


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


@pytest.mark.parametrize("kind", ["number", "choice", "picture"])
def test_networks_learn_the_way_whatever_they_see(kind: str) -> None:
    recipe = remanence.DQN(lr=3e-3, hidden=(32,), batch=32, replay=1_000, epsilon=0.3, target_period=50)
    results = quiet(recipe, lambda: Corridor(kind), 1_500, discount=0.9)
    env, policy = Corridor(kind), results.policy("DQN")
    obs, _ = env.reset()
    for _ in range(5):
        obs, reward, ended, _, _ = env.step(policy.act(obs))
    assert ended
    assert reward == 1.0


def test_the_same_seed_gives_the_same_bits_and_others_do_not() -> None:
    agents = {"PT-DQN": remanence.PTDQN(period=100, hidden=(16,), replay=500)}
    one, two = (quiet(agents, "CartPole-v1", 400, seeds=[4, 5]) for _ in range(2))
    assert one.curves.equals(two.curves, null_equal=True)
    weights = [
        np.concatenate([np.ravel(x) for x in _leaves(run.policy("PT-DQN", s).state)])
        for run in (one, two)
        for s in (4, 5)
    ]
    np.testing.assert_array_equal(weights[0], weights[2])
    np.testing.assert_array_equal(weights[1], weights[3])
    assert not np.array_equal(weights[0], weights[1])
    assert not hosted._companies


def _leaves(tree: Any) -> list[np.ndarray]:
    import jax

    return jax.tree.leaves(tree)


def test_the_readmes_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CartPole with drifting gravity, only shorter: it plots itself and is kept whole."""
    monkeypatch.chdir(tmp_path)
    block = next(one for one in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "Drift" in one)
    names: dict[str, Any] = {}
    exec(block.replace("50_000", "300"), names)
    results = names["results"]
    assert "<svg" in (tmp_path / "cartpole.svg").read_text()
    assert remanence.load_policy("pt.npz").act(np.zeros(4, np.float32)) in (0, 1)

    assert results.contenders == ["PT-DQN", "DQN"]
    assert np.nanmin(results.matrix("DQN", "return")) >= 8
    np.testing.assert_allclose(results.matrix("DQN", "parameter")[0][-1], 30.0)
    drawn = results.plot().to_dict()
    assert "CartPole-v1" in str(drawn)
    assert "vega" in str(results._repr_mimebundle_())
    again = remanence.load_results(results.save(tmp_path / "run"))
    assert again.curves.equals(results.curves, null_equal=True)
    assert again.plot().to_dict()["vconcat"][0]["title"] == drawn["vconcat"][0]["title"]
    obs = np.zeros(4, np.float32)
    np.testing.assert_array_equal(
        again.policy("PT-DQN", 1).values(obs)["permanent"], results.policy("PT-DQN", 1).values(obs)["permanent"]
    )
    with pytest.raises(UserError, match="already holds a run"):
        results.save(tmp_path / "run")
    with pytest.raises(UserError, match="did you mean 'PT-DQN'"):
        results.policy("PTDQN")
    with pytest.raises(UserError, match="only in memory"):
        _ = results.path


def test_told_switches_reset_and_heads() -> None:
    """What a plain DQN keeps at a told switch, a resetting one loses; every head belongs to its task."""
    small = {"hidden": (16,), "replay": 500, "batch": 32}
    results = quiet(
        {
            "reset": remanence.DQN(reset=True, **small),
            "heads": remanence.DQN(multihead=True, **small),
            "PT-DQN": remanence.PTDQN(period=None, **small),
        },
        ["CartPole-v1", lambda: gymnasium.make("CartPole-v1")],
        remanence.Switches(every=200, segments=2, told=True),
    )
    obs = np.zeros(4, np.float32)
    heads = results.policy("heads")
    assert heads.values(obs, task=0)["value"].shape == (2,)
    assert not np.array_equal(heads.values(obs, task=0)["value"], heads.values(obs, task=1)["value"])
    with pytest.raises(UserError, match="head for each task"):
        heads.act(obs)
    with pytest.raises(UserError, match="does not tell"):
        quiet(remanence.DQN(reset=True), ["CartPole-v1"] * 2, remanence.Switches(every=200))


def test_a_real_minigrid() -> None:
    minigrid = pytest.importorskip("minigrid")

    def rooms() -> gymnasium.Env:
        return minigrid.wrappers.ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))

    results = quiet(remanence.DQN(hidden=(16,), batch=32, replay=500, scale=10), rooms, 300)
    assert results.policy("DQN").values(np.zeros((2, 7, 7, 3), np.uint8))["value"].shape == (2, 7)
    assert curve(results, "episodes", "DQN").sum() >= 1


class Broken(Script):
    """Breaks the contract in one way."""

    how = ""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        if how == "continuous":
            self.action_space = spaces.Box(-1.0, 1.0, (1,))
        if how == "dict":
            self.observation_space = spaces.Dict({"a": spaces.Discrete(2)})
        if how == "tuple":
            self.observation_space = spaces.Tuple([spaces.Discrete(2)])
        if how == "four axes":
            self.observation_space = spaces.Box(0, 1, (2, 2, 2, 2))

    def reset(self, **options: Any) -> Any:
        obs, info = super().reset(**options)
        if self.how == "raises":
            raise ZeroDivisionError("a broken wheel")
        if self.how == "shape":
            obs = obs[:2]
        if self.how == "dtype":
            obs = obs.astype(np.float64)
        if self.how == "bounds":
            obs = obs - 50
        return obs if self.how == "no info" else (obs, info)

    def step(self, action: int) -> Any:
        obs, reward, ended, cut, info = super().step(action)
        if self.how == "old":
            return obs, reward, ended, info
        if self.how == "done":
            ended = None
        reward = {"none": None, "nan": float("nan"), "text": "ten"}.get(self.how, reward)
        if self.how == "later" and self.episode > 10:
            raise ZeroDivisionError("a broken wheel")
        if self.how == "later nan" and self.episode > 10:
            reward = float("inf")
        return obs, reward, ended, cut, info


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("continuous", "continuous actions must be made discrete"),
        ("dict", "not Dict observations"),
        ("tuple", "not Tuple observations"),
        ("four axes", "rows, columns and channels"),
        ("raises", "resetting the environment failed: ZeroDivisionError: a broken wheel"),
        ("no info", r"must return an observation and a dict \(obs, info\); it gave a ndarray"),
        ("old", "a tuple of 4: the old interface"),
        ("done", "terminated by True or False; it gave None"),
        ("shape", r"shape \(2,\) instead of \(4,\)"),
        ("dtype", "dtype float64 instead of float32"),
        ("bounds", "a value outside of Box"),
        ("none", "reward that is no number: None"),
        ("nan", "reward that is no number: nan"),
        ("text", "reward that is no number: 'ten'"),
    ],
)
def test_an_environment_that_breaks_the_contract(how: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        quiet("DQN", lambda: Broken(how), 100)
    assert all(one.closed for one in Script.made)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("DQM", Script, 10), "unknown agent 'DQM': did you mean 'DQN'"),
        (([], Script, 10), "nobody to live"),
        ((3, Script, 10), "an agent is a name"),
        ((["DQN", remanence.DQN], Script, 10), "an agent is a name"),
        ((["DQN", "DQN"], Script, 10), "two agents are called 'DQN'"),
        (("Q", Script, 10), "take DQN or PT-DQN"),
        (("DQN", Script, 0), "at least 1; got 0"),
        (("DQN", Script, 10.5), "a stream is a number of steps"),
        (("DQN", Script(), 10), "give a function that makes the environment"),
        (("DQN", [], 10), "no environment"),
        (("DQN", lambda: 3, 10), "is no gymnasium.Env but builtins.int"),
        (("DQN", "NoSuchEnv-v0", 10), "making the environment failed: NameNotFound"),
        (("DQN", [Script, Script], 10), "take turns by Switches"),
        (("DQN", ["A"] * 3, remanence.Switches()), "names of their own"),
        (("DQN", Script, remanence.Switches(every=10)), "nothing to switch between"),
        (("DQN", [Script, "CartPole-v1", Corridor], remanence.Switches(every=10)), "adapter="),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=10, order=[1])), "cannot name task 1"),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=10, order="by luck")), "unknown order"),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=0)), "at least 1; got 0"),
        (("DQN", Script, remanence.Drift(set_parameter, 0, 1)), "say how long it lasts"),
        (
            ("DQN", Script, remanence.Drift(lambda env, value: env.no_such(value), 0, 1, steps=9)),
            "changing the environment to 1",
        ),
        (("DQN-multihead", Script, 10), "several tasks"),
        ((remanence.DQN(replay=10**11), Script, 10), "let it remember less"),
        ((remanence.DQN(replay=10), Script, 10), "fewer than a batch"),
        (((notebook(), TDHypers(-1.0)), Script, 10), "lr must be a finite number that is not negative"),
    ],
)
def test_bad_input_is_told_before_anything_starts(arguments: tuple, says: str) -> None:
    with pytest.raises(UserError, match=says):
        quiet(*arguments)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: remanence.DQN(lr=-1.0), "lr must be a finite number that is not negative"),
        (lambda: remanence.PTDQN(decay=1.5), "decay must be between 0 and 1"),
        (lambda: remanence.Q(epsilon=2.0), "epsilon must be in"),
        (lambda: remanence.DQN(batch=0), "batch must be at least 1"),
        (lambda: remanence.DQN(hidden=(0,)), "at least one unit"),
        (lambda: remanence.PTDQN(period=10), "fills no batch"),
        (lambda: remanence.Switches(values=[1]), "give both"),
        (lambda: remanence.Drift(set_parameter, 0.0, float("nan"), steps=3), "cannot drift"),
        (lambda: quiet("DQN", Script, 10, seeds=0), "at least one seed"),
        (lambda: quiet("DQN", Script, 10, seeds=[1, 1]), "different numbers"),
        (lambda: quiet("DQN", Script, 10, window=3), "whole number of times"),
        (lambda: quiet("DQN", Script, 10, discount=1.5), "between 0 and 1"),
    ],
)
def test_numbers_that_can_only_be_a_mistake(make: Callable, says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()


def test_an_adapter_makes_environments_alike() -> None:
    def padded(env: gymnasium.Env) -> gymnasium.Env:
        box = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        return gymnasium.wrappers.TransformObservation(env, lambda obs: np.resize(obs, 6).astype(np.float32), box)

    two = ["CartPole-v1", "Acrobot-v1"]
    with pytest.raises(UserError, match="CartPole-v1 has vectors of shape"):
        quiet("Random", two, remanence.Switches(every=20))

    def alike(env: gymnasium.Env) -> gymnasium.Env:
        few = env.action_space.n  # type: ignore[attr-defined]
        return gymnasium.wrappers.TransformAction(padded(env), lambda action: action % few, spaces.Discrete(3))

    assert quiet("Random", two, remanence.Switches(every=20), adapter=alike).lanes["steps"].to_list() == [80]


@pytest.mark.parametrize(
    ("how", "says"), [("later", "ZeroDivisionError: a broken wheel"), ("later nan", "no number: inf")]
)
def test_an_error_in_the_middle_shows_the_users_own(how: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        quiet(notebook(), lambda: Broken(how), 4_000, seeds=2)
    if how == "later":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert all(one.closed for one in Script.made)
    assert not hosted._companies
    Script.made.clear()
    assert written(quiet(notebook(), Script, STEPS))["last"].sum() == 11  # the next life is not disturbed


def test_ctrl_c_stops_at_once(tmp_path: Any) -> None:
    """Also where a single step takes long."""
    program = tmp_path / "slow.py"
    program.write_text(
        textwrap.dedent("""
        import time
        import gymnasium, remanence

        class Slow(gymnasium.Env):
            observation_space = action_space = gymnasium.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                return 0, {}
            def step(self, action):
                time.sleep(0.02)
                print("step", flush=True)
                return 0, 0.0, False, False, {}
            def close(self):
                print("closed", flush=True)

        remanence.live("Q", Slow, 1_000_000, progress=False)
        """)
    )
    process = subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests run in the background ignore it
    )
    guard = threading.Timer(120, process.kill)
    guard.start()
    assert process.stdout is not None
    lines = 0
    for line in process.stdout:
        lines += line == "step\n"
        if lines == 60:  # past the trial
            break
    process.send_signal(signal.SIGINT)
    rest, errors = process.stdout.read(), process.communicate()[1]
    guard.cancel()
    assert rest.endswith("closed\n")
    assert errors.strip().endswith("KeyboardInterrupt")
    assert rest.count("step") < 1_000


def test_importing_is_quick_and_lazy() -> None:
    code = "import sys, remanence; print([m for m in ('gymnasium', 'optax', 'altair', 'polars') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert {"live", "DQN", "load_policy"} <= set(dir(remanence))
    with pytest.raises(AttributeError, match="no attribute 'lives_'"):
        _ = remanence.lives_
