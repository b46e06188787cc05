"""The loop, one lane, step by step: what the agent is shown, when a window closes, when it consolidates; what is refused.

Whole lives of several lanes: tests/learning/test_lives.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from conftest import GRID, TASKS, TD_RESET, pt, same, stream
from remanence.agents import AT_SWITCH, Agent
from remanence.agents import ring as rings
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Episodes, Key, ObsSpec, Steps, TimeStep, Transition
from remanence.engine import life as lives
from remanence.engine.lanes import Driver
from remanence.engine.life import Life, LifeConfig
from remanence.streams import Stream
from remanence.worlds.base import World

# A world of known transitions and an agent that only writes down what it is shown.


@dataclass(frozen=True)
class Corridor(World):
    """Cells 10·task, +1, +2, …; after three steps the episode is cut short, but not terminated."""

    num_actions: int = 2
    discount: float = 0.5
    observation = ObsSpec((), "int32")

    def reset(self, key: Key, task: Array) -> tuple[Array, Array]:
        del key
        return 10 * task, 10 * task

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        del key, action
        cell = state + 1
        return cell, TimeStep(cell, jnp.float32(cell), jnp.float32(0.5), cell == 10 * task + 3)


SHOWN = Transition(*[jnp.float32(0)] * 7)
SCRIBE = Agent(
    init=lambda key, hypers: rings.make_ring(SHOWN, 20),  # noqa: ARG005
    act=lambda state, hypers, obs, key: jnp.int32(1),  # noqa: ARG005
    learn=lambda state, hypers, seen, key: rings.append(state, jax.tree.map(jnp.float32, seen), seen.valid),  # noqa: ARG005
    consolidate=lambda state, *_: rings.emptied(state),
    inspect=lambda state, obs: {"value": jnp.zeros(1)},  # noqa: ARG005
    consolidate_every=AT_SWITCH,
)
CONFIG = LifeConfig(
    SCRIBE,
    Corridor(),
    Stream(np.array([3, 5]), (0, 1), Episodes(2), boundaries_known=True),
    lambda probe_input: probe_input,
)
step = jax.jit(lambda life: lives.step(CONFIG, None, life))
close_window = jax.jit(lambda life: lives.close_window(CONFIG, life))
consolidate = jax.jit(lambda life: lives.consolidate(CONFIG, None, life))


def newborn() -> Life:
    return lives.init_life(CONFIG, None, make_key(0))


def shown(life: Life) -> list[Transition]:
    """What the agent was shown, oldest first."""
    return [rings.read(life.agent, jnp.int32(age)) for age in range(int(rings.size(life.agent)))]


def after(life: Life, steps: int) -> Life:
    for _ in range(steps):
        life = step(life)
    return life


def test_agent_is_shown_where_each_action_led() -> None:
    """A cut episode keeps its discount (so values bootstrap) and shows the cell it led to, not the next start."""
    life = after(newborn(), 3)
    assert [(float(seen.obs), float(seen.next_obs)) for seen in shown(life)] == [(30, 31), (31, 32), (32, 33)]
    assert [float(seen.reward) for seen in shown(life)] == [31, 32, 33]
    assert [float(seen.discount) for seen in shown(life)] == [0.5, 0.5, 0.5]
    assert [bool(seen.last) for seen in shown(life)] == [False, False, True]
    assert [float(seen.action) for seen in shown(life)] == [1, 1, 1]


def test_tally_of_an_episode() -> None:
    """31 + 32 + 33, discounted 31 + 16 + 8.25, and the next reward would count for 1/8."""
    measured = lives.probe_input(CONFIG, after(newborn(), 3))
    assert [float(part) for part in measured.window] == [96, 55.25, 0.125, 3]
    assert int(measured.task_id) == 0


@dataclass(frozen=True)
class Remembering(Corridor):
    """Counts its steps over episodes, in thousands, until the segment changes."""

    def step(self, key: Key, state: Array, action: Array, task: Array) -> tuple[Array, TimeStep]:
        cell, seen = super().step(key, state % 1000, action, task)
        return state // 1000 * 1000 + 1000 + cell, seen

    def restart(self, key: Key, before: Array, task: Array, switched: Array) -> tuple[Array, Array]:
        first, obs = self.reset(key, task)
        return first + jnp.where(switched, 0, before // 1000 * 1000), obs


@pytest.mark.parametrize("by_steps", [False, True])
def test_a_world_may_remember_the_episode_before_until_the_segment_changes(by_steps: bool) -> None:
    """Segments of two episodes of three steps, or of seven steps, which truncate the third episode."""
    length = Steps(7) if by_steps else Episodes(2)
    stream = Stream(np.array([3, 5]), (0, 1, 0), length, boundaries_known=True, truncate_on_switch=by_steps)
    config = LifeConfig(SCRIBE, Remembering(), stream, lambda probe_input: {"steps": probe_input.world // 1000})
    steps = Driver(config).run([0.0], [0]).record["steps"][0].tolist()
    # Where a window is a step, the probe sees the world after it has restarted.
    assert steps == [1, 2, 3, 4, 5, 6, 0] * 3 if by_steps else steps == [3, 6] * 3


def test_a_resting_lane_changes_nothing_but_the_scratch_slot() -> None:
    life = after(newborn(), 3)
    assert bool(life.ended)
    assert bool(life.waiting)
    waited = after(life, 2)
    kept = waited._replace(agent=life.agent)
    for one, other in zip(
        jax.tree.leaves(life._replace(keys=None)), jax.tree.leaves(kept._replace(keys=None)), strict=True
    ):
        assert same(one, other)
    assert len(shown(waited)) == len(shown(life)) == 3
    assert int(waited.agent.count) == 3


def test_pages_turn_and_tasks_switch() -> None:
    """Two episodes of task 3, consolidation, two of task 5, and then no more: nothing is consolidated at the end."""
    life = close_window(after(newborn(), 3))
    assert (int(life.episode), int(life.obs), bool(life.waiting), bool(life.ended)) == (1, 30, False, False)
    assert [float(part) for part in life.window] == [0, 0, 1, 0]

    life = close_window(after(life, 3))  # the second episode ends the segment
    assert (int(life.episode), int(life.obs), bool(life.waiting)) == (2, 50, True)
    assert after(life, 1).obs == 50  # it waits until it has consolidated
    assert len(shown(life)) == 6
    life = consolidate(life)
    assert (int(life.consolidations), bool(life.waiting), len(shown(life))) == (1, False, 0)
    again = consolidate(life)  # not due any more
    assert int(again.consolidations) == 1

    for _ in range(2):
        assert not bool(lives.is_done(CONFIG, life))
        life = close_window(after(life, 3))
    assert int(life.episode) == 4
    assert bool(lives.is_done(CONFIG, life))
    life = consolidate(life)
    assert (int(life.consolidations), bool(life.waiting), len(shown(life))) == (1, True, 6)
    assert int(close_window(after(life, 4)).step) == 12


def test_nothing_is_consolidated_in_the_middle_of_turning_a_page() -> None:
    """An episode that has ended is measured before consolidation changes what the agent knows."""
    life = close_window(after(newborn(), 3))
    ended = after(life, 3)._replace(episode=jnp.int32(2))  # due by the clock, but the page is not turned yet
    assert int(consolidate(ended).consolidations) == 0


@pytest.mark.parametrize(
    ("agent", "feed", "complaint"),
    [
        (pt(consolidate_every=AT_SWITCH), stream(boundaries_known=False), "does not reveal"),
        (TD_RESET, stream(boundaries_known=False), "does not reveal"),
        (pt(consolidate_every=Episodes(3)), Stream(TASKS, (0,), Steps(100), boundaries_known=True), "every n steps"),
        (pt(consolidate_every=Episodes(0)), stream(), "every 1 or more"),
    ],
)
def test_combinations_that_can_only_be_mistakes_are_refused(agent: Agent, feed: Stream, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Driver(LifeConfig(agent, GRID, feed, lambda _: 0.0))
