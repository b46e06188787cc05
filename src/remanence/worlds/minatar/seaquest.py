"""Seaquest: a submarine among fish and enemy submarines, with divers to rescue and limited oxygen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from remanence.worlds.minatar.game import (
    EDGE,
    FIRE,
    LEFT,
    RIGHT,
    SIZE,
    Outcome,
    across,
    at,
    behind,
    bit,
    clip,
    digits,
    downwards,
    stacked,
    union,
)

OXYGEN = 200
ENEMY, DIVER = 20, 30  # initial steps between two spawns
MOVE, FASTEST = 5, 2  # pauses between two moves of enemies: initial and minimum
DIVER_MOVE = 5
COOLDOWN = 5  # steps between two shots
RELOAD = 10  # pauses between two shots of an enemy
MAX_DIVERS = 6  # divers at most
NOWHERE = -1  # the column of a bullet that does not exist

# Largest numbers of objects. An enemy crosses the board in 10 · (pauses + 1) steps: 60 at first, when one spawns every 20
# steps, and 30 at last, when one spawns in every step. A diver takes 60 steps, a shot at most 9.
ENEMIES, RAMPED_ENEMIES, DIVERS, SHOTS = 4, 32, 2, 2


class SeaquestDraws(NamedTuple):
    """The next enemy and the next diver to spawn."""

    enemy_rightward: Array  # []
    enemy_shoots: Array  # []  it is a submarine, not a fish
    enemy_row: Array  # []
    diver_rightward: Array  # []
    diver_row: Array  # []


class Shots(NamedTuple):
    """The player's shots."""

    there: Array  # [shots]
    x: Array  # [shots]
    y: Array  # [shots]
    rightward: Array  # [shots]


class Divers(NamedTuple):
    there: Array  # [divers]
    x: Array  # [divers]
    y: Array  # [divers]
    rightward: Array  # [divers]
    move: Array  # [divers]  steps until each moves


class Enemies(NamedTuple):
    """Fish and submarines. A submarine has at most one bullet, in its row and direction, which may outlast it."""

    there: Array  # [enemies]
    shoots: Array  # [enemies]  submarines
    x: Array  # [enemies]
    y: Array  # [enemies]
    rightward: Array  # [enemies]
    move: Array  # [enemies]  steps until each moves
    reload: Array  # [enemies]  steps until a submarine shoots
    bullet: Array  # [enemies]  the column of its bullet


class SeaquestState(NamedTuple):
    x: Array  # []
    y: Array  # []
    rightward: Array  # []  the player's direction
    oxygen: Array  # []
    aboard: Array  # []  divers; −1 after six divers were brought to the surface
    surfaced: Array  # []
    cooldown: Array  # []  steps until the player can shoot
    shots: Shots
    divers: Divers
    last_diver: Array  # []  the index of the newest: indices are used in turn
    diver: Array  # []  steps until the next spawns
    enemies: Enemies
    last_enemy: Array  # []
    enemy: Array  # []  steps until the next spawns
    enemy_every: Array  # []
    move_every: Array  # []  pauses between two moves of enemies
    level: Array  # []  of difficulty


