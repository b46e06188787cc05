"""Streams that count steps: windows of steps, episodes that end inside a window, switches that may truncate them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from remanence.agents import Agent
from remanence.agents.base import AT_SWITCH, ConsolidateEvery
from remanence.core.errors import UserError
from remanence.core.types import Duration, Episodes, Hypers, Key, ObsSpec, Steps, TaskObs, TimeStep, Transition
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, Probe, ProbeInput
from remanence.engine.probes import episode_curves, episode_return, latest_returns
from remanence.streams import Stream
from remanence.worlds.base import World

NOTES = 40


@dataclass(frozen=True)
class Ladder(World):
    """Climbs one rung per step and pays the task's reward; the top rung ends the episode. Observation: the rung."""

    rungs: int = 3
    discount: float = 0.5
    num_actions = 1
    observation = ObsSpec((), "int32")

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del key, task
        return jnp.int32(0), jnp.int32(0)

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        del key, action
        rung = state + 1
        ended = rung >= self.rungs
        return rung, TimeStep(rung, task, jnp.where(ended, 0.0, self.discount), ended)


@cache
def notebook(consolidate_every: ConsolidateEvery = None, task_aware: bool = False) -> Agent:
    """Writes down every transition it is given: (rung before, rung after, reward, discount, last, task)."""

    def learn(state: Any, hypers: Hypers, transition: Transition, key: Key) -> Any:
        del hypers, key
        notes, count, times = state
        obs, after = transition.obs, transition.next_obs
        task = obs.task if isinstance(obs, TaskObs) else -1
        if isinstance(obs, TaskObs) and isinstance(after, TaskObs):
            obs, after = obs.obs, after.obs
        row = jnp.array([obs, after, transition.reward, transition.discount, transition.last, task], jnp.float32)
        return (
            notes.at[jnp.where(transition.valid, count, NOTES)].set(row, mode="drop"),
            count + transition.valid,
            times,
        )

    return Agent(
        init=lambda *_: (jnp.zeros((NOTES, 6)), jnp.int32(0), jnp.int32(0)),
        act=lambda *_: jnp.int32(0),
        learn=learn,
        consolidate=lambda state, *_: (state[0], state[1], state[2] + 1),
        inspect=lambda *_: {},
        consolidate_every=consolidate_every,
        task_aware=task_aware,
    )


def probe(probe_input: ProbeInput) -> dict[str, Array]:
    assert probe_input.episodes is not None
    return {
        **probe_input.window._asdict(),
        "task": probe_input.task_id,
        "count": probe_input.episodes.count,
        "returns": probe_input.episodes.returns,
        **latest_returns(probe_input),
    }


def consolidations(probe_input: ProbeInput) -> dict[str, Array]:
    return {"consolidated": probe_input.agent[2]}


@cache
def live(
    agent: Agent,
    window: int,
    segment_length: int,
    truncate_on_switch: bool = False,
    round_steps: int = 4,
    probe: Probe = probe,
) -> Any:
    stream = Stream(
        np.array([1.0, 10.0], np.float32),
        (0, 1, 0),
        Steps(segment_length),
        boundaries_known=True,
        truncate_on_switch=truncate_on_switch,
    )
    setting = LifeConfig(agent, Ladder(), stream, probe, window=window)
    return Driver(setting, round_steps=round_steps).run([0.0] * 3, [0, 1, 2])


def test_windows_are_pages() -> None:
    """Segments of 8 steps in windows of 4; episodes of 3 steps run on over windows and switches."""
    outcome = live(notebook(), window=4, segment_length=8)
    record = {name: values[0].tolist() for name, values in outcome.record.items()}
    assert outcome.steps.tolist() == [24, 24, 24]
    assert record["steps"] == [4] * 6
    assert record["reward"] == [4, 4, 40, 40, 4, 4]
    assert record["task"] == [0, 0, 1, 1, 0, 0]
    # Episodes end with steps 3, 6, 9, 12, …: the one that ends with step 9 brought 1 + 1 + 10.
    assert record["count"] == [1, 1, 2, 1, 1, 2]
    assert record["returns"] == [3, 3, 12 + 30, 30, 10 + 1 + 1, 3 + 3]
    notes = outcome.agents[0][0, :24]
    assert notes[:, 0].tolist() == [0, 1, 2] * 8
    assert notes[:, 1].tolist() == [1, 2, 3] * 8
    assert notes[:, 3].tolist() == [0.5, 0.5, 0] * 8
    assert notes[:, 4].tolist() == [0, 0, 1] * 8


