"""Breakout: a ball, a paddle and three rows of bricks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from remanence.worlds.minatar.game import EDGE, ROW, SIZE, Outcome, across, at, clip, digits, stacked

FIRST_ROW, BRICK_ROWS = 1, 3
ALL_BRICKS = (1 << BRICK_ROWS * SIZE) - 1


class BreakoutDraws(NamedTuple):
    from_right: Array  # []  the side where the ball starts; used at reset only


class BreakoutState(NamedTuple):
    paddle: Array  # []
    x: Array  # []  of the ball
    y: Array  # []
    dx: Array  # []  its direction: −1 or 1
    dy: Array  # []
    last_x: Array  # []  its previous position
    last_y: Array  # []
    bricks: Array  # []  bit x + 10 · (y − 1)
    struck: Array  # []  the ball struck a brick in the last step, or is still passing through bricks


@dataclass(frozen=True)
class Breakout:
    """The ball moves along diagonals; every brick it breaks gives reward 1.

    Walls reflect the ball. A brick is broken and reflects the ball, unless the ball struck one in the step before: then the
    ball passes through. A paddle right below the ball reflects it; a paddle in the ball's target cell sends it back the way it
    came. The game ends when the ball passes the paddle. When no brick is left, new ones appear once the ball is at the bottom.
    """

    channels = ("paddle", "ball", "trail", "brick")

    def draw(self, u: Array) -> BreakoutDraws:
        return BreakoutDraws(digits(u[0], (2,))[0] == 1)

    def begin(self, draws: BreakoutDraws) -> BreakoutState:
        x = jnp.where(draws.from_right, EDGE, 0)
        return BreakoutState(
            paddle=jnp.int32(4),
            x=x,
            y=jnp.int32(BRICK_ROWS),
            dx=jnp.where(draws.from_right, -1, 1),
            dy=jnp.int32(1),
            last_x=x,
            last_y=jnp.int32(BRICK_ROWS),
            bricks=jnp.int32(ALL_BRICKS),
            struck=jnp.bool_(False),
        )

    def apply(self, state: BreakoutState, action: Array, draws: BreakoutDraws) -> Outcome:
        del draws
        paddle = clip(state.paddle + across(action))
        ahead, y = state.x + state.dx, state.y + state.dy
        x = clip(ahead)
        dx = jnp.where(x == ahead, state.dx, -state.dx)

        above = y < 0
        in_bricks = (y >= FIRST_ROW) & (y < FIRST_ROW + BRICK_ROWS)
        place = jnp.where(in_bricks, x + SIZE * (y - FIRST_ROW), 0)
        in_brick = in_bricks & ((state.bricks >> place) & 1 != 0)
        breaks = in_brick & ~state.struck
        bottom = y == EDGE
        straight = bottom & (state.x == paddle)
        back = bottom & ~straight & (x == paddle)
        thrown = breaks | straight | back

        bricks = jnp.where(breaks, state.bricks & ~(1 << place), state.bricks)
        after = BreakoutState(
            paddle=paddle,
            x=x,
            y=jnp.where(above, 0, jnp.where(thrown, state.y, y)),
            dx=jnp.where(back, -dx, dx),
            dy=jnp.where(above | thrown, -state.dy, state.dy),
            last_x=state.x,
            last_y=state.y,
            bricks=jnp.where(bottom & (bricks == 0), ALL_BRICKS, bricks),
            struck=in_brick,
        )
        return Outcome(after, breaks.astype(jnp.float32), bottom & ~straight & ~back)

    def board(self, state: BreakoutState) -> Array:
        rows = jnp.arange(SIZE) - FIRST_ROW
        present = (rows >= 0) & (rows < BRICK_ROWS)
        bricks = jnp.where(present, (state.bricks >> jnp.where(present, rows * SIZE, 0)) & ROW, 0)
        paddle = at(state.paddle, jnp.int32(EDGE))
        return stacked(paddle, at(state.x, state.y), at(state.last_x, state.last_y), bricks)
