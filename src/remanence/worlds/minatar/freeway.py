"""Freeway: a chicken crosses eight lanes of traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.worlds.minatar.game import (
    DOWN,
    EDGE,
    RANDOM_WORDS,
    SIZE,
    UP,
    Outcome,
    at,
    behind,
    bit,
    clip,
    digits,
    downwards,
    settled,
)

CARS, SPEEDS = 8, 5
COLUMN = 4  # of the chicken
PAUSE = 3  # steps between two moves of the chicken
TIME = 2500
ROWS = np.arange(CARS) + 1  # of the cars


class FreewayDraws(NamedTuple):
    velocity: (
        Array  # [cars]  of new traffic: to the right if positive; its absolute value, 1 … 5, is the pause between moves
    )


class FreewayState(NamedTuple):
    row: Array  # []  of the chicken
    pause: Array  # []  steps until it may move again
    x: Array  # [cars]
    wait: Array  # [cars]  steps until each moves
    velocity: Array  # [cars]
    time: Array  # []  steps left


@dataclass(frozen=True)
class Freeway:
    """The chicken moves up or down, at most every third step. Reaching the top gives reward 1; the chicken returns to the
    bottom, with new traffic.

    A car pauses 1 to 5 steps between moves and wraps around at the edge. A chicken that is hit returns to the bottom. The game
    ends after 2501 steps; as in the original this is a termination, although the agent cannot observe the time.
    """

    channels = ("chicken", "car", "speed 1", "speed 2", "speed 3", "speed 4", "speed 5")

    def draw(self, u: Array) -> FreewayDraws:
        number = jnp.ravel(digits(u[:, None], (2 * SPEEDS,) * (CARS // RANDOM_WORDS)))
        return FreewayDraws(settled(jnp.where(number < SPEEDS, number - SPEEDS, number - SPEEDS + 1)))

    def begin(self, draws: FreewayDraws) -> FreewayState:
        return FreewayState(
            row=jnp.int32(EDGE),
            pause=jnp.int32(PAUSE),
            x=jnp.zeros(CARS, jnp.int32),
            wait=jnp.abs(draws.velocity),
            velocity=jnp.asarray(draws.velocity, jnp.int32),
            time=jnp.int32(TIME),
        )

    def apply(self, state: FreewayState, action: Array, draws: FreewayDraws) -> Outcome:
        moves = ((action == UP) | (action == DOWN)) & (state.pause == 0)
        row = jnp.where(moves, clip(state.row + downwards(action)), state.row)
        pause = jnp.where(moves, PAUSE, state.pause)

        across = row == 0
        row = jnp.where(across, EDGE, row)
        velocity = jnp.where(across, draws.velocity, state.velocity)
        wait = jnp.where(across, jnp.abs(velocity), state.wait)

        drives = wait == 0
        ahead = state.x + jnp.sign(velocity)
        x = jnp.where(drives, jnp.where(ahead < 0, EDGE, jnp.where(ahead > EDGE, 0, ahead)), state.x)
        hit = jnp.any((row == ROWS) & ((state.x == COLUMN) | (x == COLUMN)))
        after = FreewayState(
            row=jnp.where(hit, EDGE, row),
            pause=jnp.maximum(pause - 1, 0),
            x=x,
            wait=jnp.where(drives, jnp.abs(velocity), wait - 1),
            velocity=velocity,
            time=state.time - 1,
        )
        return Outcome(after, across.astype(jnp.float32), after.time < 0)

    def board(self, state: FreewayState) -> Array:
        rightward = state.velocity > 0
        car = bit(state.x)  # [cars], one per row
        comes_in = state.x == jnp.where(rightward, 0, EDGE)
        trail = jnp.where(comes_in, jnp.where(rightward, 1 << EDGE, 1), behind(car, rightward))
        channel = np.arange(len(self.channels))
        shown_in = 1 + jnp.abs(state.velocity)
        cars = jnp.where(channel == 1, car[:, None], jnp.where(channel == shown_in[:, None], trail[:, None], 0))
        road = jnp.pad(cars, ((1, SIZE - CARS - 1), (0, 0)))
        return jnp.where(channel == 0, at(jnp.int32(COLUMN), state.row)[:, None], road)
