"""The original games as judges: played once, with all that chance decided written down, then replayed in ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from minatar import Environment

from remanence.worlds.minatar import MinAtar
from remanence.worlds.minatar.asterix import AsterixDraws, AsterixState
from remanence.worlds.minatar.breakout import BreakoutDraws, BreakoutState
from remanence.worlds.minatar.freeway import FreewayDraws, FreewayState
from remanence.worlds.minatar.game import DOWN, FIRE, LEFT, NOTHING, RIGHT, UP
from remanence.worlds.minatar.seaquest import SeaquestDraws, SeaquestState
from remanence.worlds.minatar.space_invaders import SpaceInvadersDraws, SpaceInvadersState
from remanence.worlds.minatar.world import MinAtarDraws, MinAtarState

EnvWorker = Callable[[Any, np.random.Generator], int]  # (the original game, luck) -> action
LANES = 16  # episodes are replayed in multiples of so many
DIRECTIONS = [(-1, -1), (1, -1), (1, 1), (-1, 1)]  # of breakout's ball, as the original numbers them


class Dice:
    """Stands in for the original's random numbers and remembers what it gave."""

    def __init__(self, seed: int) -> None:
        self.random, self.given = np.random.RandomState(seed), []

    def _remember(self, value: Any) -> Any:
        self.given.append(np.copy(value))
        return value

    def rand(self, *shape: int) -> Any:
        return self._remember(self.random.rand(*shape))

    def randint(self, *arguments: Any, **options: Any) -> Any:
        return self._remember(self.random.randint(*arguments, **options))

    def take(self) -> list[Any]:
        given, self.given = self.given, []
        return given


# --- what chance decided, in our words ---------------------------------------------------------------------------------------


def _flag(value: Any) -> Any:
    return np.asarray(value, bool)


def _number(value: Any) -> Any:
    return np.asarray(value, np.int32)


def breakout_draws(given: list[Any]) -> BreakoutDraws:
    return BreakoutDraws(_flag(bool(given) and given[0] == 1))


def freeway_draws(given: list[Any]) -> FreewayDraws:
    speeds, sides = given or (np.ones(8, int), np.ones(8))
    return FreewayDraws(_number(speeds * np.sign(sides - 0.5)))


def space_invaders_draws(given: list[Any]) -> SpaceInvadersDraws:
    assert not given
    return SpaceInvadersDraws()


def asterix_draws(given: list[Any]) -> AsterixDraws:
    side, kind, turn = [*given, *[0] * (3 - len(given))]
    return AsterixDraws(_flag(side < 1 / 2), _flag(kind < 1 / 3), _number(turn))


def seaquest_draws(given: list[Any]) -> SeaquestDraws:
    """An enemy takes three numbers, a diver two, and the enemy comes first."""
    enemy, diver = (given[:3], given[3:]) if len(given) in (3, 5) else ([0, 0, 1], given)
    diver = diver or [0, 1]
    return SeaquestDraws(
        enemy_rightward=_flag(enemy[0] < 1 / 2),
        enemy_shoots=_flag(enemy[1] < 1 / 3),
        enemy_row=_number(enemy[2]),
        diver_rightward=_flag(diver[0] < 1 / 2),
        diver_row=_number(diver[1]),
    )


# --- the whole state as one vector, theirs and ours ---------------------------------------------------------------------------


def breakout_theirs(game: Any) -> list[Any]:
    numbers = [game.pos, game.ball_x, game.ball_y, *DIRECTIONS[game.ball_dir], game.last_x, game.last_y, game.strike]
    return [*numbers, game.brick_map]


def breakout_ours(state: BreakoutState) -> list[Any]:
    bricks = jnp.zeros(100, int).at[10:40].set((state.bricks >> jnp.arange(30)) & 1)
    return [*(getattr(state, name) for name in ["paddle", "x", "y", "dx", "dy", "last_x", "last_y", "struck"]), bricks]


def freeway_theirs(game: Any) -> list[Any]:
    cars = np.array(game.cars)
    assert cars[:, 1].tolist() == list(range(1, 9))
    return [game.pos, game.move_timer, game.terminate_timer, cars[:, 0], cars[:, 2], cars[:, 3]]


def freeway_ours(state: FreewayState) -> list[Any]:
    return [state.row, state.pause, state.time, state.x, state.wait, state.velocity]


def space_invaders_theirs(game: Any) -> list[Any]:
    timers = [game.alien_move_timer, game.alien_shot_timer, game.shot_timer, game.enemy_move_interval]
    return [game.pos, game.alien_dir > 0, *timers, game.alien_map, game.f_bullet_map, game.e_bullet_map]


