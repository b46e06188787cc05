"""Runs of `live` in a directory: skipped where they are done, resumed where they stopped, with the same bits."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import remanence
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.live_env import LiveResults
from remanence.runs.watching import Window

STEPS, WINDOW, SEEDS = 400, 20, 2
Q = remanence.Q(lr=0.5)


class Walk(gymnasium.Env):
    """A walk with slips, which come from the generator; `push` is a parameter. It counts its steps over all instances."""

    observation_space, action_space = spaces.Discrete(8), spaces.Discrete(2)
    steps = 0
    push = 0.0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.cell = 3
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        Walk.steps += 1
        forward = (action == 1) != (self.np_random.random() < 0.2)
        self.cell = min(max(self.cell + (1 if forward else -1), 0), 7)
        reward = self.cell / 7 + self.push
        return self.cell, reward, self.cell == 7, False, {}


class WithState(Walk):
    """The same, and it offers its state."""

    taken: list[int] = []  # noqa: RUF012

    def get_state(self) -> dict[str, Any]:
        return {"cell": np.int64(self.cell), "board": np.arange(3), "name": "walk"}

    def set_state(self, state: dict[str, Any]) -> None:
        assert state["name"] == "walk"
        assert state["board"].tolist() == [0, 1, 2]
        WithState.taken.append(state["cell"])
        self.cell = state["cell"]


class Unsteady(Walk):
    """It draws its own seed: it never repeats itself."""

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        del seed
        return super().reset(seed=int.from_bytes(os.urandom(4)))


class Crash(Exception):
    """Stands for the end of the process: nothing is saved any more."""


def crash_at(window: int) -> Callable[[Window], None]:
    def callback(seen: Window) -> None:
        if seen.window >= window:
            raise Crash

    return callback


def run(out: Path | None, env: Any = Walk, agents: Any = Q, stream: Any = STEPS, **options: Any) -> LiveResults:
    options = {"seeds": SEEDS, "window": WINDOW, "progress": False, **options}
    return remanence.live(agents, env, stream, out=out, **options)


def same(one: LiveResults, other: LiveResults) -> bool:
    tables = [(one.lanes, other.lanes), (one.curves, other.curves)]
    return all(a.sort(a.columns[:3]).equals(b.sort(b.columns[:3])) for a, b in tables)


def crashed(out: Path, env: Any = Walk, agents: Any = Q, stream: Any = STEPS, window: int = 12) -> None:
    with pytest.raises(UserError, match="callback failed: Crash"):
        run(out, env, agents, stream, callback=crash_at(window), checkpoint_every=1e-9)


def test_a_directory_changes_no_bit_and_is_run_once(tmp_path: Path) -> None:
    in_memory = run(None)
    first = run(tmp_path)
    assert same(first, in_memory)
    assert first.path.parent == tmp_path / "own"
    assert {path.name for path in first.path.iterdir()} >= {"description.json", "lanes.parquet", "manifest.json"}
    Walk.steps = 0
    again = run(tmp_path)
    assert Walk.steps == 60, "three trials of 20 steps, and no life"
    assert same(again, first)
    values = [one.policy("Q", 1).values(3)["value"] for one in (in_memory, again)]
    assert values[0].tolist() == values[1].tolist()


def test_more_seeds_and_more_agents_run_only_what_is_missing(tmp_path: Path) -> None:
    run(tmp_path)
    Walk.steps = 0
    more = run(tmp_path, agents={"Q": Q, "Random": "Random"}, seeds=3)
    assert Walk.steps == 60 + (1 + 3) * STEPS
    assert len(more.lanes) == 6
    assert more.policy("Q", 1) is not None  # taken over with its lane
    assert len(list((tmp_path / "own").iterdir())) == 2


def drift(env: Any, value: float) -> None:
    env.unwrapped.push = value


@pytest.mark.parametrize(
    ("env", "stream"),
    [
        (Walk, STEPS),
        (WithState, remanence.Drift(drift, 0.0, 1.0, steps=STEPS)),
        pytest.param(
            lambda: gymnasium.wrappers.TimeLimit(WithState(), 7),
            remanence.Switches(drift, [0.0, 1.0], every=100),
            marks=pytest.mark.long,
        ),
        ([Walk, WithState], remanence.Switches(every=100, segments=4)),
        (Walk, remanence.Stationary(episodes=30)),
        ("remanence/SlipperyGridStream-v0", STEPS),
    ],
    ids=["replay", "state-drift", "state-limit-switches", "both", "episodes", "ours"],
)
def test_a_crash_leaves_no_trace_in_the_results(tmp_path: Path, env: Any, stream: Any) -> None:
    window = None if isinstance(stream, remanence.Stationary) else WINDOW
    whole = run(tmp_path / "whole", env, stream=stream, window=window)
    with pytest.raises(UserError, match="callback failed: Crash"):
        run(tmp_path / "cut", env, stream=stream, window=window, callback=crash_at(9), checkpoint_every=1e-9)
    (group,) = (tmp_path / "cut").glob("own/*/groups/*")
    assert list(group.glob("checkpoint/[0-9]*"))
    resumed = run(tmp_path / "cut", env, stream=stream, window=window)
    events = [json.loads(line)["event"] for line in (resumed.path / "log.jsonl").read_text().splitlines()]
    assert "resumed" in events
    assert same(whole, resumed)


def test_a_state_is_taken_instead_of_repeating(tmp_path: Path) -> None:
    crashed(tmp_path, WithState)
    WithState.taken.clear()
    Walk.steps = 0
    run(tmp_path, WithState)
    assert len(WithState.taken) == 1 + SEEDS, "one trial, and every seed"
    assert Walk.steps < SEEDS * STEPS, "what was done is not repeated"


def test_what_does_not_repeat_itself_begins_again_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = {"first": Q, "second": Q}
    crash = crash_at(12)
    with pytest.raises(UserError, match="Crash"):
        run(tmp_path, Unsteady, agents, callback=lambda seen: seen.agent == "second" and crash(seen), progress=True)
    told = " ".join(capsys.readouterr().err.split())
    assert "Unsteady does not repeat itself and offers no state: a life that is interrupted begins again" in told
    Walk.steps = 0
    found = run(tmp_path, Unsteady, agents)
    assert Walk.steps >= SEEDS * STEPS, "the second agent from the beginning"
    assert Walk.steps < 2 * SEEDS * STEPS, "the first is done"
    assert len(found.lanes) == 4


class Fickle(Walk):
    """It behaves otherwise once `mood` is changed, but only after some steps: no trial finds out."""

    mood = 0.0

    def __init__(self) -> None:
        self.count = 0

    def step(self, action: int) -> Any:
        self.count += 1
        obs, reward, *rest = super().step(action)
        return obs, reward + (self.mood if self.count > 50 else 0.0), *rest


def test_a_changed_environment_is_noticed_when_its_actions_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed(tmp_path, Fickle)
    monkeypatch.setattr(Fickle, "mood", 1.0)
    found = run(tmp_path, Fickle, progress=True)
    told = " ".join(capsys.readouterr().err.split())
    assert "Fickle does not repeat itself with the same seed and the same actions: unfinished lives of Q begin" in told
    assert same(found, run(None, Fickle))


def test_another_environment_is_another_run(tmp_path: Path) -> None:
    def maker(push: float) -> Callable[[], Walk]:
        def make() -> Walk:
            env = Walk()
            env.push = push
            return env

        return make

    runs = [
        run(tmp_path, maker(0.0), stream=40),
        run(tmp_path, maker(0.5), stream=40),
        run(tmp_path, maker(0.5), stream=remanence.Drift(drift, 0.0, 1.0, steps=40)),
        run(tmp_path, maker(0.5), stream=remanence.Drift(drift, 0.0, 2.0, steps=40)),
        run(tmp_path, lambda: Walk(), stream=40),
        run(tmp_path, lambda: WithState(), stream=40),
    ]
    assert len({one.path for one in runs}) == 6
    assert run(tmp_path, maker(0.5), stream=40).path == runs[1].path


FACTOR = 1.0


def scaled_drift(env: Any, value: float) -> None:
    env.unwrapped.push = FACTOR * value


def test_what_a_function_of_the_stream_reads_of_its_module_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = remanence.Drift(scaled_drift, 0.0, 1.0, steps=STEPS)
    first = run(tmp_path, stream=stream)
    assert run(tmp_path, stream=stream).path == first.path
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 9.0)
    other = run(tmp_path, stream=stream)
    assert other.path != first.path
    assert same(other, run(None, stream=stream))


def absolute(errors: Any) -> Any:
    return jnp.abs(errors)


def quartic(errors: Any) -> Any:
    return jnp.square(errors) ** 2


def test_agents_with_another_loss_are_other_agents_and_their_policies_are_found(tmp_path: Path) -> None:
    small = {"hidden": (4,), "batch": 4, "replay": 50}
    one, other = (run(tmp_path, agents=remanence.DQN(loss=loss, **small), seeds=1) for loss in (absolute, quartic))
    assert one.path != other.path
    values = [results.policy("DQN").values(3)["value"].tolist() for results in (one, other)]
    assert values[0] != values[1]
    read = remanence.load_results(one.path)
    with pytest.raises(UserError, match=r"results\.policy\(…, agent=…\)"):
        read.policy("DQN")
    assert read.policy("DQN", agent=remanence.DQN(loss=absolute, **small)).values(3)["value"].tolist() == values[0]


def test_show_names_the_other_runs_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, agents={"Q": Q, "Random": "Random"})
    other = run(tmp_path, agents={"R": "Random"}, seeds=[7])
    os.utime(found.path / "description.json")
    assert main(["show", str(tmp_path)]) == 0
    first, others = "".join(capsys.readouterr().out.split()).split("otherrunshere:")  # long lines are broken
    assert str(found.path) in first
    assert f"R;1seed:{other.path}" in others
    assert main(["show", str(found.path)]) == 0
    assert "other runs" not in capsys.readouterr().out


def test_show_report_and_check_read_it_without_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(tmp_path, agents={"Q": Q, "Random": "Random"})
    monkeypatch.setattr(Walk, "__init__", lambda *_: pytest.fail("the environment was made"))
    for what in (found.path, tmp_path):
        assert main(["show", str(what)]) == 0
        shown = capsys.readouterr().out
        assert "Walk" in shown
        assert "return (AUC)" in shown
    assert main(["check", "--out", str(tmp_path)]) == 0
    assert main(["report", "--out", str(tmp_path), "--to", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "Walk" in page
    assert "Random" in page


def test_options_are_checked_in_the_words_of_python(tmp_path: Path) -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"jobs": 2}, "give out="),
        ({"out": tmp_path, "jobs": 0}, "^jobs must be at least 1"),
        ({"out": tmp_path, "lanes": 3}, "unknown option of live 'lanes'"),
        ({"gamma": 0.9}, "unknown option of live 'gamma': did you mean 'discount'"),
        ({"seed": 1}, "unknown option of live 'seed': did you mean 'seeds'"),
        ({"out": tmp_path, "windows": 1}, "unknown option of live 'windows': did you mean 'window'"),
        ({"qqqq": 1}, "known: seeds, window, discount, .*lanes_per_group"),
        ({"out": tmp_path, "on": "moon"}, "unknown place to run 'moon'"),
        ({"log": "csv"}, "a log in files needs a directory"),
        ({"log": "cvs"}, "unknown log 'cvs': did you mean 'csv'"),
    ]
    for options, says in mistakes:
        with pytest.raises(UserError, match=says):
            run(options.pop("out", None), **options)
    assert not list(tmp_path.iterdir())


SCRIPT = """
    import sys, time, gymnasium, remanence

    class Slow(gymnasium.Wrapper):  # of this file, which no worker can import
        def step(self, action):
            time.sleep(0.0005)
            return super().step(action)

    lake = lambda: Slow(gymnasium.make("FrozenLake-v1"))
    options = {"window": 100, "checkpoint_every": 0.2, "cores_per_group": 1}
    found = remanence.live(remanence.Q(lr=0.5), lake, 3000, seeds=4, out=sys.argv[1], jobs=2, **options)
    print(found.path)
"""


@pytest.mark.long
def test_two_processes_are_killed_and_resumed(tmp_path: Path) -> None:
    """A script without a guard, whose environment is its own function."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def start(out: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(script), str(tmp_path / out)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    killed = start("killed")
    until = time.monotonic() + 400
    while len(list((tmp_path / "killed").glob("own/*/groups/*/checkpoint/[0-9]*"))) < 2:
        assert killed.poll() is None, killed.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    paths = []
    for process in [start("killed"), start("whole")]:
        guard = threading.Timer(400, os.killpg, (process.pid, signal.SIGKILL))
        guard.start()
        said, errors = process.communicate()
        guard.cancel()
        assert process.returncode == 0, errors
        paths.append(said.strip())
    resumed, whole = map(remanence.load_results, paths)
    events = [json.loads(line)["event"] for line in (resumed.path / "log.jsonl").read_text().splitlines()]
    assert events.count("resumed") >= 1
    assert same(resumed, whole)


@pytest.fixture(autouse=True)
def _collected() -> Any:
    yield
    gc.collect()
