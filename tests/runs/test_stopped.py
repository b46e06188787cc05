"""A callback stops a run: its results have what the lives under way have so far, and no such life counts as finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import remanence
from remanence.core.errors import UserError
from remanence.live_env import LiveResults
from remanence.runs.watching import Window
from scripted import Corridor

WINDOW, WINDOWS = 20, 300
Q, OTHER = remanence.Q(lr=0.5), remanence.Q(lr=0.1)


def run(agents: Any = Q, env: Any = Corridor, stream: Any = WINDOW * WINDOWS, **options: Any) -> LiveResults:
    options = {"seeds": 2, "window": WINDOW, "progress": False, **options}
    return remanence.live({"Q": agents} if agents is Q else agents, env, stream, **options)


def stopped(says: str, agents: Any = Q, last: str = "Q", at: int = 3, **options: Any) -> LiveResults:
    with pytest.warns(UserWarning, match=f"^stopped by the callback: {says}$"):
        return run(agents, callback=at_window(last, at), **options)


def at_window(agent: str, number: int) -> Callable[[Window], bool]:
    return lambda window: window.agent == agent and window.window == number


def curves(results: LiveResults, upto: int = WINDOWS) -> pl.DataFrame:
    return results.curves.filter(pl.col("window") <= upto).sort("lane", "metric", "window")


def weights(results: LiveResults, agent: str = "Q", seed: int = 1) -> list[Any]:
    return results.policy(agent, seed).values(np.arange(3, 9))["value"].tolist()


def test_a_stopped_run_has_curves_and_a_policy_and_says_so(tmp_path: Path) -> None:
    agents = {"Q": Q, "later": OTHER}
    found = stopped(r"Q after \d+ of 300 windows; nothing yet of later; 0 of 4 .* with out=DIR .* would go on", agents)
    assert found.contenders == ["Q"]
    assert not found.finished
    (windows,) = set(found.lanes["stopped_after"])
    assert 3 <= windows < WINDOWS
    assert found.matrix("Q", "return").shape == (2, windows)
    assert curves(found).equals(curves(run({"Q": Q}), windows))
    steps = found.lanes["steps"][0]
    assert windows * WINDOW <= steps < (windows + 1) * WINDOW
    assert weights(found) == weights(run({"Q": Q}, stream=steps, window=steps)), "of this moment, not of the window"
    assert f"stopped after {windows} of 300 windows" in repr(found.policy("Q"))
    policy = remanence.load_policy(found.policy("Q").save(tmp_path / "q.npz"))
    assert policy.about["stopped_after"] == f"{windows} of 300 windows"
    with pytest.raises(UserError, match="unknown agent 'later'"):
        found.policy("later")


def test_every_view_says_that_lives_were_stopped(tmp_path: Path) -> None:
    found = stopped(".*")
    says = f"topped by the callback: Q after {found.lanes['stopped_after'][0]} of 300 windows"
    figure: Any = found.plot(backend="matplotlib")
    for shown in (str(found), repr(found), found._repr_html_(), found.to_latex(), figure.axes[0].get_title(loc="left")):
        assert says in shown
    assert f"s{says}" in found.plot().to_dict()["title"]["subtitle"]
    assert set(found.frame()["agent"]) == {"Q"}
    with pytest.raises(UserError, match=f"^save writes whole lives only .s{says}.: keep policies with"):
        found.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "stopped" not in f"{run(stream=40)} {run(stream=40)!r} {run(stream=40).policy('Q')!r}"


def test_nothing_of_a_stopped_life_is_stored_as_finished(tmp_path: Path) -> None:
    whole, in_memory = run(), stopped(".*")
    found = stopped(r"Q after \d+ of 300 windows; 0 of 2 lives are finished; the same call goes on", out=tmp_path)
    windows = found.lanes["stopped_after"].min()
    assert curves(found).equals(curves(whole, windows))  # type: ignore[arg-type]
    assert found.policy("Q", 1).values(3).keys() == in_memory.policy("Q", 1).values(3).keys()
    assert len(remanence.load_results(found.path).lanes) == 0
    assert not list(found.path.glob("policies/*"))
    (group,) = found.path.glob("groups/*")
    assert not (group / "lanes.parquet").exists()
    with pytest.raises(UserError, match="callback failed"):
        run(out=tmp_path, callback=lambda _: 1 / 0)
    assert not (group / "stopped").exists(), "it went on"
    again = run(out=tmp_path)
    assert again.finished
    assert curves(again).equals(curves(whole))
    assert again.lanes.equals(whole.lanes)
    assert weights(again) == weights(whole)
    assert weights(found) != weights(whole)


class Paid(Corridor):
    pay = 1.0

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward + self.pay, *rest


def set_pay(env: Any, value: float) -> None:
    env.unwrapped.pay = value


def test_agents_with_unequal_lives_are_not_compared() -> None:
    agents = {"first": OTHER, "Q": Q, "later": OTHER}
    switches = remanence.Switches(set_pay, [0.0, 1.0], every=WINDOW * WINDOWS // 2, segments=2)
    says = r"Q after \d+ of 300 windows; nothing yet of later; 2 of 6 lives .*"
    found = stopped(says, agents, env=Paid, stream=switches)
    assert found.lanes["stopped_after"].is_null().to_list() == [True, True, False, False]
    assert found.matrix("first", "return").shape == (2, WINDOWS)
    with pytest.raises(UserError, match=r"^first has 300 windows and Q has \d+, because the callback stopped the run"):
        found.compare("first", "Q")
    with pytest.raises(UserError, match="need whole lives; stopped by the callback: Q after"):
        found.continual()
    turned = {
        **found.description,
        "contenders": {name: found.description["contenders"][name] for name in ("Q", "first")},
    }
    for one in (found, replace(found, description=turned)):
        drawn = one.plot().to_dict()
        parameter = drawn["datasets"][drawn["vconcat"][1]["data"]["name"]]
        assert parameter[-1] == {"window": WINDOW * WINDOWS, "value": 1.0}, "of the longest life"


def test_curves_of_an_agent_end_where_its_shortest_life_does(tmp_path: Path) -> None:
    """The first seed is done, the second was stopped."""
    seen: list[int] = []

    def second(window: Window) -> bool:
        seen.append(window.seed)
        return window.seed == 1 and window.window == 3

    with pytest.warns(UserWarning, match=r"Q after \d+ to 300 of 300 windows; 1 of 2 lives are finished"):
        found = run(out=tmp_path, lanes_per_group=1, callback=second)
    (windows,) = found.stopped.values()
    assert found.matrix("Q", "return").shape == (2, windows)
    assert len(found.frame().filter(metric="return", seed=0)) == WINDOWS, "nothing is lost of the other"
    assert "stopped" not in repr(found.policy("Q", 0))
    assert "stopped" in repr(found.policy("Q", 1))
    diverged = replace(found, lanes=found.lanes.with_columns(diverged=pl.col("seed") == 1))
    assert diverged.matrix("Q", "return").shape == (1, WINDOWS), "a life that is left out cuts no curves"


def test_a_life_without_a_closed_window_has_nothing() -> None:
    """Episodes of unequal length: one seed has closed its first one, the other has not."""

    class Long(Corridor):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            Long.made += 1
            self.endless = Long.made % 2 == 0

        def step(self, action: Any) -> Any:
            if self.endless:
                self.cell = 0
            return super().step(action)

    options = {"stream": remanence.Stationary(episodes=WINDOWS), "window": None}
    found = stopped(r"Q after \d+ of 300 episodes \(1 of 2 seeds\); 0 of 2 .*", env=Long, at=1, **options)
    (seed,) = found.lanes["seed"]
    assert found.policy("Q").about["seed"] == seed
    with pytest.raises(UserError, match=rf"no run of 'Q' with seed {1 - seed}: seeds are \[{seed}\]"):
        found.policy("Q", 1 - seed)


@pytest.mark.long
def test_lives_of_other_processes_are_there_too(tmp_path: Path) -> None:
    agents = {"Q": Q, "later": OTHER}
    found = stopped(r"Q after \d+ of 3000 .*", agents, stream=WINDOW * 3000, out=tmp_path, jobs=2, cores_per_group=1)
    assert "Q" in found.contenders
    assert found.policy("Q").act(3) in (0, 1)
    again = run(agents, stream=WINDOW * 3000, out=tmp_path, jobs=2, cores_per_group=1)
    assert again.finished
    assert not again.stopped


@pytest.mark.parametrize("out", [False, True])
def test_a_stop_in_the_last_window_of_an_agent_stops_the_next_one(out: bool, tmp_path: Path) -> None:
    agents, place = {"Q": Q, "later": OTHER}, tmp_path if out else None
    found = stopped(r"nothing yet of later; 2 of 4 lives are finished; .*", agents, at=WINDOWS, out=place)
    assert found.contenders == ["Q"]
    assert curves(found).equals(curves(run({"Q": Q})))


def test_a_stop_in_the_last_window_of_all_is_no_stop(tmp_path: Path) -> None:
    assert run({"Q": Q}, callback=at_window("Q", WINDOWS), out=tmp_path).finished
    assert len(list((tmp_path / "own").iterdir())) == 1
    assert run({"Q": Q}, callback=at_window("Q", WINDOWS)).finished
