"""Asterix: gold to collect and enemies to avoid enter from the sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.worlds.minatar.game import EDGE, SIZE, Outcome, across, at, behind, bit, clip, digits, downwards, stacked

SLOTS = 8  # most objects on the board: one in each row between the first and the last
ROWS = np.arange(SLOTS) + 1
APPEAR, MOVE = 10, 5  # initial steps between two spawns, and between two moves
RAMP = 100  # steps from one level of difficulty to the next, minus two


class AsterixDraws(NamedTuple):
    """The next object to spawn."""

    rightward: Array  # []
    gold: Array  # []
    turn: Array  # []  it takes the (turn mod n)-th of n free rows


class AsterixState(NamedTuple):
    x: Array  # []  of the player
    y: Array  # []
    there: Array  # [slots]  whether there is an object in each row
    things: Array  # [slots]  its column
    rightward: Array  # [slots]
    gold: Array  # [slots]
    appear: Array  # []  steps until the next spawn
    appear_every: Array  # []
    move: Array  # []  steps until all objects move
    move_every: Array  # []
    ramp: Array  # []  steps until the next level
    level: Array  # []  of difficulty


@dataclass(frozen=True)
class Asterix:
    """Gold gives reward 1, an enemy ends the game.

    Objects spawn at either side in a free row, a third of them gold, and cross the board. With ramping, every 102 steps they
    spawn more often, and every other time they also move faster.
    """

    ramping: bool = True
    channels = ("player", "enemy", "trail", "gold")

    def draw(self, u: Array) -> AsterixDraws:
        side, kind, *parts = digits(u[0], (2, 3, 7, 8, 15))
        # 7 · 8 · 15 turns: divisible by every n from 1 to 8, so each of n free rows is equally likely.
        return AsterixDraws(side == 1, kind == 0, (parts[0] * 8 + parts[1]) * 15 + parts[2])

    def begin(self, draws: AsterixDraws) -> AsterixState:
        del draws
        nothing, nowhere = jnp.zeros(SLOTS, bool), jnp.zeros(SLOTS, jnp.int32)
        return AsterixState(
            x=jnp.int32(5),
            y=jnp.int32(5),
            there=nothing,
            things=nowhere,
            rightward=nothing,
            gold=nothing,
            appear=jnp.int32(APPEAR),
            appear_every=jnp.int32(APPEAR),
            move=jnp.int32(MOVE),
            move_every=jnp.int32(MOVE),
            ramp=jnp.int32(RAMP),
            level=jnp.int32(0),
        )

    def apply(self, state: AsterixState, action: Array, draws: AsterixDraws) -> Outcome:
        appears = state.appear == 0
        free = ~state.there
        turn = draws.turn % jnp.maximum(jnp.sum(free), 1)
        new = appears & free & (jnp.cumsum(free) == turn + 1)  # [slots]
        rightward = jnp.where(new, draws.rightward, state.rightward)
        gold = jnp.where(new, draws.gold, state.gold)
        things = jnp.where(new, jnp.where(draws.rightward, 0, EDGE), state.things)
        there = state.there | new

        x, y = clip(state.x + across(action)), clip(state.y + downwards(action), 1, EDGE - 1)
        met = there & (things == x) & (y == ROWS)
        there = there & ~(met & gold)

        moves = state.move == 0
        ahead = jnp.where(moves, things + jnp.where(rightward, 1, -1), things)
        there = there & (ahead >= 0) & (ahead <= EDGE)
        met_later = moves & there & (ahead == x) & (y == ROWS)
        there = there & ~(met_later & gold)

        after = state._replace(
            x=x,
            y=y,
            there=there,
            things=clip(ahead),
            rightward=rightward,
            gold=gold,
            appear=jnp.where(appears, state.appear_every, state.appear) - 1,
            move=jnp.where(moves, state.move_every, state.move) - 1,
        )
        reward = jnp.sum((met | met_later) & gold).astype(jnp.float32)
        return Outcome(self._ramped(after), reward, jnp.any((met | met_later) & ~gold))

    def _ramped(self, state: AsterixState) -> AsterixState:
        if not self.ramping:
            return state
        growing = (state.appear_every > 1) | (state.move_every > 1)
        harder = growing & (state.ramp < 0)
        return state._replace(
            appear_every=jnp.where(harder, jnp.maximum(state.appear_every - 1, 1), state.appear_every),
            move_every=jnp.where(
                harder & (state.level % 2 == 1), jnp.maximum(state.move_every - 1, 1), state.move_every
            ),
            ramp=jnp.where(harder, RAMP, state.ramp - growing),
            level=state.level + harder,
        )

    def board(self, state: AsterixState) -> Array:
        thing = jnp.where(state.there, bit(state.things), 0)
        enemy, gold = jnp.where(state.gold, 0, thing), jnp.where(state.gold, thing, 0)
        between = [jnp.pad(rows, (1, SIZE - SLOTS - 1)) for rows in (enemy, behind(thing, state.rightward), gold)]
        return stacked(at(state.x, state.y), *between)