@dataclass(frozen=True)
class Seaquest:
    """Every enemy shot gives reward 1; surfacing with six divers gives a reward for the remaining oxygen, 10 if it is full.

    Enemies enter from the sides and cross the board; submarines shoot ahead. Touching either, or a bullet, ends the game, as do
    running out of oxygen and surfacing without a diver. Surfacing refills oxygen and costs a diver; with ramping, enemies then
    spawn more often and every other time also move faster. After surfacing with six divers the original counts −1 divers, and
    so do we.
    """

    ramping: bool = True
    channels = (
        "front",
        "back",
        "shot",
        "trail",
        "bullet",
        "fish",
        "submarine",
        "oxygen",
        "divers aboard",
        "diver",
    )

    def draw(self, u: Array) -> SeaquestDraws:
        side, kind, row, diver_side, diver_row = digits(u[0], (2, 3, 8, 2, 8))
        return SeaquestDraws(side == 1, kind == 0, row + 1, diver_side == 1, diver_row + 1)

    def begin(self, draws: SeaquestDraws) -> SeaquestState:
        del draws
        count = RAMPED_ENEMIES if self.ramping else ENEMIES

        def none(count: int) -> Array:
            return jnp.zeros(count, bool)

        def zero(count: int) -> Array:
            return jnp.zeros(count, jnp.int32)

        return SeaquestState(
            x=jnp.int32(5),
            y=jnp.int32(0),
            rightward=jnp.bool_(False),
            oxygen=jnp.int32(OXYGEN),
            aboard=jnp.int32(0),
            surfaced=jnp.bool_(True),
            cooldown=jnp.int32(0),
            shots=Shots(none(SHOTS), zero(SHOTS), zero(SHOTS), none(SHOTS)),
            divers=Divers(none(DIVERS), zero(DIVERS), zero(DIVERS), none(DIVERS), zero(DIVERS)),
            last_diver=jnp.int32(0),
            diver=jnp.int32(DIVER),
            enemies=Enemies(
                there=none(count),
                shoots=none(count),
                x=zero(count),
                y=zero(count),
                rightward=none(count),
                move=zero(count),
                reload=zero(count),
                bullet=jnp.full(count, NOWHERE, jnp.int32),
            ),
            last_enemy=jnp.int32(0),
            enemy=jnp.int32(ENEMY),
            enemy_every=jnp.int32(ENEMY),
            move_every=jnp.int32(MOVE),
            level=jnp.int32(0),
        )

    def apply(self, state: SeaquestState, action: Array, draws: SeaquestDraws) -> Outcome:
        state = _let_enemy_in(state, draws)
        state = _let_diver_in(state, draws)
        state = _steer(state, action)
        state, first = _shots_fly(state)
        state = _divers_swim(state)
        state, second, caught_by_submarine = _enemies_swim(state, submarines=True)
        state, caught_by_bullet = _bullets_fly(state)
        state, third, caught_by_fish = _enemies_swim(state, submarines=False)
        state, bonus, suffocated = self._breathe(state)
        ended = caught_by_submarine | caught_by_bullet | caught_by_fish | suffocated
        return Outcome(state, (first + second + third + bonus).astype(jnp.float32), ended)

    def _breathe(self, state: SeaquestState) -> tuple[SeaquestState, Array, Array]:
        """(next state, reward, whether the game ends) below or at the surface."""
        below = state.y > 0
        arrives = ~below & ~state.surfaced
        home = arrives & (state.aboard != 0)
        full = home & (state.aboard == MAX_DIVERS)
        harder = home & ((state.enemy_every > 1) | (state.move_every > FASTEST)) & self.ramping
        faster = harder & (state.move_every > FASTEST) & (state.level % 2 == 1)
        after = state._replace(
            oxygen=jnp.where(home, OXYGEN, state.oxygen - below),
            aboard=jnp.where(full, 0, state.aboard) - home,
            surfaced=~below & (state.surfaced | home),
            enemy_every=jnp.where(harder, jnp.maximum(state.enemy_every - 1, 1), state.enemy_every),
            move_every=state.move_every - faster,
            level=state.level + harder,
        )
        bonus = jnp.where(full, state.oxygen * 10 // OXYGEN, 0)
        return after, bonus, (state.oxygen <= 0) | (arrives & ~home)

    def board(self, state: SeaquestState) -> Array:
        shots, divers, enemies = state.shots, state.divers, state.enemies
        air = jnp.maximum(state.oxygen, 0) * 10 // OXYGEN
        aboard = jnp.maximum(state.aboard, 0)
        bottom = jnp.arange(SIZE) == EDGE
        back = jnp.where(state.rightward, state.x - 1, state.x + 1)
        flying = (enemies.bullet >= 0) & (enemies.bullet <= EDGE)
        return stacked(
            at(state.x, state.y),
            at(back, state.y),
            at(shots.x, shots.y, shots.there),
            _trail(enemies) | _trail(divers),
            at(clip(enemies.bullet), enemies.y, flying),
            at(enemies.x, enemies.y, enemies.there & ~enemies.shoots),
            at(enemies.x, enemies.y, enemies.there & enemies.shoots),
            jnp.where(bottom, bit(air) - 1, 0),
            jnp.where(bottom, (bit(aboard) - 1) << (EDGE - aboard), 0),
            at(divers.x, divers.y, divers.there),
        )


def _let_enemy_in(state: SeaquestState, draws: SeaquestDraws) -> SeaquestState:
    """Spawns an enemy, unless its row has enemies of the other direction."""
    enemies = state.enemies
    due = state.enemy == 0
    against = enemies.there & (enemies.y == draws.enemy_row) & (enemies.rightward != draws.enemy_rightward)
    comes = due & ~jnp.any(against)
    place = (state.last_enemy + 1) % len(enemies.x)
    new = comes & (jnp.arange(len(enemies.x)) == place)
    return state._replace(
        enemies=Enemies(
            there=enemies.there | new,
            shoots=jnp.where(new, draws.enemy_shoots, enemies.shoots),
            x=jnp.where(new, _side(draws.enemy_rightward), enemies.x),
            y=jnp.where(new, draws.enemy_row, enemies.y),
            rightward=jnp.where(new, draws.enemy_rightward, enemies.rightward),
            move=jnp.where(new, state.move_every, enemies.move),
            reload=jnp.where(new, RELOAD, enemies.reload),
            bullet=jnp.where(new, NOWHERE, enemies.bullet),
        ),
        last_enemy=jnp.where(comes, place, state.last_enemy),
        enemy=jnp.maximum(jnp.where(due, state.enemy_every, state.enemy) - 1, 0),
    )


def _let_diver_in(state: SeaquestState, draws: SeaquestDraws) -> SeaquestState:
    divers = state.divers
    due = state.diver == 0
    place = (state.last_diver + 1) % DIVERS
    new = due & (jnp.arange(DIVERS) == place)
    return state._replace(
        divers=Divers(
            there=divers.there | new,
            x=jnp.where(new, _side(draws.diver_rightward), divers.x),
            y=jnp.where(new, draws.diver_row, divers.y),
            rightward=jnp.where(new, draws.diver_rightward, divers.rightward),
            move=jnp.where(new, DIVER_MOVE, divers.move),
        ),
        last_diver=jnp.where(due, place, state.last_diver),
        diver=jnp.maximum(jnp.where(due, DIVER, state.diver) - 1, 0),
    )


def _steer(state: SeaquestState, action: Array) -> SeaquestState:
    shots = state.shots
    fires = (action == FIRE) & (state.cooldown == 0)
    new = fires & ~shots.there & (jnp.cumsum(~shots.there) == 1)  # the first free index
    return state._replace(
        x=clip(state.x + across(action)),
        y=clip(state.y + downwards(action), 0, EDGE - 1),
        rightward=(action == RIGHT) | (state.rightward & (action != LEFT)),
        cooldown=jnp.maximum(jnp.where(fires, COOLDOWN, state.cooldown) - 1, 0),
        shots=Shots(
            there=shots.there | new,
            x=jnp.where(new, state.x, shots.x),
            y=jnp.where(new, state.y, shots.y),
            rightward=jnp.where(new, state.rightward, shots.rightward),
        ),
    )


def _shots_fly(state: SeaquestState) -> tuple[SeaquestState, Array]:
    """(next state, number of hits). Of several enemies in a cell, fish are hit before submarines, and older before newer ones."""
    shots, enemies = state.shots, state.enemies
    x = _ahead(shots.x, shots.rightward)
    shots = shots._replace(there=shots.there & _inside(x), x=clip(x))
    order = _age(state) + jnp.where(enemies.shoots, 0, len(enemies.x))
    shots, hit = _hit(shots, enemies, enemies.there, order)
    return state._replace(shots=shots, enemies=enemies._replace(there=enemies.there & ~hit)), jnp.sum(hit)


def _divers_swim(state: SeaquestState) -> SeaquestState:
    """Divers that touch the player before or after their move come aboard while there is room, the newest first."""
    divers = state.divers
    moves = divers.move == 0
    ahead = jnp.where(moves, _ahead(divers.x, divers.rightward), divers.x)
    meets = divers.there & (divers.y == state.y) & ((divers.x == state.x) | (ahead == state.x))
    youngest = jnp.arange(DIVERS) == state.last_diver
    before = jnp.any(meets & youngest) & ~youngest  # another one is first
    comes = meets & (state.aboard + before < MAX_DIVERS)
    after = divers._replace(
        there=divers.there & ~comes & _inside(ahead),
        x=clip(ahead),
        move=jnp.where(moves, DIVER_MOVE, divers.move - 1),
    )
    return state._replace(divers=after, aboard=state.aboard + jnp.sum(comes))


def _enemies_swim(state: SeaquestState, submarines: bool) -> tuple[SeaquestState, Array, Array]:
    """(next state, number that moved into shots, whether one touched the player) for submarines or for fish.

    Of several that move into the same shot, the newest is hit. A submarine that is hit, or leaves, may still shoot.
    """
    enemies = state.enemies
    swims = enemies.there & (enemies.shoots == submarines)
    moves = swims & (enemies.move == 0)
    ahead = jnp.where(moves, _ahead(enemies.x, enemies.rightward), enemies.x)
    inside = _inside(ahead)
    same_row = swims & (enemies.y == state.y)
    touches = same_row & ((enemies.x == state.x) | (ahead == state.x))
    at_player = same_row & (ahead == state.x)
    moved = enemies._replace(
        there=enemies.there & inside,
        x=clip(ahead),
        move=jnp.where(moves, state.move_every, enemies.move - swims),
    )
    shots, hit = _hit(state.shots, moved, moves & inside & ~at_player, -_age(state))
    moved = moved._replace(there=moved.there & ~hit)
    if submarines:
        shoots = swims & (enemies.reload == 0)
        moved = moved._replace(
            reload=jnp.where(shoots, RELOAD, enemies.reload - swims),
            bullet=jnp.where(shoots, ahead, enemies.bullet),
        )
    return state._replace(enemies=moved, shots=shots), jnp.sum(hit), jnp.any(touches)


def _bullets_fly(state: SeaquestState) -> tuple[SeaquestState, Array]:
    """(next state, whether one touched the player)."""
    enemies = state.enemies
    flies = _inside(enemies.bullet)
    ahead = _ahead(enemies.bullet, enemies.rightward)
    touches = flies & (enemies.y == state.y) & ((enemies.bullet == state.x) | (ahead == state.x))
    bullet = jnp.where(flies & _inside(ahead), ahead, NOWHERE)
    return state._replace(enemies=enemies._replace(bullet=bullet)), jnp.any(touches)


def _hit(shots: Shots, enemies: Enemies, exposed: Array, order: Array) -> tuple[Shots, Array]:
    """(remaining shots, [enemies] which are hit): a shot hits the enemy in its cell with the highest number in `order`.

    No two shots are ever in the same cell.
    """
    in_cell = exposed & (enemies.x == shots.x[:, None]) & (enemies.y == shots.y[:, None]) & shots.there[:, None]
    first = jnp.max(jnp.where(in_cell, order, -len(order)), axis=1)  # [shots]
    hit = in_cell & (order == first[:, None])  # [shots, enemies]
    return shots._replace(there=shots.there & ~jnp.any(hit, axis=1)), jnp.any(hit, axis=0)


def _age(state: SeaquestState) -> Array:
    """[enemies] 0 for the newest; indices are used in turn."""
    count = len(state.enemies.x)
    return (state.last_enemy - jnp.arange(count)) % count


def _trail(things: Enemies | Divers) -> Array:
    """[10] the cells behind all existing objects."""
    trail = jnp.where(things.there, behind(bit(things.x), things.rightward), 0)
    return union(jnp.where(jnp.arange(SIZE)[:, None] == things.y, trail, 0))


def _ahead(x: Array, rightward: Array) -> Array:
    return x + jnp.where(rightward, 1, -1)


def _inside(x: Array) -> Array:
    return (x >= 0) & (x <= EDGE)


def _side(rightward: Array) -> Array:
    """The column where an object of this direction enters."""
    return jnp.where(rightward, 0, EDGE)
