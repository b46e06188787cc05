"""The only interaction loop: one agent, in one world, fed by one stream of tasks.

Functions here are written for one lane; `lanes.py` runs many. Each lane has its own counters, and every random number of a lane
is a function of its key and these counters only. So the results of a lane depend neither on other lanes nor on how a run is split
into rounds and chunks.

Two clocks. If segments are counted in episodes, a *window* of the record is one episode. If they are counted in steps, a window is
a fixed number of steps: episodes may end and start in the middle of it, and all lanes are at the same step. A window ends with its
segment; the last one of a segment is shorter if the length of a window does not divide that of a segment.

A lane *waits* when its window is full or its agent is due to consolidate; otherwise it is *active*. Rare, expensive work is done
for waiting lanes between rounds of steps (`close_window`, `consolidate`): inside a step, all lanes would pay for it at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.base import AT_SWITCH, Agent
from remanence.core.errors import UserError
from remanence.core.tree_utils import tree_where
from remanence.core.types import (
    AgentState,
    Duration,
    Episodes,
    Key,
    Steps,
    TaskObs,
    TimeStep,
    Transition,
    WorldState,
)
from remanence.engine import parts
from remanence.engine.parts import PartsStats
from remanence.streams import Stream
from remanence.worlds.base import HostedWorld, World

NO_EPISODE = 2**31 - 1  # never the number of an episode
# The number of episodes over which returns are averaged, and the weight of the past in the moving average.
LAST_EPISODES, SMOOTHING = 100, 0.99


class Keys(NamedTuple):
    """One key per kind of event; event n of a kind uses `fold_in(key, n)`."""

    steps: Key
    resets: Key
    consolidations: Key
    tasks: Key


class EpisodeStats(NamedTuple):
    """Episodes that ended, if windows count steps. Returns are undiscounted.

    An episode that a task switch truncates is not counted. The first two fields describe the current episode, the next three the
    current window; the others persist.
    """

    under_way: Array  # []  the sum of rewards of the current episode so far
    length: Array  # []  its length so far
    count: Array  # []  episodes that ended in this window
    returns: Array  # []  the sum of their returns
    lengths: Array  # []  the sum of their lengths
    previous_return: Array  # []  `mean_return` of the previous window
    previous_length: Array  # []  `mean_length` of the previous window
    latest: Array  # [LAST_EPISODES]  returns of the last episodes, as a ring; 0 where there is none yet
    ever: Array  # []  episodes that ended since the start of the life
    average: Array  # []  moving average of returns: G adds (1 − SMOOTHING) G; starts at 0

    @property
    def mean_return(self) -> Array:
        """Mean over the episodes that ended in this window; if none did, the previous window's; 0 before the first episode ends."""
        return jnp.where(self.count > 0, self.returns / jnp.maximum(self.count, 1), self.previous_return)

    @property
    def mean_length(self) -> Array:
        """The same for lengths."""
        return jnp.where(self.count > 0, self.lengths / jnp.maximum(self.count, 1), self.previous_length)

    def next_window(self) -> EpisodeStats:
        return self._replace(
            count=jnp.int32(0),
            returns=jnp.float32(0),
            lengths=jnp.int32(0),
            previous_return=self.mean_return,
            previous_length=self.mean_length,
        )


class WindowStats(NamedTuple):
    """Sums over the current window."""

    reward: Array  # []
    discounted: Array  # []
    weight: Array  # []  γ^t, the discount of the next reward
    steps: Array  # []


class Life(NamedTuple):
    """The complete state of one lane."""

    keys: Keys
    agent: AgentState
    world: WorldState
    obs: Array  # [*obs]
    window: WindowStats
    step: Array  # [] steps taken
    episode: Array  # [] episodes finished
    consolidations: Array  # [] consolidations done
    ended: Array  # [] the window is full and not yet closed
    waiting: Array  # [] the lane waits
    episodes: EpisodeStats | None  # None if a window is an episode
    parts: PartsStats | None = None  # None if they are not watched


class ProbeInput(NamedTuple):
    """The input of a probe at the end of a window: an episode, or a number of steps."""

    agent: AgentState
    task_id: Array  # [] the task of the window's last step
    window: WindowStats
    episodes: EpisodeStats | None = None
    world: WorldState = None
    obs: Any = None  # [*obs] what the agent sees next
    parts: PartsStats | None = None


Probe: TypeAlias = Callable[[ProbeInput], Any]  # -> pytree of measurements; recorded once per window


