"""Space Invaders: a cannon against a descending block of aliens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.worlds.minatar.game import EDGE, FIRE, SIZE, Outcome, across, at, bit, clip, stacked, union

COOLDOWN = 5  # steps between two shots of the cannon
SLOWEST, FASTEST = 12, 6  # steps per move of a full block: initial and minimum
RELOAD = 10  # steps between two bombs
BLOCK = np.where(np.arange(SIZE) < 4, 0b0011111100, 0)  # [10]


class SpaceInvadersDraws(NamedTuple):
    """Empty: the game is deterministic."""


class SpaceInvadersState(NamedTuple):
    cannon: Array  # []
    aliens: Array  # [10]  bitboards
    shots: Array  # [10]
    bombs: Array  # [10]
    rightward: Array  # []  the aliens' direction
    interval: Array  # []  steps per move of a full block
    march: Array  # []  steps until the aliens move
    reload: Array  # []  steps until they drop a bomb
    cooldown: Array  # []  steps until the cannon can shoot


@dataclass(frozen=True)
class SpaceInvaders:
    """Every alien shot gives reward 1. The game ends when a bomb or an alien reaches the cannon, or aliens leave the bottom.

    The aliens move sideways; at an edge they move down and turn. The fewer are left, the faster they move. Every ten steps the
    lowest alien of the column nearest to the cannon drops a bomb; of two equally near columns, the left one. When all aliens
    are shot, the next block appears; with ramping it moves faster, up to a move every 6 steps.
    """

    ramping: bool = True
    channels = ("cannon", "alien", "alien to the left", "alien to the right", "shot", "bomb")

    def draw(self, u: Array) -> SpaceInvadersDraws:
        del u
        return SpaceInvadersDraws()

    def begin(self, draws: SpaceInvadersDraws) -> SpaceInvadersState:
        del draws
        no_shots = jnp.zeros(SIZE, jnp.int32)
        return SpaceInvadersState(
            cannon=jnp.int32(5),
            aliens=jnp.asarray(BLOCK, jnp.int32),
            shots=no_shots,
            bombs=no_shots,
            rightward=jnp.bool_(False),
            interval=jnp.int32(SLOWEST),
            march=jnp.int32(SLOWEST),
            reload=jnp.int32(RELOAD),
            cooldown=jnp.int32(0),
        )

    def apply(self, state: SpaceInvadersState, action: Array, draws: SpaceInvadersDraws) -> Outcome:
        del draws
        fires = (action == FIRE) & (state.cooldown == 0)
        cannon = clip(state.cannon + across(action))
        here = bit(cannon)

        # A shot leaves the cannon's row immediately.
        shots = jnp.concatenate([state.shots[1:-1], jnp.where(fires, here, state.shots[-1:]), jnp.zeros(1, jnp.int32)])
        bombs = jnp.concatenate([jnp.zeros(1, jnp.int32), state.bombs[:-1]])
        dead = (bombs[-1] | state.aliens[-1]) & here != 0

        marching = state.march == 0
        columns = union(state.aliens)
        edge = jnp.where(state.rightward, 1 << EDGE, 1)
        turns = marching & (columns & edge != 0)
        aside = jnp.where(state.rightward, state.aliens << 1, state.aliens >> 1)
        below = jnp.roll(state.aliens, 1)
        aliens = jnp.where(turns, below, jnp.where(marching, aside, state.aliens))
        dead = dead | (turns & (state.aliens[-1] != 0)) | (marching & (aliens[-1] & here != 0))
        march = jnp.where(marching, jnp.minimum(_count(state.aliens), state.interval), state.march)

        drops = state.reload == 0
        column = _nearest(union(aliens), cannon)
        bomber = jnp.max(jnp.where(aliens & bit(column) != 0, jnp.arange(SIZE), 0))
        bombs = jnp.where(drops, bombs | at(column, bomber), bombs)

        shot = aliens & shots
        left = _count(aliens) - _count(shot)
        cleared = left == 0
        faster = cleared & (state.interval > FASTEST) & self.ramping
        after = SpaceInvadersState(
            cannon=cannon,
            aliens=jnp.where(cleared, jnp.asarray(BLOCK, jnp.int32), aliens & ~shot),
            shots=shots & ~shot,
            bombs=bombs,
            rightward=state.rightward ^ turns,
            interval=state.interval - faster,
            march=march - 1,
            reload=jnp.where(drops, RELOAD, state.reload) - 1,
            cooldown=jnp.maximum(jnp.where(fires, COOLDOWN, state.cooldown) - 1, 0),
        )
        return Outcome(after, _count(shot).astype(jnp.float32), dead)

    def board(self, state: SpaceInvadersState) -> Array:
        to_left = jnp.where(state.rightward, 0, state.aliens)
        to_right = jnp.where(state.rightward, state.aliens, 0)
        return stacked(at(state.cannon, jnp.int32(EDGE)), state.aliens, to_left, to_right, state.shots, state.bombs)


def _count(board: Array) -> Array:
    return jnp.sum(jax.lax.population_count(board))


def _nearest(columns: Array, x: Array) -> Array:
    """The column nearest to x among the set bits; the left one if two are equally near."""
    on_the_left = columns & ((2 << x) - 1)
    on_the_right = columns & ~on_the_left
    left, right = _highest(on_the_left), _highest(on_the_right & -on_the_right)
    take_left = (left >= 0) & ((right < 0) | (x - left <= right - x))
    return jnp.where(take_left, left, jnp.maximum(right, 0))


def _highest(bits: Array) -> Array:
    """The index of the highest set bit; −1 if there is none."""
    return 31 - jax.lax.clz(bits)
