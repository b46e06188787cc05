"""Every example runs, and what it says is true. Sizes are small; the one that needs another library is left out."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import key_stub
from remanence.agents import Hypers
from remanence.cli import main as command
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import EnvSpec, Transition
from remanence.experiments import REGISTRY, get
from remanence.experiments.base import NOT_IN_PAPER
from remanence.theory import load_process
from remanence.worlds.base import state_numbers

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_expected_sarsa_is_its_equation() -> None:
    """By hand: ε = 0.2 and four actions make the policy (0.85, 0.05, 0.05, 0.05), so 0.5 + 0.9 · 0.85 = 1.265 is the target."""
    agent = load("own_agent").ExpectedSARSA(epsilon=0.2).build(EnvSpec(state_numbers(2), num_actions=4))
    table = jnp.zeros((2, 4)).at[1, 0].set(1.0)

    def learn(valid: bool) -> np.ndarray:
        seen = (jnp.float32(0.5), jnp.float32(0.9), jnp.int32(1), jnp.bool_(False), jnp.bool_(valid))
        return np.asarray(agent.learn(table, Hypers(lr=0.5), Transition(jnp.int32(0), jnp.int32(2), *seen), key_stub()))

    assert learn(True)[0] == pytest.approx([0, 0, 0.5 * 1.265, 0])
    assert np.array_equal(learn(True)[1], table[1])
    assert np.array_equal(learn(False), table)


def test_own_agent(capsys: pytest.CaptureFixture[str]) -> None:
    returns = load("own_agent").main(episodes=30, segments=3, seeds=6)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == list(returns)
    assert set(returns) == {"Expected SARSA", "Q", "PT-Q"}
    assert len(set(returns.values())) == 3
    assert max(returns.values()) > 0.1  # something was learned: goals are equally near, so a random agent earns nothing


def test_own_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The penalty is its formula, and the policy comes back as what it is, in at most thirty lines."""
    module = load("own_method")
    weights, initial = {"w": jnp.array([1.0, 3.0])}, {"w": jnp.array([0.0, 1.0])}
    assert float(module.L2Init(strength=0.5).pull(weights, initial)) == 0.5 * (1 + 4)
    small = {"hidden": (4,), "batch": 8, "replay": 64, "lr": 0.01}
    policy = module.main(steps=100, seeds=1, file=str(tmp_path / "policy.npz"), **small)
    assert policy.config == module.L2Init(**small)
    assert policy.config.training.double
    assert set(ast.literal_eval(capsys.readouterr().out)) == {"L2-init", "DQN"}
    assert sum(bool(line.strip()) for line in (EXAMPLES / "own_method.py").read_text().splitlines()) <= 30


def test_the_corridor_step_by_step() -> None:
    module = load("own_world")
    calm, task = module.Corridor(length=5, wind=0.0), jnp.array([3.0, 7.0])
    cell, _ = calm.reset(make_key(0), task)
    for action, where, reward, ended in ((0, 1, 0, False), (1, 2, 0, False), (1, 3, 0, False), (1, 4, 7, True)):
        cell, seen = calm.step(make_key(1), cell, jnp.int32(action), task)
        assert (int(cell), float(seen.reward), bool(seen.last)) == (where, reward, ended)
        assert float(seen.discount) == pytest.approx(0.0 if ended else 0.9)
    stormy = module.Corridor(length=5, wind=1.0)
    assert int(stormy.step(make_key(1), jnp.int32(2), jnp.int32(0), task)[0]) == 3


def test_own_world(capsys: pytest.CaptureFixture[str]) -> None:
    returns = load("own_world").main(episodes=30, segments=2, seeds=6)
    assert "Discrete(9), starts in cell 4 with task 0" in capsys.readouterr().out
    assert set(returns) == {"Q", "PT-Q"}
    best = 0.9**3  # four steps to a door; an undiscounted return would be above it
    for name, by_segment in returns.items():
        assert by_segment.shape == (2,), name
        # A random agent finds the right door half the time, after 16 steps.
        assert 0.25 * best < by_segment[0] < best, name


def test_own_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run from Python, then by the command, which finds it done."""
    results = load("own_experiment").main("smoke", tmp_path)
    said = capsys.readouterr().out
    assert results.finished
    assert results.contenders == ["Q", "PT-Q"]
    assert "PT-Q collects more return than Q: " in said
    assert (results.path / "curves.svg").read_text().startswith("<svg")
    file = str(EXAMPLES / "own_experiment.py")
    assert command(["run", file, "--preset", "smoke", "--out", str(tmp_path)]) == 0
    boundaries_known = capsys.readouterr()
    assert boundaries_known.err.count("already done") == 2
    assert "A corner that pays" in boundaries_known.out
    assert command(["report", file, "--out", str(tmp_path), "--to", str(tmp_path / "page")]) == 0
    assert "A corner that pays" in (tmp_path / "page" / "index.html").read_text()


def test_experiments_from_files_are_named_or_refused(tmp_path: Path) -> None:
    file = EXAMPLES / "own_experiment.py"
    assert get(str(file)).name == get(f"{file}:EXPERIMENT").name == "own/corner-that-pays"
    assert get(str(file)).default_preset == "full"
    presets = {name: one.default_preset for name, one in REGISTRY.items() if not one.sweep_of}
    assert all(
        preset == ("full" if REGISTRY[name].figure == NOT_IN_PAPER else "paper") for name, preset in presets.items()
    )
    with pytest.raises(UserError, match=r"has no experiment named RETURN: give another as .*own_experiment.py:NAME"):
        get(f"{file}:RETURN")
    with pytest.raises(UserError, match="there is no file"):
        get(str(tmp_path / "mine.py"))


def test_own_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, file = load("own_process"), tmp_path / "process.json"
    errors = module.main(file, steps=50)
    assert min(errors, key=errors.__getitem__) == "the permanent part"
    process = load_process(file)
    assert process.num_tasks == 2
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    sun, rain, common = (np.array([float(word) for word in line[-3:]]) for line in printed[1:4])
    for task, values in enumerate((sun, rain)):
        assert values == pytest.approx(module.REWARDS[task] + 0.9 * module.TRANSITIONS @ values, abs=2e-3)
    assert common == pytest.approx((sun + rain) / 2, abs=1e-3)


def test_gymnasium_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    met = load("gymnasium_worlds").main(steps=250, names=("SlipperyGridStream", "TwoRooms"))
    assert met == {"SlipperyGridStream": {0}, "TwoRooms": {0}, "own stream": {1, 2}}
    assert "remanence/JellyBeanStream-v0" in capsys.readouterr().out


def test_own_environment(capsys: pytest.CaptureFixture[str]) -> None:
    """Both agents find the goal more often than chance does."""
    rates = load("own_environment").main(steps=4_000, seeds=2, picture=None)
    assert set(rates) == {"PT-Q", "Q", "Random"}
    assert min(rates["PT-Q"].mean(), rates["Q"].mean()) > rates["Random"].mean()
    assert "in the start state PT-Q goes" in capsys.readouterr().out