class LifeConfig(NamedTuple):
    """What all lanes of a compiled program share."""

    agent: Agent
    world: World
    stream: Stream
    probe: Probe
    max_steps: int | None = None
    """a lane that needs more steps is stopped: an agent whose values diverge may never end an episode"""
    window: int = 1
    """steps per window, if the stream counts steps"""
    watch_parts: bool = False
    """whether consolidations are measured (`engine/parts.py`)"""

    @property
    def by_steps(self) -> bool:
        return isinstance(self.stream.segment_length, Steps)

    @property
    def windows(self) -> int:
        """The number of windows of a life."""
        return self.stream.windows(self.window)

    @property
    def consolidate_every(self) -> Duration | None:
        """The interval between two consolidations."""
        if self.agent.consolidate_every == AT_SWITCH:
            return self.stream.segment_length
        return self.agent.consolidate_every  # type: ignore[return-value]

    def check(self) -> None:
        """Raises for combinations that cannot work."""
        if not isinstance(self.world, World):
            raise UserError(
                f"a world derives from remanence.worlds.World; {type(self.world).__name__} does not (see docs/own/world.md)"
            )
        if isinstance(self.world, HostedWorld) and not (self.world.endless or self.world.resets_itself):
            raise UserError(f"a hosted world is endless or resets itself; {type(self.world).__name__} is neither")
        if self.window < 1 or (self.by_steps and self.window > self.stream.segment_length.count):
            raise UserError(
                f"a window has from 1 to {self.stream.segment_length.count} steps, as many as a segment; got {self.window}"
            )
        if not self.by_steps and self.window != 1:
            raise UserError("window is for streams that count steps: this one counts episodes")
        if self.by_steps and isinstance(self.consolidate_every, Episodes):
            raise UserError("this stream counts steps: let the agent consolidate every n steps, not episodes")
        if self.agent.consolidate_every == AT_SWITCH and not (self.stream.boundaries_known or self.agent.task_aware):
            raise UserError(
                "this agent needs to know task boundaries, but this stream does not reveal them: "
                "give boundaries_known=True, or an agent that needs none"
            )
        if self.consolidate_every is not None and self.consolidate_every.count < 1:
            raise UserError(
                f"consolidation must happen every 1 or more episodes or steps; got {self.consolidate_every.count}"
            )


def init_life(config: LifeConfig, hypers: Any, key: Key) -> Life:
    """A life before the first step."""
    k_agent, k_steps, k_resets, k_consolidations = jax.random.split(key, 4)
    k_tasks = config.stream.task_key(key, jax.random.fold_in(k_resets, NO_EPISODE))
    world, obs = config.world.reset(jax.random.fold_in(k_resets, 0), config.stream.task(jnp.int32(0), k_tasks))
    agent = config.agent.init(k_agent, hypers)
    life = Life(
        keys=Keys(k_steps, k_resets, k_consolidations, k_tasks),
        agent=agent,
        world=world,
        obs=obs,
        window=_empty_window(),
        step=jnp.int32(0),
        episode=jnp.int32(0),
        consolidations=jnp.int32(0),
        ended=jnp.bool_(False),
        waiting=jnp.bool_(False),
        episodes=_no_episodes() if config.by_steps else None,
        parts=parts.begin(agent) if config.watch_parts else None,
    )
    return life._replace(waiting=is_due(config, life))


def first_reset_key(key: Key) -> Key:
    """The key of the first reset of a life with this key."""
    return jax.random.fold_in(jax.random.split(key, 4)[2], 0)


def step(config: LifeConfig, hypers: Any, life: Life) -> Life:
    """One step: act, observe, learn. A waiting lane computes the same, and the result is discarded."""
    agent, world, stream = config.agent, config.world, config.stream
    active = ~life.waiting
    k_act, k_world, k_learn = jax.random.split(jax.random.fold_in(life.keys.steps, life.step), 3)

    segment = _segment(config, life)
    task = stream.task(segment, life.keys.tasks)

    def show(obs: Array) -> Any:
        return TaskObs(obs, stream.task_id(segment, life.keys.tasks)) if agent.task_aware else obs

    action = agent.act(life.agent, hypers, show(life.obs), k_act)
    if isinstance(world, HostedWorld):
        world_state, seen = world.step_active(k_world, life.world, action, task, active)
    else:
        world_state, seen = world.step(k_world, life.world, action, task)
    completed = seen.last if seen.completed is None else seen.completed
    if config.by_steps and stream.truncate_on_switch:  # truncated, not terminated: keep the discount
        seen = seen._replace(last=seen.last | ((life.step + 1) % stream.segment_length.count == 0))
    transition = Transition(show(life.obs), action, seen.reward, seen.discount, show(seen.obs), seen.last, valid=active)
    agent_state = agent.learn(life.agent, hypers, transition, k_learn)

    moved = life._replace(
        agent=agent_state,
        world=tree_where(active, world_state, life.world),
        obs=jnp.where(active, seen.obs if seen.reset_obs is None else seen.reset_obs, life.obs),
        window=tree_where(active, _add(life.window, seen.reward, world.discount), life.window),
        step=life.step + active,
    )
    if life.parts is not None:
        learned = agent.learned_reward(seen.reward)
        moved = moved._replace(parts=tree_where(active, parts.see_reward(life.parts, learned), life.parts))
    if config.by_steps:
        moved = moved._replace(
            episodes=tree_where(active, _count(life.episodes, seen, completed), life.episodes),
            ended=life.ended | (active & _is_full(config, moved.step)),
        )
        if not world.endless:
            moved = _begin_episode(config, moved, active & seen.last, segment)
    else:
        moved = moved._replace(ended=life.ended | (active & seen.last))
    return moved._replace(waiting=life.waiting | moved.ended | is_due(config, moved) | is_done(config, moved))