def space_invaders_ours(state: SpaceInvadersState) -> list[Any]:
    boards = [(rows[:, None] >> jnp.arange(10)) & 1 for rows in (state.aliens, state.shots, state.bombs)]
    return [state.cannon, state.rightward, state.march, state.reload, state.cooldown, state.interval, *boards]


def asterix_theirs(game: Any) -> list[Any]:
    timers = [game.spawn_timer, game.spawn_speed, game.move_timer, game.move_speed, game.ramp_timer, game.ramp_index]
    things = [[1, *thing] if thing else [0] * 5 for thing in game.entities]
    return [game.player_x, game.player_y, *timers, things]


def asterix_ours(state: AsterixState) -> list[Any]:
    timers = [state.appear, state.appear_every, state.move, state.move_every, state.ramp, state.level]
    things = jnp.stack([state.there, state.things, jnp.arange(8) + 1, state.rightward, state.gold], axis=1)
    return [state.x, state.y, *timers, jnp.where(state.there[:, None], things, 0)]


def seaquest_theirs(game: Any) -> list[Any]:
    """Enemies and divers in the order of age; bullets as boards, because two in the same cell do the same for ever."""
    numbers = [game.sub_x, game.sub_y, game.sub_or, game.oxygen, game.diver_count, game.surface, game.shot_timer]
    timers = [game.e_spawn_timer, game.e_spawn_speed, game.d_spawn_timer, game.move_speed, game.ramp_index]
    bullets = np.zeros((2, 2, 10, 10), int)
    for kind, shot in enumerate((game.f_bullets, game.e_bullets)):
        for x, y, rightward in shot:
            bullets[kind, int(rightward), y, x] = 1
    return [
        *numbers,
        *timers,
        _listed(game.e_fish, 32, 4),
        _listed(game.e_subs, 32, 5),
        _listed(game.divers, 2, 4),
        bullets,
    ]


def _listed(things: list[Any], most: int, width: int) -> np.ndarray:
    table = np.full((most, width), -1)
    for place, thing in enumerate(things):
        table[place] = thing
    return table


def seaquest_ours(state: SeaquestState) -> list[Any]:
    numbers = [state.x, state.y, state.rightward, state.oxygen, state.aboard, state.surfaced, state.cooldown]
    timers = [state.enemy, state.enemy_every, state.diver, state.move_every, state.level]

    def listed(there: Any, columns: list[Any], youngest: Any, most: int) -> Any:
        """The things that are there, oldest first."""
        table = jnp.where(there[:, None], jnp.stack(columns, axis=1), -1)
        count = len(there)
        age = (youngest - jnp.arange(count)) % count  # 0 for the last that came
        table = table[jnp.argsort(jnp.where(there, count - age, 2 * count))]
        return jnp.full((most, len(columns)), -1).at[:count].set(table)

    enemies, divers = state.enemies, state.divers
    moving = [enemies.x, enemies.y, enemies.rightward, enemies.move]
    fish = listed(enemies.there & ~enemies.shoots, moving, state.last_enemy, 32)
    subs = listed(enemies.there & enemies.shoots, [*moving, enemies.reload], state.last_enemy, 32)
    swimming = listed(divers.there, [divers.x, divers.y, divers.rightward, divers.move], state.last_diver, 2)

    def board(x: Any, y: Any, there: Any) -> Any:
        return jnp.zeros((10, 10), int).at[jnp.where(there, y, 10), x].set(1, mode="drop")

    bullets = [
        board(x, y, there & (rightward == side))
        for x, y, rightward, there in (
            (state.shots.x, state.shots.y, state.shots.rightward, state.shots.there),
            (enemies.bullet, enemies.y, enemies.rightward, (enemies.bullet >= 0) & (enemies.bullet <= 9)),
        )
        for side in (False, True)
    ]
    return [*numbers, *timers, fish, subs, swimming, *bullets]


# --- play --------------------------------------------------------------------------------------------------------------------


def aimless(game: Any, luck: np.random.Generator) -> int:
    del game
    return int(luck.integers(6))


def _towards(place: int, goal: int) -> int:
    return RIGHT if goal > place else LEFT if goal < place else NOTHING


def play_breakout(game: Any, luck: np.random.Generator) -> int:
    """Waits where the ball will come down."""
    if luck.random() < 0.01:
        return aimless(game, luck)
    dx, dy = DIRECTIONS[game.ball_dir]
    steps = 8 - game.ball_y if dy > 0 else 2 * game.ball_y + 3
    place = game.ball_x
    for _ in range(max(steps, 0)):
        if 0 <= place + dx <= 9:
            place += dx
        else:
            dx = -dx
    return _towards(game.pos, place)


