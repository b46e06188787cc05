"""Lives in a user's own environments: every transition is what the environment gave."""

from __future__ import annotations

import dataclasses
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import remanence
from remanence.agents import Hypers, q_learning
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.linear import linear, one_hot
from remanence.core.errors import UserError
from remanence.core.types import ObsSpec, Steps
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.gym import hosted
from remanence.gym.factories import EnvFactory
from remanence.live_env.arguments import chosen_window
from remanence.streams import Stationary, Stream
from remanence.worlds import CornerGrid, World
from scripted import STEPS, Corridor, Script, curve, notebook, quiet, set_parameter, written

GUIDE = Path(__file__).parents[2] / "docs" / "own" / "environment.md"


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


def test_nothing_but_the_programs_of_a_life_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    """One for the start, one for the life, one for its clocks: arithmetic between them is NumPy's, which compiles nothing."""
    jax.clear_caches()
    with jax.log_compiles():
        quiet(remanence.DQN(hidden=(8,), batch=4, replay=20), Script, STEPS)
    named = [found[1] for one in caplog.messages if (found := re.match(r"Compiling jit\((.+?)\) with", one))]
    assert named == ["_init_rows", "_advance_rows", "<lambda>"]


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
    stream = remanence.Switches(set_parameter, [7.0, 9.0], every=10, order=[1, 0, 0, 1], truncate_on_switch=ends)
    results = quiet(notebook(), Script, stream, window=5)
    kept = written(results)
    np.testing.assert_array_equal(kept["next_obs"][:, 3], np.repeat([9, 7, 7, 9], 10))
    np.testing.assert_array_equal(curve(results, "parameter"), np.repeat([9, 7, 7, 9], 2))
    np.testing.assert_array_equal(curve(results, "task"), np.repeat([1, 0, 0, 1], 2))
    assert results.switches == [2, 6]  # one that keeps the task is none
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
    results = quiet(notebook(), made, remanence.Switches(every=10, segments=4, boundaries_known=True))
    kept = written(results)
    np.testing.assert_array_equal(kept["reward"] % 1, np.repeat([0, 0.5, 0, 0.5], 10))
    np.testing.assert_array_equal(kept["last"][9::10], 1)
    np.testing.assert_array_equal(kept["discount"][[9, 19]], np.float32(0.99))
    np.testing.assert_array_equal(kept["obs"][0::10, 1], 0)
    np.testing.assert_array_equal(kept["obs"][0:10, 0], kept["obs"][10:20, 0])
    assert kept["obs"][20, 0] == kept["obs"][9, 0] + 1
    # Episodes of 4, 3 and 3 of 4 steps in the first two segments, of 3, 4 and 3 in the others: two are cut off, and no returns.
    assert (kept["last"].sum(), curve(results, "episodes").sum()) == (12, 10)
    assert not np.isnan(results.curves["value"].to_numpy()).any()
    assert results.description["stream"]["tasks"] == ["low", "high"]