def close_window(config: LifeConfig, life: Life) -> Life:
    """Closes a full window. The lane becomes active again unless it is done or due to consolidate."""
    following = life if config.by_steps else _begin_episode(config, life, life.ended, _segment(config, life))
    following = following._replace(window=tree_where(life.ended, _empty_window(), life.window), ended=jnp.bool_(False))
    if life.episodes is not None:
        following = following._replace(episodes=tree_where(life.ended, life.episodes.next_window(), life.episodes))
    return following._replace(waiting=is_done(config, following) | is_due(config, following))


def _begin_episode(config: LifeConfig, life: Life, done: Array, segment: Array) -> Life:
    """Restarts the world if `done`; `segment` is that of the last step."""
    following = life._replace(episode=life.episode + done)
    if config.world.resets_itself:
        return following
    k_reset = jax.random.fold_in(life.keys.resets, following.episode)
    following_segment = _segment(config, following)
    task = config.stream.task(following_segment, life.keys.tasks)
    world, obs = config.world.restart(k_reset, life.world, task, following_segment != segment)
    return following._replace(world=tree_where(done, world, life.world), obs=jnp.where(done, obs, life.obs))


def consolidate(config: LifeConfig, hypers: Any, life: Life) -> Life:
    """Consolidates if it is due; not after the last task."""
    due = is_due(config, life) & ~life.ended & ~is_done(config, life)
    key = jax.random.fold_in(life.keys.consolidations, life.consolidations)
    agent = config.agent.consolidate(life.agent, hypers, key, due)
    consolidated = life._replace(
        agent=tree_where(due, agent, life.agent),
        consolidations=life.consolidations + due,
    )
    if life.parts is not None:
        measured = parts.at_consolidation(life.parts, config.agent, life.agent, agent)
        consolidated = consolidated._replace(parts=tree_where(due, measured, life.parts))
    return consolidated._replace(waiting=jnp.where(due, False, life.waiting))


def probe_input(config: LifeConfig, life: Life) -> ProbeInput:
    """The input of the probe at the end of the current window."""
    before = life._replace(step=jnp.maximum(life.step - 1, 0))  # the segment of the last step
    task_id = config.stream.task_id(_segment(config, before), life.keys.tasks)
    return ProbeInput(life.agent, task_id, life.window, life.episodes, life.world, life.obs, life.parts)


def windows(config: LifeConfig, life: Life) -> Array:
    """The number of closed windows."""
    if not config.by_steps:
        return life.episode
    length = config.stream.segment_length.count
    if length % config.window == 0:
        return life.step // config.window - life.ended
    return life.step // length * -(-length // config.window) + life.step % length // config.window - life.ended


def _is_full(config: LifeConfig, step: Array) -> Array:
    """Whether a window ends after this number of steps."""
    length = config.stream.segment_length.count
    return (step if length % config.window == 0 else step % length) % config.window == 0


def is_done(config: LifeConfig, life: Life) -> Array:
    """Whether all windows are closed, or the lane is stopped at `max_steps`."""
    complete = windows(config, life) >= config.windows
    return complete if config.max_steps is None else complete | (life.step >= config.max_steps)


def is_due(config: LifeConfig, life: Life) -> Array:
    """Whether the next consolidation is due."""
    if config.consolidate_every is None:
        return jnp.bool_(False)
    clock = life.step if isinstance(config.consolidate_every, Steps) else life.episode + config.consolidate_every.lead
    return clock // config.consolidate_every.count > life.consolidations


def _segment(config: LifeConfig, life: Life) -> Array:
    return (life.step if config.by_steps else life.episode) // config.stream.segment_length.count


def _empty_window() -> WindowStats:
    return WindowStats(jnp.float32(0), jnp.float32(0), jnp.float32(1), jnp.int32(0))


def _add(window: WindowStats, reward: Array, discount: float) -> WindowStats:
    return WindowStats(
        window.reward + reward, window.discounted + window.weight * reward, window.weight * discount, window.steps + 1
    )


def _no_episodes() -> EpisodeStats:
    none, zero = jnp.float32(0), jnp.int32(0)
    latest = jnp.zeros(LAST_EPISODES, jnp.float32)
    return EpisodeStats(none, zero, zero, none, zero, none, none, latest, zero, none)


def _count(episodes: EpisodeStats | None, seen: TimeStep, completed: Array) -> EpisodeStats:
    assert episodes is not None
    so_far, length = episodes.under_way + seen.reward, episodes.length + 1
    place = episodes.ever % LAST_EPISODES
    return episodes._replace(
        under_way=jnp.where(seen.last, 0.0, so_far),
        length=jnp.where(seen.last, 0, length),
        count=episodes.count + completed,
        returns=episodes.returns + jnp.where(completed, so_far, 0.0),
        lengths=episodes.lengths + jnp.where(completed, length, 0),
        latest=episodes.latest.at[place].set(jnp.where(completed, so_far, episodes.latest[place])),
        ever=episodes.ever + completed,
        average=jnp.where(completed, SMOOTHING * episodes.average + (1 - SMOOTHING) * so_far, episodes.average),
    )