def play_freeway(game: Any, luck: np.random.Generator) -> int:
    """Goes up, back where a car is about to come."""
    if luck.random() < 0.05:
        return aimless(game, luck)
    ahead = game.cars[game.pos - 2] if 1 < game.pos <= 9 else None
    close = ahead is not None and (4 - ahead[0]) * np.sign(ahead[3]) in (0, 1)
    return NOTHING if close else UP


def play_space_invaders(game: Any, luck: np.random.Generator) -> int:
    """Steps aside from bombs, and shoots where aliens will be."""
    if luck.random() < 0.01:
        return aimless(game, luck)

    def danger(place: int) -> bool:
        return not 0 <= place <= 9 or bool(game.e_bullet_map[6:9, place].any())

    if danger(game.pos):
        return LEFT if not danger(game.pos - 1) else RIGHT
    pace = min(int(game.alien_map.sum()), game.enemy_move_interval)
    meeting = {(x + game.alien_dir * ((9 - y) // pace), y) for y, x in np.argwhere(game.alien_map)}
    columns = np.array([x for x, _ in meeting if 0 <= x <= 9] or [4])
    if game.pos in columns and game.shot_timer == 0:
        return FIRE
    action = _towards(game.pos, int(columns[np.abs(columns - game.pos).argmin()]))
    return NOTHING if danger(game.pos + (action == RIGHT) - (action == LEFT)) else action


def play_asterix(game: Any, luck: np.random.Generator) -> int:
    """Goes for gold and stays out of the way of enemies."""
    if luck.random() < 0.01:
        return aimless(game, luck)

    def danger(x: int, y: int) -> bool:
        thing = game.entities[y - 1] if 1 <= y <= 8 else None
        return thing is not None and not thing[3] and abs(thing[0] - x) <= 1

    moves = {NOTHING: (0, 0), LEFT: (-1, 0), RIGHT: (1, 0), UP: (0, -1), DOWN: (0, 1)}
    gold = [thing for thing in game.entities if thing is not None and thing[3]]
    goal = min(gold, key=lambda thing: abs(thing[1] - game.player_y) * 2 + abs(thing[0] - game.player_x), default=None)

    def cost(action: int) -> float:
        dx, dy = moves[action]
        x, y = min(max(game.player_x + dx, 0), 9), min(max(game.player_y + dy, 1), 8)
        away = 0 if goal is None else abs(goal[0] - x) + abs(goal[1] - y)
        return 100 * danger(x, y) + away + 0.1 * luck.random()

    return min(moves, key=cost)


def play_seaquest(game: Any, luck: np.random.Generator) -> int:
    """Shoots what comes along its row, fetches divers, surfaces with all six or when oxygen is low; waits long at the surface."""
    if luck.random() < 0.02:
        return aimless(game, luck)
    x, y = game.sub_x, game.sub_y
    enemies = [*game.e_fish, *game.e_subs]
    if y == 0 and luck.random() < 0.7:
        return NOTHING

    def danger(row: int) -> bool:
        near = any(one[1] == row and abs(one[0] - x) <= 2 for one in enemies)
        return near or any(one[1] == row and abs(one[0] - x) <= 3 for one in game.e_bullets)

    home = game.diver_count != 0 and (game.diver_count >= 6 or game.oxygen < 60)
    if game.shot_timer == 0 and any(one[1] == y and (one[0] > x) == game.sub_or for one in enemies):
        return FIRE
    if danger(y):
        rows = [row for row in (y - 1, y + 1) if 1 <= row <= 8 and not danger(row)]
        return NOTHING if not rows else (UP if rows[0] < y else DOWN)
    if home:
        return UP if y - 1 == 0 or not danger(y - 1) else NOTHING
    goal = min(game.divers, key=lambda one: abs(one[1] - y) + abs(one[0] - x), default=None)
    if goal is None:
        return DOWN if y < 4 else int(luck.choice([LEFT, RIGHT, NOTHING]))
    if goal[1] != y:
        step = 1 if goal[1] > y else -1
        return NOTHING if danger(y + step) or y + step == 0 else (DOWN if step > 0 else UP)
    return _towards(x, goal[0])


# --- record and replay -------------------------------------------------------------------------------------------------------


class Judge(NamedTuple):
    """How one original game is watched."""

    draws: Callable[[list[Any]], Any]
    theirs: Callable[[Any], list[Any]]
    ours: Callable[[Any], list[Any]]
    worker: EnvWorker


JUDGES = {
    "breakout": Judge(breakout_draws, breakout_theirs, breakout_ours, play_breakout),
    "freeway": Judge(freeway_draws, freeway_theirs, freeway_ours, play_freeway),
    "space_invaders": Judge(space_invaders_draws, space_invaders_theirs, space_invaders_ours, play_space_invaders),
    "asterix": Judge(asterix_draws, asterix_theirs, asterix_ours, play_asterix),
    "seaquest": Judge(seaquest_draws, seaquest_theirs, seaquest_ours, play_seaquest),
}


class Seen(NamedTuple):
    """What there is to compare after a step, and at the start."""

    state: Any  # [numbers]  everything
    obs: Any  # [bytes]  packed
    reward: Any  # []
    ended: Any  # []


class Episode(NamedTuple):
    start: Any  # what chance decided at the beginning
    actions: Any  # [steps]
    draws: MinAtarDraws  # [steps]
    seen: Seen  # [steps + 1]

    @property
    def steps(self) -> int:
        return len(self.actions)


def _vector(parts: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(part)) for part in parts]).astype(np.int32)


def record(
    name: str,
    worker: EnvWorker,
    seed: int,
    sticky: float = 0.1,
    ramping: bool = True,
    most: int = 3000,
    **changes: Any,
) -> Episode:
    """Plays one episode of the original. `changes` are made to the original's state at the beginning."""
    judge = JUDGES[name]
    env = Environment(name, sticky_action_prob=sticky, difficulty_ramping=ramping)
    stickiness, dice, luck = Dice(2 * seed), Dice(2 * seed + 1), np.random.default_rng(seed)
    env.random = stickiness  # type: ignore[assignment]
    env.env.random = dice
    env.reset()
    start = judge.draws(dice.take())
    for field, value in changes.items():
        assert hasattr(env.env, field)
        setattr(env.env, field, value)

    def look(reward: float, ended: bool) -> Seen:
        return Seen(_vector(judge.theirs(env.env)), np.packbits(env.state()), np.float32(reward), np.bool_(ended))

    actions, draws, seen = [], [], [look(0, False)]
    while not seen[-1].ended and len(actions) < most:
        actions.append(worker(env.env, luck))
        seen.append(look(*env.act(actions[-1])))
        sticks = _flag(stickiness.take()[0] < sticky)
        draws.append(MinAtarDraws(sticks, judge.draws(dice.take())))
    return Episode(start, np.array(actions), _stack(draws), _stack(seen))


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


@partial(jax.jit, static_argnums=0)
def _begin(world: MinAtar, start: Any, changes: dict[str, Any]) -> MinAtarState:
    state, _ = world.begin(MinAtarDraws(jnp.bool_(False), start))
    return state._replace(game=state.game._replace(**changes))


@partial(jax.jit, static_argnums=0)
def _replay(world: MinAtar, states: MinAtarState, actions: Any, draws: MinAtarDraws) -> Seen:
    """[episodes, steps + 1] the same in our game. Goes on after the end."""
    ours = JUDGES[world.game].ours

    def look(state: MinAtarState, obs: Any, reward: Any, ended: Any) -> Seen:
        vector = jnp.concatenate([jnp.ravel(part).astype(jnp.int32) for part in ours(state.game)])
        return Seen(vector, jnp.packbits(obs), reward, ended)

    def step(state: MinAtarState, boundaries_known: tuple[Any, MinAtarDraws]) -> tuple[MinAtarState, Seen]:
        state, time_step = world.apply(state, *boundaries_known)
        return state, look(state, time_step.obs, time_step.reward, time_step.last)

    def episode(state: MinAtarState, actions: Any, draws: MinAtarDraws) -> Seen:
        first = look(state, world.observe(state), jnp.float32(0), jnp.bool_(False))
        seen = jax.lax.scan(step, state, (actions, draws))[1]
        return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, seen)

    return jax.vmap(episode)(states, actions, draws)


def mismatches(world: MinAtar, episodes: Sequence[Episode], **changes: Any) -> dict[str, int]:
    """How many of the episodes' steps (and beginnings) differ from ours, by what differs. `changes` are made to our beginnings.

    Batches and episodes are filled up to a few sizes, so that few programs are compiled.
    """
    longest = 1024 if max(one.steps for one in episodes) <= 1024 else 4096

    def padded(leaf: np.ndarray) -> np.ndarray:
        return np.pad(leaf, [(0, longest - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)])

    filled = [episodes[number % len(episodes)] for number in range(-(-len(episodes) // LANES) * LANES)]
    actions, draws = _stack([jax.tree.map(padded, (one.actions, one.draws)) for one in filled])
    states = _stack([_begin(world, one.start, changes) for one in filled])
    replayed = jax.tree.map(np.asarray, _replay(world, states, actions, draws))
    wrong = dict.fromkeys(Seen._fields, 0)
    for number, one in enumerate(episodes):
        for field in Seen._fields:
            theirs = getattr(one.seen, field)
            ours = getattr(replayed, field)[number, : one.steps + 1]
            wrong[field] += int((theirs != ours).reshape(one.steps + 1, -1).any(axis=1).sum())
    return wrong
