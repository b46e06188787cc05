"""What the games of MinAtar share: six actions, a board of 10 × 10 cells, and rules that are *draw, then apply*.

MinAtar (Young and Tian, 2019, https://github.com/kenjyoung/MinAtar) is the judge of these games, transition by transition; they are
written from its rules, and nothing of it is imported.

A board is drawn in bits: one number per row, whose bit x is the cell in column x. So a whole row moves, meets another or is
counted in one operation, and a game is small enough to run many at once; only `spread` lays it out for the agent to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
NUM_ACTIONS = 6
SIZE, EDGE = 10, 9  # cells per side, and the number of the last
LUCK = 2  # words of 32 random bits that are enough for a step of any game
ROW = (1 << SIZE) - 1  # a full row

GameState: TypeAlias = Any
Draws: TypeAlias = Any


class Outcome(NamedTuple):
    """What a step of a game brought."""

    state: GameState
    reward: Array  # []
    ended: Array  # []


class Game(Protocol):
    """The rules of one game. All that chance decides is in the draws; the rest is deterministic."""

    @property
    def channels(self) -> tuple[str, ...]:
        """What each channel of the observation shows."""
        ...

    def draw(self, u: Array) -> Draws:
        """All that chance may decide, at the beginning of an episode or in a step, from `LUCK` words of random bits."""
        ...

    def begin(self, draws: Draws) -> GameState: ...

    def apply(self, state: GameState, action: Array, draws: Draws) -> Outcome: ...

    def board(self, state: GameState) -> Array:
        """[10, channels] what the agent sees, in bits."""
        ...


def digits(word: Array, bases: Sequence[int]) -> Array:
    """[digits] independent numbers 0 … base − 1 from one word of random bits; bases up to 16.

    The word is a fraction: times the base, what comes before the point is the number, and what comes behind it serves the next.
    No outcome is likelier than another by more than (product of bases) / 2²⁸.
    """
    point = 28
    below = jnp.uint32((1 << point) - 1)
    used = np.cumprod([1, *bases[:-1]]).astype(np.uint32)  # whole numbers overflow, but only above the point
    fractions = ((word >> (32 - point)) * used) & below
    return ((fractions * np.array(bases, np.uint32)) >> point).astype(jnp.int32)


def bit(x: Array) -> Array:
    """The cell in column x, 0 … 9, of a row."""
    return jnp.left_shift(jnp.int32(1), x)


def at(x: Array, y: Array, there: Array | bool = True) -> Array:
    """[10] a board with one cell; or with many, where x, y and `there` are [things]."""
    rows = jnp.arange(SIZE).reshape(SIZE, *[1] * jnp.ndim(x))
    cells = jnp.where((rows == y) & there, bit(x), 0)
    return union(cells) if jnp.ndim(x) else cells


def union(sets: Array) -> Array:
    """All bits that are set anywhere along the last axis."""
    return jax.lax.reduce(sets, sets.dtype.type(0), jax.lax.bitwise_or, (sets.ndim - 1,))


def behind(cell: Array, rightward: Array) -> Array:
    """The cell, as a bit, behind something that moves; nothing where that is beyond the edge."""
    return jnp.where(rightward, cell >> 1, (cell << 1) & ROW)


def stacked(*boards: Array) -> Array:
    """[10, channels] one board per channel."""
    channel = np.arange(len(boards))
    board = jnp.zeros((SIZE, len(boards)), jnp.int32)
    for number, one in enumerate(boards):
        board = jnp.where(channel == number, one[:, None], board)
    return board


def spread(board: Array) -> Array:
    """[10, 10, channels] a board in bits, [10, channels], as the agent sees it: row, column, channel; bool."""
    return settled(board)[:, None, :] & (1 << np.arange(SIZE, dtype=np.int32))[:, None] != 0


def clip(place: Array, low: int = 0, high: int = EDGE) -> Array:
    return jnp.clip(place, low, high)


def across(action: Array) -> Array:
    """The step to the right that an action asks for."""
    return jnp.int32(action == RIGHT) - jnp.int32(action == LEFT)


def downwards(action: Array) -> Array:
    """The step downwards that an action asks for."""
    return jnp.int32(action == DOWN) - jnp.int32(action == UP)


def settled(tree: Any) -> Any:
    """The same whole numbers, computed once.

    The compiler melts what is cheap into all its uses: a step into every number of the state after it, and that into each of
    some hundred cells. It never does so with a reduction: this one, over the numbers and nothing, is a wall between
    them, and makes a step several times faster.
    """

    def settle(leaf: Array) -> Array:
        return union(jnp.where(jnp.arange(2) == 0, leaf[..., None], leaf.dtype.type(0)))

    return jax.tree.map(settle, tree)