def test_episodes_as_the_clock() -> None:
    """A page is an episode; lanes that wait for each other do not move."""
    stream = remanence.Switches(set_parameter, [1.0, 2.0], every=remanence.Episodes(2), segments=3)
    results = quiet(notebook(100), Script, stream, seeds=2)
    np.testing.assert_array_equal(curve(results, "episode_length"), [4, 3, 4, 3, 4, 3])
    np.testing.assert_array_equal(curve(results, "parameter"), [1, 1, 2, 2, 1, 1])
    np.testing.assert_array_equal(curve(results, "task"), [0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(curve(results, "episodes"), 1)
    np.testing.assert_allclose(curve(results, "return"), [10.004, 306.003, 810.008, 906.006, 1610.004, 1506.003])
    np.testing.assert_allclose(curve(results, "reward_rate"), curve(results, "return") / np.array([4, 3] * 3))
    assert results.lanes["steps"].to_list() == [21, 21]
    kept = written(results, seed=1)
    np.testing.assert_array_equal(kept["obs"][:21, 2], np.repeat([1, 2, 1], 7))
    drift = quiet(notebook(100), Script, remanence.Drift(set_parameter, 0.0, 5.0, episodes=6))
    np.testing.assert_array_equal(curve(drift, "parameter"), np.arange(6))
    np.testing.assert_array_equal(written(drift)["obs"][:21, 2], np.repeat(np.arange(6), [4, 3] * 3))


def test_a_life_without_an_end_has_no_return() -> None:
    """It is 0, and the chart shows reward per step instead."""
    endless = lambda: gymnasium.wrappers.TransformReward(Endless(), lambda _: 2.0)  # noqa: E731
    results = quiet("Q", endless, 20, window=5)
    for metric, value in {"return": 0.0, "episode_length": 0.0, "episodes": 0.0, "reward_rate": 2.0}.items():
        np.testing.assert_array_equal(curve(results, metric, "Q"), value)
    assert axis(results.plot()) == "reward per step"
    assert axis(results.plot("return")) == "return per episode"


def axis(chart: Any) -> str:
    """The title of the vertical axis of the curves."""
    drawn = chart.to_dict()
    layers = drawn.get("layer") or drawn["vconcat"][0]["layer"]
    curves = next(layer for layer in layers if layer["mark"]["type"] == "line")
    assert curves["encoding"]["y"]["field"] == "mean"
    return curves["encoding"]["y"]["title"]


def test_a_window_without_an_end_keeps_the_value_before() -> None:
    """Episodes of 4 and 3 steps in turn end with steps 4, 7, 11, 14, 18, …; windows of 2 steps."""
    results = quiet(notebook(), Script, 20, window=2)
    np.testing.assert_array_equal(curve(results, "episodes"), [0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
    np.testing.assert_array_equal(curve(results, "episode_length"), [0, 4, 4, 3, 3, 4, 3, 3, 4, 4])
    brought = [1 + 2 + 3 + 4, 306, 810, 906, 1610]  # 100 · episode · steps + 1 + 2 + …
    np.testing.assert_array_equal(curve(results, "return"), np.array([0, *brought])[[0, 1, 1, 2, 2, 3, 4, 4, 5, 5]])


@pytest.mark.parametrize("window", [1, 7, 10])
def test_any_window_sees_the_same_life(window: int) -> None:
    whole, parts = (quiet(notebook(35), Script, 35, window=w) for w in (35, window))
    for name, values in written(whole).items():
        np.testing.assert_array_equal(written(parts)[name], values)
    assert curve(parts, "episodes").sum() == curve(whole, "episodes").sum() == 10
    rates = np.average(curve(parts, "reward_rate"), weights=np.diff(parts.ends, prepend=0))
    assert rates == pytest.approx(curve(whole, "reward_rate")[0])


class Endless(gymnasium.Env):
    observation_space = action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        return int(action), 0.0, False, False, {}


def test_random_order_never_repeats_and_is_the_same_for_all() -> None:
    table = remanence.Switches(set_parameter, [1, 2, 3], every=5, segments=50, order="random").schedule(["one"])
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
    with pytest.raises(UserError, match="has 2 sub-environments"):
        quiet(notebook(), vector, STEPS, seeds=3)
    with pytest.raises(UserError, match="use seeds=2"):
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
        from remanence.core.prng import make_key

        self.cell, seen = self.world.step(make_key(0), jnp.int32(self.cell), jnp.int32(action), self.task)
        return int(seen.obs), float(seen.reward), bool(seen.discount == 0), bool(seen.last & (seen.discount > 0)), {}


def test_an_agent_learns_the_same_in_the_world_and_in_the_environment() -> None:
    """The same table, started in the same cell: a life inside the compiled program and one outside end alike, bit for bit."""
    world, steps = CornerGrid(size=3), 150
    agent = q_learning(linear(one_hot(9), 4), epsilon_greedy(0.3))
    started = _StartsInTheMiddle(world)
    task = np.array([[0.0, 1.0, 0.0, 1.0]], np.float32)
    inside = Driver(
        LifeConfig(
            agent,
            started,
            Stream(task, (0,), Steps(steps), boundaries_known=False),
            lambda m: {"r": m.window.reward},
            window=steps,
        ),
        devices=1,
    ).run([Hypers(lr=0.3)], [3])
    outside = quiet((agent, Hypers(lr=0.3)), Grid, steps, seeds=[3], discount=world.discount)
    assert np.abs(inside.agents).sum() > 0
    np.testing.assert_array_equal(inside.agents[0], outside.policy("agent", 3).state)
    assert curve(outside, "reward_rate").mean() * steps == pytest.approx(float(inside.record["r"].sum()))


@dataclasses.dataclass(frozen=True)
class _StartsInTheMiddle(World):
    grid: CornerGrid

    @property
    def num_actions(self) -> int:
        return 4

    @property
    def discount(self) -> float:
        return self.grid.discount

    @property
    def observation(self) -> ObsSpec:
        return self.grid.observation

    def reset(self, key: Any, task: Any) -> Any:
        del key, task
        return jnp.int32(4), jnp.int32(4)

    def step(self, key: Any, state: Any, action: Any, task: Any) -> Any:
        return self.grid.step(key, state, action, task)


@pytest.mark.parametrize(
    ("steps", "points"), [(50_000, 100), (50_021, 101), (20_014, 101), (3_000, 100), (7, 7), (2**31 - 1, 101)]
)
def test_a_curve_has_enough_points(steps: int, points: int) -> None:
    """Also where the number of steps is prime, or twice a prime: the last window is then shorter."""
    schedule = Stationary(steps).schedule(["one"])
    window = chosen_window(None, schedule)
    assert schedule.stream.windows(window) == points
    assert schedule.stream.ends(window)[-1] == steps


def test_windows_that_do_not_divide_a_task() -> None:
    """Tasks of 10 steps in windows of 4, 4 and 2: the parameter and the task are those of each window, and steps are known."""
    stream = remanence.Switches(set_parameter, [7.0, 9.0], every=10, order=[1, 0, 0, 1])
    results = quiet(notebook(), Script, stream, window=4)
    np.testing.assert_array_equal(curve(results, "parameter"), np.repeat([9, 7, 7, 9], 3))
    np.testing.assert_array_equal(curve(results, "task"), np.repeat([1, 0, 0, 1], 3))
    assert results.ends.tolist() == [4, 8, 10, 14, 18, 20, 24, 28, 30, 34, 38, 40]
    assert results.switches == [3, 9]
    rewards = written(results)["reward"]
    parts = np.split(rewards, results.ends[:-1])
    np.testing.assert_allclose(curve(results, "reward_rate"), [part.mean() for part in parts], rtol=1e-6)
    assert results.frame()["step"].unique().to_list() == results.ends.tolist()


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    """Also in what is written to files, whose names may be strings."""
    recipe = remanence.DQN(lr=np.float32(1e-3), batch=np.int64(8), replay=50, hidden=np.array([4]))  # type: ignore[arg-type]
    results = quiet({7: recipe}, Corridor, np.int64(40), seeds=np.int64(2), discount=np.float32(0.9))
    kept = remanence.load_results(str(results.save(tmp_path / "run")))
    assert kept.contenders == ["7"]
    assert len(kept.seeds) == 2
    assert kept.policy("7").act(3) == results.policy("7").act(3)


def test_a_value_is_set_when_it_changes_and_only_then() -> None:
    given: list[Any] = [np.array([1.0, 2.0]), range(1000, 1002), [[1], [2]]]
    for values in given:
        calls: list[Any] = []
        switches = remanence.Switches(lambda _, value, calls=calls: calls.append(value), values, every=10, segments=4)
        quiet(notebook(), Script, switches)
        trial = 5  # the beginning of every segment, and the last step
        assert len(calls) == trial + 4


def test_each_life_has_the_part_of_its_number() -> None:
    """Whoever asks first."""
    made = []

    def pair() -> gymnasium.vector.SyncVectorEnv:
        made.append([Script(), Script()])
        return gymnasium.vector.SyncVectorEnv([lambda one=one: one for one in made[-1]])

    source = EnvFactory(pair)
    given = [source.next(lane) for lane in (1, 0, 0, 1)]
    assert given == [made[0][1], made[0][0], made[1][0], made[1][1]]


def test_our_worlds_go_by_their_names() -> None:
    code = "import remanence; print(remanence.live('Random', 'remanence/CornerGrid-v0', 30, progress=False).lanes['steps'][0])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "30"


def test_the_same_seed_gives_the_same_bits_and_others_do_not() -> None:
    agents = {"PT-DQN": remanence.PTDQN(consolidate_every=100, hidden=(16,), replay=500)}
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
    assert not hosted._pools


def _leaves(tree: Any) -> list[np.ndarray]:
    import jax

    return jax.tree.leaves(tree)


def set_gravity(env: Any, value: float) -> None:
    env.unwrapped.gravity = value


@pytest.mark.long
def test_the_guides_drifting_gravity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CartPole with drifting gravity, only shorter: it plots itself and is kept whole."""
    monkeypatch.chdir(tmp_path)
    block = next(one for one in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "growing" in one)
    names: dict[str, Any] = {"gymnasium": gymnasium, "remanence": remanence, "gravity": set_gravity}
    exec(block.replace("50_000", "300"), names)
    results = names["results"]
    assert "<svg" in (tmp_path / "cartpole.svg").read_text()
    assert remanence.load_policy("pt.npz").act(np.zeros(4, np.float32)) in (0, 1)

    assert results.contenders == ["PT-DQN", "DQN"]
    returns = results.matrix("DQN", "return")
    assert returns[returns > 0].min() >= 8
    np.testing.assert_allclose(results.matrix("DQN", "parameter")[0][-1], 30.0)
    drawn = results.plot().to_dict()
    assert drawn["vconcat"][0]["title"]["text"] == "CartPole-v1"
    assert (axis(results.plot()), axis(results.plot("episode_length"))) == ("return per episode", "steps per episode")
    assert "<img" in results._repr_html_()
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
            "PT-DQN": remanence.PTDQN(consolidate_every=None, **small),
        },
        ["CartPole-v1", lambda: gymnasium.make("CartPole-v1")],
        remanence.Switches(every=200, segments=2, boundaries_known=True),
    )
    obs = np.zeros(4, np.float32)
    heads = results.policy("heads")
    assert heads.values(obs, task=0)["value"].shape == (2,)
    assert not np.array_equal(heads.values(obs, task=0)["value"], heads.values(obs, task=1)["value"])
    with pytest.raises(UserError, match="head for each task"):
        heads.act(obs)
    with pytest.raises(UserError, match="does not reveal"):
        quiet(remanence.DQN(reset=True), ["CartPole-v1"] * 2, remanence.Switches(every=200))


def test_a_named_pt_agent_resets_its_transient_part_at_a_known_switch() -> None:
    """Then only cells visited since the switch have a transient value; with unknown boundaries all visited ones have."""
    left = {}
    for known in (False, True):
        stream = remanence.Switches(every=400, order=(0, 1), boundaries_known=known)
        results = quiet({"PT": "PT-Q"}, ["CliffWalking-v1", "CliffWalking-v1"], stream, window=1)
        config = results.description["contenders"]["PT"]["config"]
        assert (config["consolidate_every"], config["decay"]) == ((None, 0.0) if known else (1_000, 0.5))
        transient = results.policy("PT").values(np.arange(48))["transient"]
        left[known] = int((transient != 0).any(axis=1).sum())
    assert 0 < left[True] < left[False]


class Treadmill(gymnasium.Env):
    """Two states in turn, and every step pays 1: with γ = 0.9, every value is 10."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    state = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed, options=options)
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        del action
        self.state = 1 - self.state
        return self.state, 1.0, False, False, {}


def test_values_grow_without_end_where_shares_add_up_to_more_than_one_and_only_there() -> None:
    """Both keep three quarters of V^T; one absorbs all of it, by large steps, the other a quarter."""
    small = {"hidden": (16,), "batch": 32, "replay": 400, "target_every": 50, "transient_lr": 0.01, "decay": 0.75}
    agents = {
        "paper": remanence.PTDQN(consolidate_every=200, permanent_lr=0.05, min_batches=100, in_order=False, **small),
        "share": remanence.PTDQN(consolidate_every=200, absorb=0.25, **small),
    }
    with pytest.warns(UserWarning, match="paper: values exceed what rewards allow, in 1 of 1 seeds"):
        results = quiet(agents, Treadmill, 1_000, discount=0.9, window=100)
    assert results.matrix("paper", "value_ratio").max() > 1.2
    assert 0.6 < results.matrix("share", "value_ratio").max() < 1.02
    assert results.matrix("share", "absorbed")[0, -1] == pytest.approx(0.25, rel=0.1)
    assert results.matrix("share", "kept")[0, -1] == pytest.approx(0.75, rel=1e-3)


def test_a_real_minigrid() -> None:
    minigrid = pytest.importorskip("minigrid")

    def rooms() -> gymnasium.Env:
        return minigrid.wrappers.ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))

    results = quiet(remanence.DQN(hidden=(16,), batch=32, replay=500, scale=10), rooms, 300)
    assert results.policy("DQN").values(np.zeros((2, 7, 7, 3), np.uint8))["value"].shape == (2, 7)
    assert curve(results, "episodes", "DQN").sum() >= 1


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