@pytest.mark.parametrize("round_steps", [4, 64])
def test_the_last_window_of_a_segment_may_be_shorter(round_steps: int) -> None:
    """Segments of 8 steps in windows of 3, 3 and 2 steps: no window has two tasks, and learning is as with other windows."""
    outcome = live(notebook(), window=3, segment_length=8, round_steps=round_steps)
    record = {name: values[0].tolist() for name, values in outcome.record.items()}
    assert outcome.steps.tolist() == [24, 24, 24]
    assert record["steps"] == [3, 3, 2] * 3
    assert record["reward"] == [3, 3, 2, 30, 30, 20, 3, 3, 2]
    assert record["task"] == [0] * 3 + [1] * 3 + [0] * 3
    assert record["count"] == [1, 1, 0, 1, 1, 1, 1, 1, 1]  # episodes end with steps 3, 6, 9, …, 24
    assert record["returns"] == [3, 3, 0, 12, 30, 30, 12, 3, 3]
    np.testing.assert_allclose(record["reward_rate"], [1, 1, 1, 10, 10, 10, 1, 1, 1])
    np.testing.assert_array_equal(outcome.agents[0], live(notebook(), window=4, segment_length=8).agents[0])


@pytest.mark.parametrize("consolidate_every", [Steps(5), AT_SWITCH])
def test_consolidations_with_windows_that_do_not_divide_a_segment(consolidate_every: ConsolidateEvery) -> None:
    """After steps 5, 10, 15, 20, or 8 and 16; windows end after steps 3, 6, 8, 11, 14, 16, 19, 22, 24, before a consolidation."""
    outcome = live(notebook(consolidate_every), window=3, segment_length=8, probe=consolidations)
    by_steps = [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert (
        outcome.record["consolidated"][0].tolist()
        == ([0, 0, 0, 1, 1, 1, 2, 2, 2], by_steps)[consolidate_every != AT_SWITCH]
    )


def test_returns_of_the_last_episodes() -> None:
    """Worked by hand: episodes bring 3, 3, 12, 30, 30, 12, 3, 3; the moving average begins at 0."""
    record = {name: values[0] for name, values in live(notebook(), window=4, segment_length=8).record.items()}
    brought = [3, 3, 12, 30, 30, 12, 3, 3]
    done = [1, 2, 4, 5, 6, 8]  # by the end of each window
    np.testing.assert_allclose(record["return_last100"], [np.mean(brought[:n]) for n in done], rtol=1e-6)
    np.testing.assert_allclose(record["return"], [3, 3, 21, 30, 12, 3])
    np.testing.assert_allclose(record["reward_rate"], [1, 1, 10, 10, 1, 1])
    average, averages = 0.0, []
    for one in brought:
        averages.append(average := 0.99 * average + 0.01 * one)
    np.testing.assert_allclose(record["return_average"], [averages[n - 1] for n in done], rtol=1e-5)


def test_older_episodes_no_longer_count() -> None:
    """Of 120 episodes, the last hundred: rewards are 1 for the first 60 episodes of three steps, then 10."""
    stream = Stream(np.array([1.0, 10.0], np.float32), (0, 1), Steps(180), boundaries_known=True)
    record = Driver(LifeConfig(notebook(), Ladder(), stream, latest_returns, window=90)).run([0.0], [0]).record
    np.testing.assert_allclose(
        record["return_last100"][0], [3, 3, (60 * 3 + 30 * 30) / 90, (40 * 3 + 60 * 30) / 100], rtol=1e-6
    )


def test_a_switch_may_cut_an_episode_off() -> None:
    """Step 8 is the second of an episode: it is the last one, but its discount stays, and the next begins at the bottom."""
    outcome = live(notebook(), window=4, segment_length=8, truncate_on_switch=True)
    notes = outcome.agents[0][0, :24]
    assert notes[:8, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert notes[:8, 4].tolist() == [0, 0, 1, 0, 0, 1, 0, 1]
    assert notes[7, 3] == 0.5
    assert notes[8, 0] == 0
    # What it had brought by then is not a return: of each task two whole episodes count.
    record = {name: values[0].tolist() for name, values in outcome.record.items()}
    assert record["episodes"] == record["count"] == [1, 1] * 3
    assert record["return"] == [3, 3, 30, 30, 3, 3]
    assert record["return_last100"][-1] == (4 * 3 + 2 * 30) / 6


def test_a_window_without_an_end_keeps_the_value_before() -> None:
    """Windows of 2 steps, episodes of 3: they end with steps 3, 6, 9, … 24, so every third window has none; the first too."""
    stream = Stream(np.array([1.0, 10.0], np.float32), (0, 1, 0), Steps(8), boundaries_known=True)
    record = Driver(LifeConfig(notebook(), Ladder(), stream, episode_curves, window=2)).run([0.0], [0]).record
    assert record["episodes"][0].tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1]
    assert record["return"][0].tolist() == [0, 3, 3, 3, 12, 30, 30, 30, 12, 12, 3, 3]
    assert record["episode_length"][0].tolist() == [0, *[3] * 11]
    assert record["reward_rate"][0].tolist() == [1] * 4 + [10] * 4 + [1] * 4


def test_lengths_are_those_of_whole_episodes() -> None:
    """A ladder of 5 rungs, cut off every 8 steps: of the steps 6 to 8 of a segment nothing is counted."""
    stream = Stream(np.ones(1, np.float32), (0, 0), Steps(8), boundaries_known=True, truncate_on_switch=True)
    record = Driver(LifeConfig(notebook(), Ladder(5), stream, episode_curves, window=8)).run([0.0], [0]).record
    assert {name: values[0].tolist() for name, values in record.items()} == {
        "return": [5, 5],
        "reward_rate": [1, 1],
        "episode_length": [5, 5],
        "episodes": [1, 1],
    }


def test_where_episodes_are_windows() -> None:
    stream = Stream(np.array([1.0, 10.0], np.float32), (0, 1), Episodes(2), boundaries_known=True)
    record = Driver(LifeConfig(notebook(), Ladder(), stream, episode_curves)).run([0.0], [0]).record
    assert {name: values[0].tolist() for name, values in record.items()} == {
        "return": [3, 3, 30, 30],
        "reward_rate": [1, 1, 10, 10],
        "episode_length": [3] * 4,
        "episodes": [1] * 4,
    }


@pytest.mark.parametrize(
    ("clock", "probe", "instead"),
    [(Steps(8), episode_return(), "latest_returns"), (Episodes(8), latest_returns, "episode_return")],
)
def test_a_probe_for_the_other_clock_is_refused(clock: Duration, probe: Probe, instead: str) -> None:
    stream = Stream(np.ones(1, np.float32), (0,), clock, boundaries_known=True)
    with pytest.raises(UserError, match=f"use {instead}"):
        Driver(LifeConfig(notebook(), Ladder(), stream, probe)).run([0.0], [0])


class Interrupted(Ladder):
    """Says that none of its episodes is completed."""

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        rung, seen = super().step(key, state, action, task)
        return rung, seen._replace(completed=jnp.bool_(False))


def test_a_world_can_say_that_an_episode_was_cut_off() -> None:
    """The episode is truncated and counts nowhere; the next one starts."""
    stream = Stream(np.ones(1, np.float32), (0,), Steps(12), boundaries_known=True)
    outcome = Driver(LifeConfig(notebook(), Interrupted(), stream, latest_returns, window=6)).run([0.0], [0])
    assert outcome.agents[0][0, :12, 0].tolist() == [0, 1, 2] * 4
    assert {name: values[0].tolist() for name, values in outcome.record.items()} == {
        "return_last100": [0, 0],
        "return_average": [0, 0],
        "return": [0, 0],
        "episodes": [0, 0],
        "reward_rate": [1, 1],
    }


@pytest.mark.parametrize("round_steps", [1, 4, 5])
@pytest.mark.parametrize(
    ("consolidate_every", "expected"), [(Steps(6), [0, 1, 1, 2, 3, 3]), (AT_SWITCH, [0, 0, 1, 1, 2, 2])]
)
def test_consolidation_by_steps(consolidate_every: ConsolidateEvery, expected: list[int], round_steps: int) -> None:
    """After steps 6, 12, 18 (and 24, when life is over and nothing is consolidated), or at the two switches."""
    agent = notebook(consolidate_every)
    outcome = live(agent, window=4, segment_length=8, round_steps=round_steps, probe=consolidations)
    assert outcome.record["consolidated"][0].tolist() == expected
    assert outcome.agents[1].tolist() == [24] * 3


def test_agents_that_are_told_the_task_see_it() -> None:
    notes = live(notebook(task_aware=True), window=4, segment_length=8, probe=consolidations).agents[0][0, :24]
    assert notes[:, 5].tolist() == [0] * 8 + [1] * 8 + [0] * 8


@pytest.mark.parametrize(
    ("window", "segment_length", "consolidate_every", "complaint"),
    [
        (9, Steps(8), None, "from 1 to 8 steps, as many as a segment; got 9"),
        (0, Steps(8), None, "got 0"),
        (2, Episodes(8), None, "counts episodes"),
        (4, Steps(8), Episodes(2), "every n steps"),
    ],
)
def test_clocks_that_do_not_fit_are_refused(
    window: int, segment_length: Duration, consolidate_every: ConsolidateEvery, complaint: str
) -> None:
    stream = Stream(np.ones(1, np.float32), (0,), segment_length, boundaries_known=True)
    with pytest.raises(UserError, match=complaint):
        Driver(LifeConfig(notebook(consolidate_every), Ladder(), stream, lambda _: 0.0, window=window))
