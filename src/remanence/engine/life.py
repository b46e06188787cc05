"""The only interaction loop: one agent, in one world, fed by one stream of tasks.

Functions here are written for one lane; `lanes.py` runs many. Every lane keeps its own clocks, and every random number
of a lane is a function of its key and those clocks alone. So what a lane does depends neither on the lanes beside it nor on
how a run is cut into rounds and chunks.

Two clocks. Where a stream's span is counted in episodes, a *page* of the record is an episode. Where it is counted in steps, a page
is a window of steps: episodes, if the world has any, begin anew in the middle of it, and lanes keep the same time.

A lane *rests* when a page is full or its agent is due to consolidate. Rare and heavy work is done for resting lanes
between rounds of steps (`turn_page`, `consolidate`): inside a step it would be paid by all lanes at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from remanence.agents.base import AT_SWITCH, Agent
from remanence.core.errors import UserError
from remanence.core.masking import taking_part
from remanence.core.tree_utils import choose
from remanence.core.types import AgentState, Episodes, Hypers, Key, Span, Steps, TimeStep, Told, Transition, WorldState
from remanence.streams import Stream
from remanence.worlds.base import World, begins_itself, is_endless

NO_EPISODE = 2**31 - 1  # a number no episode will ever have
# Over how many episodes returns are averaged, and how slowly a moving average forgets.
LAST_EPISODES, SMOOTHING = 100, 0.99


class Keys(NamedTuple):
    """One key per kind of event; event n of a kind uses `fold_in(key, n)`."""

    steps: Key
    resets: Key
    consolidations: Key
    tasks: Key


class Finished(NamedTuple):
    """What became of episodes, where pages are windows of steps. A return is here a plain sum of rewards.

    An episode that a switch cuts off is not among them.
    """

    under_way: Array  # []  the rewards so far of the episode under way; it outlives the page
    count: Array  # []  episodes that ended in this page
    returns: Array  # []  the sum of their returns
    latest: Array  # [LAST_EPISODES]  returns of the last episodes, a ring by number of episode; 0 where there were none
    ever: Array  # []  episodes that ended since the beginning
    average: Array  # []  moving average of returns: an episode adds 1 − SMOOTHING of its own; begins at 0


class Tally(NamedTuple):
    """What the page under way has brought so far."""

    reward: Array  # []
    discounted: Array  # []
    weight: Array  # []  the discount of the next reward, seen from the start of the page
    steps: Array  # []


class Life(NamedTuple):
    """Everything that decides the future of one lane."""

    keys: Keys
    agent: AgentState
    world: WorldState
    obs: Array  # [*obs]
    tally: Tally
    step: Array  # [] steps lived
    episode: Array  # [] episodes finished
    consolidations: Array  # [] consolidations done
    ended: Array  # [] the page is full (an episode is over), the next one has not begun
    resting: Array  # [] the lane waits
    finished: Finished | None  # None where pages are episodes


class Moment(NamedTuple):
    """What a probe sees at the end of a page: of an episode, or of a window of steps."""

    agent: AgentState
    task_id: Array  # [] the task that was live
    tally: Tally
    finished: Finished | None = None
    world: WorldState = None


Probe: TypeAlias = Callable[[Moment], Any]  # -> pytree of measurements; recorded once per page


class Setting(NamedTuple):
    """What all lanes of a program share."""

    agent: Agent
    world: World
    stream: Stream
    probe: Probe
    most_steps: int | None = None
    """a lane that needs more is stopped: values that explode can keep an agent in one episode for ever"""
    window: int = 1
    """steps per page, where the clock counts steps"""

    @property
    def by_steps(self) -> bool:
        return isinstance(self.stream.span, Steps)

    @property
    def pages(self) -> int:
        """How many pages a life has: episodes, or windows of steps."""
        return self.stream.pages(self.window)

    @property
    def period(self) -> Span | None:
        """The span between two consolidations."""
        if self.agent.rhythm == AT_SWITCH:
            return self.stream.span
        return self.agent.rhythm  # type: ignore[return-value]

    def check(self) -> None:
        """Refuses combinations that could only be a mistake."""
        if self.window < 1 or (self.by_steps and self.stream.span.count % self.window):
            raise UserError(
                f"a window must fit a whole number of times into a segment of {self.stream.span.count} steps; got {self.window}"
            )
        if not self.by_steps and self.window != 1:
            raise UserError("windows are for streams that count steps: this one counts episodes")
        if self.by_steps and isinstance(self.period, Episodes):
            raise UserError("this stream counts steps: give the agent a rhythm in steps, not in episodes")
        if self.agent.rhythm == AT_SWITCH and not (self.stream.told or self.agent.knows_task):
            raise UserError(
                "this agent consolidates at switches, but the stream does not tell of them: "
                "give the agent a rhythm in episodes or steps"
            )
        if self.period is not None and self.period.count < 1:
            raise UserError(f"consolidation must happen every 1 or more episodes or steps; got {self.period.count}")


def born(setting: Setting, hypers: Hypers, key: Key) -> Life:
    """A life before its first step."""
    k_agent, k_steps, k_resets, k_consolidations = jax.random.split(key, 4)
    k_tasks = jax.random.fold_in(k_resets, NO_EPISODE)
    world, obs = setting.world.reset(jax.random.fold_in(k_resets, 0), setting.stream.task(jnp.int32(0), k_tasks))
    newborn = Life(
        keys=Keys(k_steps, k_resets, k_consolidations, k_tasks),
        agent=setting.agent.init(k_agent, hypers),
        world=world,
        obs=obs,
        tally=_blank_tally(),
        step=jnp.int32(0),
        episode=jnp.int32(0),
        consolidations=jnp.int32(0),
        ended=jnp.bool_(False),
        resting=jnp.bool_(False),
        finished=_none_finished() if setting.by_steps else None,
    )
    return newborn._replace(resting=is_due(setting, newborn))


def interact(setting: Setting, hypers: Hypers, life: Life) -> Life:
    """One step: act, see what happens, learn. A resting lane goes through the motions and changes nothing."""
    agent, world, stream = setting.agent, setting.world, setting.stream
    awake = ~life.resting
    k_act, k_world, k_learn = jax.random.split(jax.random.fold_in(life.keys.steps, life.step), 3)

    segment = _segment(setting, life)
    task = stream.task(segment, life.keys.tasks)

    def show(obs: Array) -> Any:
        return Told(obs, stream.task_id(segment, life.keys.tasks)) if agent.knows_task else obs

    action = agent.act(life.agent, hypers, show(life.obs), k_act)
    with taking_part(awake):
        world_state, seen = world.step(k_world, life.world, action, task)
    completed = seen.last
    if setting.by_steps and stream.ends_episode:  # cut off, not ended: what follows is still worth something
        seen = seen._replace(last=seen.last | ((life.step + 1) % stream.span.count == 0))
    transition = Transition(show(life.obs), action, seen.reward, seen.discount, show(seen.obs), seen.last, real=awake)
    agent_state = agent.learn(life.agent, hypers, transition, k_learn)

    moved = life._replace(
        agent=agent_state,
        world=choose(awake, world_state, life.world),
        obs=jnp.where(awake, seen.obs if seen.begun is None else seen.begun, life.obs),
        tally=choose(awake, _add(life.tally, seen.reward, world.discount), life.tally),
        step=life.step + awake,
    )
    if setting.by_steps:
        moved = moved._replace(
            finished=choose(awake, _count(life.finished, seen, completed), life.finished),
            ended=life.ended | (awake & (moved.step % setting.window == 0)),
        )
        if not is_endless(world):
            moved = _begin_episode(setting, moved, awake & seen.last)
    else:
        moved = moved._replace(ended=life.ended | (awake & seen.last))
    return moved._replace(resting=life.resting | moved.ended | is_due(setting, moved) | is_over(setting, moved))


def turn_page(setting: Setting, life: Life) -> Life:
    """Begins a new page where one is full, and lets the lane go on unless it must consolidate or is over."""
    following = life if setting.by_steps else _begin_episode(setting, life, life.ended)
    following = following._replace(tally=choose(life.ended, _blank_tally(), life.tally), ended=jnp.bool_(False))
    if life.finished is not None:
        blank = life.finished._replace(count=jnp.int32(0), returns=jnp.float32(0))
        following = following._replace(finished=choose(life.ended, blank, life.finished))
    return following._replace(resting=is_over(setting, following) | is_due(setting, following))


def _begin_episode(setting: Setting, life: Life, over: Array) -> Life:
    """Puts the world back to a start where an episode is over."""
    following = life._replace(episode=life.episode + over)
    if begins_itself(setting.world):
        return following
    k_reset = jax.random.fold_in(life.keys.resets, following.episode)
    world, obs = setting.world.reset(k_reset, setting.stream.task(_segment(setting, following), life.keys.tasks))
    return following._replace(world=choose(over, world, life.world), obs=jnp.where(over, obs, life.obs))


def consolidate(setting: Setting, hypers: Hypers, life: Life, invited: Array) -> Life:
    """Lets the agent consolidate if it is due and invited. Nothing is consolidated after the last task."""
    due = invited & is_due(setting, life) & ~life.ended & ~is_over(setting, life)
    key = jax.random.fold_in(life.keys.consolidations, life.consolidations)
    with taking_part(due):
        agent = setting.agent.consolidate(life.agent, hypers, key)
    consolidated = life._replace(
        agent=choose(due, agent, life.agent),
        consolidations=life.consolidations + due,
    )
    return consolidated._replace(resting=jnp.where(due, False, life.resting))


def moment(setting: Setting, life: Life) -> Moment:
    """What there is to measure at the end of the page under way."""
    lived = life._replace(step=jnp.maximum(life.step - 1, 0))  # the segment of its last step
    task_id = setting.stream.task_id(_segment(setting, lived), life.keys.tasks)
    return Moment(life.agent, task_id, life.tally, life.finished, life.world)


def pages(setting: Setting, life: Life) -> Array:
    """How many pages are full and turned."""
    return life.step // setting.window - life.ended if setting.by_steps else life.episode


def is_over(setting: Setting, life: Life) -> Array:
    """Whether the life is lived, or may not go on."""
    lived = pages(setting, life) >= setting.pages
    return lived if setting.most_steps is None else lived | (life.step >= setting.most_steps)


def is_due(setting: Setting, life: Life) -> Array:
    """Whether the agent has lived through its period and not yet consolidated."""
    if setting.period is None:
        return jnp.bool_(False)
    clock = life.step if isinstance(setting.period, Steps) else life.episode + setting.period.lead
    return clock // setting.period.count > life.consolidations


def _segment(setting: Setting, life: Life) -> Array:
    return (life.step if setting.by_steps else life.episode) // setting.stream.span.count


def _blank_tally() -> Tally:
    return Tally(jnp.float32(0), jnp.float32(0), jnp.float32(1), jnp.int32(0))


def _add(tally: Tally, reward: Array, discount: float) -> Tally:
    return Tally(
        tally.reward + reward, tally.discounted + tally.weight * reward, tally.weight * discount, tally.steps + 1
    )


def _none_finished() -> Finished:
    none = jnp.float32(0)
    return Finished(none, jnp.int32(0), none, jnp.zeros(LAST_EPISODES, jnp.float32), jnp.int32(0), none)


def _count(finished: Finished | None, seen: TimeStep, completed: Array) -> Finished:
    assert finished is not None
    so_far = finished.under_way + seen.reward
    place = finished.ever % LAST_EPISODES
    return Finished(
        under_way=jnp.where(seen.last, 0.0, so_far),
        count=finished.count + completed,
        returns=finished.returns + jnp.where(completed, so_far, 0.0),
        latest=finished.latest.at[place].set(jnp.where(completed, so_far, finished.latest[place])),
        ever=finished.ever + completed,
        average=jnp.where(completed, SMOOTHING * finished.average + (1 - SMOOTHING) * so_far, finished.average),
    )
