"""Bad input to `remanence.live`: one clear message, mostly before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import remanence
from remanence.agents import Hypers
from remanence.core.errors import UserError
from remanence.gym import hosted
from scripted import STEPS, Corridor, Script, notebook, quiet, set_parameter, written


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Script.made.clear()


ONLY_ONE = Corridor()


class Broken(Script):
    """Breaks the contract in one way."""

    how = ""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        if how == "continuous":
            self.action_space = spaces.Box(-1.0, 1.0, (1,))
        if how == "countless actions":
            self.action_space = spaces.Discrete(2**40)
        if how == "countless states":
            self.observation_space = spaces.Discrete(2**31)
        if how == "dict":
            self.observation_space = spaces.Dict({"a": spaces.Discrete(2)})
        if how == "told in words":
            self.observation_space = spaces.Dict({"a": spaces.Discrete(2), "mission": spaces.Text(9)})
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
        ("continuous", "make continuous actions discrete"),
        ("countless actions", "at most 2,147,483,647 actions can be counted"),
        ("countless states", "at most 2,147,483,647 states can be counted"),
        ("dict", "a ndarray outside of Dict"),
        ("tuple", "a ndarray outside of Tuple"),
        ("told in words", "vectors, images or Discrete observations, not Text: choose"),
        ("four axes", "rows, columns and channels"),
        ("raises", "resetting the environment failed: ZeroDivisionError: a broken wheel"),
        ("no info", r"must return an observation and a dict \(obs, info\); it returned a ndarray"),
        ("old", "a tuple of 4: the old API"),
        ("done", "terminated as True or False; it returned None"),
        ("shape", r"shape \(2,\) instead of \(4,\)"),
        ("dtype", "dtype float64 instead of float32"),
        ("bounds", "a value outside of Box"),
        ("none", "reward that is not a finite number: None"),
        ("nan", "reward that is not a finite number: nan"),
        ("text", "reward that is not a finite number: 'ten'"),
    ],
)
def test_an_environment_that_breaks_the_contract(how: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        quiet("DQN", lambda: Broken(how), 100)
    assert all(one.closed for one in Script.made)


def test_a_directory_that_no_file_system_can_have() -> None:
    with pytest.raises(UserError, match="no file can have this name; choose another out"):
        remanence.live("Q", Corridor, 10, out="\ud800", progress=False)


class Shaped(Script):
    """Observations of another shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0.0, 1.0, shape, np.float32)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("DQM", Script, 10), "unknown agent 'DQM': did you mean 'DQN'"),
        (([], Script, 10), "no agent: give at least one"),
        ((3, Script, 10), "an agent is a name"),
        ((["DQN", remanence.DQN], Script, 10), "an agent is a name"),
        ((["DQN", "DQN"], Script, 10), "two agents are called 'DQN'"),
        (("Q", Script, 10), "^Q is tabular and needs Discrete observations.* use DQN or PT-DQN"),
        (({"mine": "Q"}, Script, 10), "^mine: Q is tabular"),
        (
            ("DQN-reset", Script, 10),
            r"^DQN-reset: this agent resets at .* has none: use Switches\(…, boundaries_known=True\), or",
        ),
        (
            (remanence.DQN(learning_starts=50), Script, 50),
            "^DQN: learning_starts=50 is after the end of a life of 50 steps",
        ),
        ((remanence.DQN(clear_replay=True), Script, 10), "empties its replay buffer at .*, or omit clear_replay$"),
        (
            ("DQN-reset", Script, remanence.Switches(set_parameter, [1, 2], every=10)),
            "does not reveal them: give boundaries_known=True, or an agent without reset$",
        ),
        (
            (remanence.PTDQN(consolidate_every=None), Script, 10),
            "this agent consolidates at .*, or consolidate_every=n$",
        ),
        (("DQN", Script, 0), "at least 1; got 0"),
        (("DQN", Script, 10.5), "a stream is a number of steps"),
        (("DQN", Script, 1e4), "the number of steps is an integer: 10_000; got 10000.0"),
        (("DQN", Script, True), "a stream is a number of steps"),
        (("DQN", Script, 2**40), "at most 2,147,483,647 steps; this one has 1,099,511,627,776"),
        (("DQN", lambda: Shaped((0,)), 10), r"at least one number; those of Box.* have none \(shape \(0,\)\)"),
        (("DQN", lambda: Shaped((2, 2, 0)), 10), "at least one number"),
        (("DQN", lambda: spaces.Discrete(0), 10), "making the environment failed: ValueError"),
        (("DQN", Script(), 10), "give a function that makes the environment"),
        (("DQN", [], 10), "no environment"),
        (("DQN", lambda: ONLY_ONE, 10), "the same environment twice"),
        (("DQN", lambda: 3, 10), "is not a gymnasium.Env but builtins.int"),
        (("DQN", "NoSuchEnv-v0", 10), "making the environment failed: NameNotFound"),
        (("DQN", [Script, Script], 10), "for several environments, use Switches"),
        (("DQN", ["A"] * 3, remanence.Switches()), "its own name"),
        (("DQN", Script, remanence.Switches(every=10)), "needs something to switch"),
        (("DQN", [Script, "CartPole-v1", Corridor], remanence.Switches(every=10)), "adapter="),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=10, order=[1])), "cannot name task 1"),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=10, order="by luck")), "unknown order"),
        (("DQN", Script, remanence.Switches(set_parameter, [1], every=0)), "at least 1; got 0"),
        (("DQN", Script, remanence.Drift(set_parameter, 0, 1)), "give the length of the stream"),
        (
            ("DQN", Script, remanence.Drift(lambda env, value: env.no_such(value), 0, 1, steps=9)),
            "changing the environment to 1",
        ),
        (("DQN-multihead", Script, 10), "^DQN-multihead has a head for each task.* several tasks"),
        ((remanence.DQN(replay=2 * 10**9), Script, 10), "give a smaller replay buffer"),
        ((remanence.DQN(replay=10), Script, 10), "fewer than a batch"),
        (((notebook(), Hypers(lr=-1.0)), Script, 10), "lr must be a finite number that is not negative"),
    ],
)
def test_bad_input_is_told_before_anything_starts(arguments: tuple, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        quiet(*arguments)
    cause = caught.value.__cause__ or (None if caught.value.__suppress_context__ else caught.value.__context__)
    assert not isinstance(cause, UserError), "one mistake, one traceback"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: remanence.DQN(lr=-1.0), "lr must be a finite number that is not negative"),
        (lambda: remanence.PTDQN(decay=1.5), "decay must be between 0 and 1"),
        (lambda: remanence.Q(epsilon=2.0), "epsilon must be in"),
        (lambda: remanence.DQN(batch=0), "batch must be at least 1"),
        (lambda: remanence.DQN(hidden=(0,)), "at least one unit"),
        (lambda: remanence.PTDQN(consolidate_every=10), "do not fill a batch"),
        (lambda: remanence.Switches(values=[1]), "give both"),
        (lambda: remanence.Drift(set_parameter, 0.0, float("nan"), steps=3), "cannot drift"),
        (lambda: remanence.Drift(set_parameter, "a", 1.0, steps=3), "cannot drift from 'a'"),  # type: ignore[arg-type]
        (lambda: remanence.Drift(None, 0.0, 1.0, steps=3), "change must be a function"),  # type: ignore[arg-type]
        (lambda: remanence.Switches(set_parameter, values=3), "values must be a list"),  # type: ignore[arg-type]
        (lambda: remanence.Switches(segments=10**9), "at most 1,000,000"),
        (lambda: remanence.Switches(boundaries_known="no"), "must be True or False"),  # type: ignore[arg-type]
        (lambda: quiet("Q", [Corridor] * 2, remanence.Switches(order=[0, 1.5])), "as integers"),  # type: ignore[list-item]
        (lambda: quiet(remanence.DQN(penalty=int), Script, 10), "the penalty failed: TypeError"),
        (lambda: quiet("Random", Corridor, 10).plot(smooth=0), "smooth must be an integer from 1 to 10"),
        (lambda: quiet("DQN", Script, 10, seeds=0), "at least one seed"),
        (lambda: quiet("DQN", Script, 10, seeds=[1, 1]), "distinct integers"),
        *(
            (lambda seeds=seeds: quiet("DQN", Script, 10, seeds=seeds), "a list of seeds, which are integers; got")
            for seeds in ("a", "12", 1.5, [1.5], [float("nan")], True, [None], b"12", {"a": 1})
        ),
        (lambda: quiet("DQN", Script, 10, seeds=10**9), "at most 1,000,000; got 1000000000"),
        (lambda: quiet("DQN", Script, 10, seeds=10**30), "at most 1,000,000"),
        *(
            (lambda window=window: quiet("DQN", Script, 10, window=window), "a window must be an integer from 1 to 10")
            for window in ("1", 1.5, 2.0, True, float("nan"), 0, 11)
        ),
        *(
            (lambda discount=discount: quiet("DQN", Script, 10, discount=discount), "a number between 0 and 1; got")
            for discount in ("0.9", None, 1j, [0.9])
        ),
        (lambda: remanence.DQN(lr="x"), "lr must be float; got 'x'"),  # type: ignore[arg-type]
        (lambda: remanence.DQN(lr=10**400), "lr must be float; got 1000"),
        (lambda: remanence.DQN(hidden="ab"), "hidden must be a tuple of int; got 'ab'"),  # type: ignore[arg-type]
        (lambda: remanence.DQN(layers=(3,)), r"layers must be a tuple of Layer or None; got \(3,\)"),  # type: ignore[arg-type]
        (lambda: remanence.DQN(optimizer=3), "optimizer must be str or GradientTransformation; got 3"),  # type: ignore[arg-type]
        (lambda: remanence.DQN(penalty=3), "penalty must be a function or None; got 3"),  # type: ignore[arg-type]
        (lambda: remanence.Q(features=1), "features must be FeatureConfig; got 1"),  # type: ignore[arg-type]
        (lambda: quiet("DQN", Script, 10, discount=1.5), "between 0 and 1"),
        (lambda: quiet("DQN", Script, 10, out=42), "out is the directory of the run, a text or a Path; got 42"),
        (lambda: quiet("DQN", Script, 10, log=object()), "a log is one of csv, .* got <object"),
        (lambda: quiet("DQN", Script, 10, log=None), "a log is one of csv, .* got None"),
        (lambda: quiet("DQN", Script, 10, callback=3), "callback is a function that takes each closed window; got 3"),
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
    ("how", "says"), [("later", "ZeroDivisionError: a broken wheel"), ("later nan", "finite number: inf")]
)
def test_an_error_in_the_middle_shows_the_users_own(how: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        quiet(notebook(), lambda: Broken(how), 4_000, seeds=2)
    if how == "later":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert all(one.closed for one in Script.made)
    assert not hosted._pools
    Script.made.clear()
    assert written(quiet(notebook(), Script, STEPS))["last"].sum() == 11  # the next life is not disturbed


def test_an_agent_that_cannot_be_described_is_refused_before_it_lives() -> None:
    """Not after hours: the description of a run is made first."""
    thing = object()
    with pytest.raises(UserError, match="a configuration holds numbers"):
        quiet(notebook(10, acts=lambda _: jnp.int32(thing is None)), Script, 10)
    assert [env.at for env in Script.made] == [0]  # the one that was looked at


@pytest.mark.parametrize(("discount", "steps"), [(0.9, 400), (1.0, 100)])
def test_values_beyond_what_rewards_allow_are_named(discount: float, steps: int, tmp_path: Path) -> None:
    """Finite all the same: a step size of 3 doubles the error at every visit."""
    sound, absurd = remanence.Q(lr=0.5), remanence.Q(lr=3.0)
    with pytest.warns(
        UserWarning, match=r"absurd diverged in 2 of 2 seeds \(0, 1\): left out of averages; try smaller"
    ):
        found = quiet({"sound": sound, "absurd": absurd}, Corridor, steps, seeds=2, discount=discount)
    largest = np.abs(found.policy("absurd").values(np.arange(3, 9))["value"]).max()
    assert np.isfinite(largest)
    assert largest > 1e4
    assert (found.diverged("sound"), found.diverged("absurd")) == ([], [0, 1])
    again = remanence.load_results(found.save(tmp_path / "run"))
    assert again.diverged("absurd") == [0, 1]
    again.plot()


def test_networks_with_large_inputs_have_not_diverged() -> None:
    """Values of a network that has learned nothing are of the order of its inputs."""

    class Far(Corridor):
        def __init__(self) -> None:
            super().__init__("float picture")
            self.observation_space = spaces.Box(-1e5, 1e5, (2,), np.float32)

        def _see(self) -> np.ndarray:
            return np.array([1e5, -1e5 + self.cell], np.float32)

    found = quiet(remanence.DQN(hidden=(8,), replay=50, batch=4, lr=1e-9), Far, 40, window=10)
    assert np.abs(found.policy("DQN").values(np.array([1e5, -1e5], np.float32))["value"]).max() > 1e4
    assert found.diverged("DQN") == []
