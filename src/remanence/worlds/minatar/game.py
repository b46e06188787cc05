"""Common parts of the games of MinAtar: six actions, a board of 10 × 10 cells, and rules that *draw, then apply*.

MinAtar (Young and Tian, 2019, https://github.com/kenjyoung/MinAtar) is the reference: tests compare every transition with
it. The games are written from its rules; it is not imported.

A board is a bitboard: one integer per row, whose bit x is the cell in column x. So a row is moved, compared or counted in one
operation, and the state of a game is small; only `spread` unpacks it into an observation.
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
RANDOM_WORDS = 2  # words of 32 random bits: enough for a step of any game
ROW = (1 << SIZE) - 1  # a full row

GameState: TypeAlias = Any
Draws: TypeAlias = Any


class Outcome(NamedTuple):
    """The outcome of a step."""

    state: GameState
    reward: Array  # []
    ended: Array  # []


class Game(Protocol):
    """The rules of one game. All randomness is in the draws; the rest is deterministic."""

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the observation's channels."""
        ...

    def draw(self, u: Array) -> Draws:
        """All random choices of a reset or a step, from `RANDOM_WORDS` words of random bits."""
        ...

    def begin(self, draws: Draws) -> GameState: ...

    def apply(self, state: GameState, action: Array, draws: Draws) -> Outcome: ...

    def board(self, state: GameState) -> Array:
        """[10, channels] the observation as bitboards."""
        ...


def digits(word: Array, bases: Sequence[int]) -> Array:
    """[digits] independent numbers 0 … base − 1 from one word of random bits; bases up to 16.

    The word is read as a fraction: its product with the base has the number as integer part, and the fraction for the next.
    No outcome is likelier than another by more than (product of bases) / 2²⁸.
    """
    point = 28
    below = jnp.uint32((1 << point) - 1)
    used = np.cumprod([1, *bases[:-1]]).astype(np.uint32)  # integers overflow, but only in the integer part
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
    """Bitwise or along the last axis."""
    return jax.lax.reduce(sets, sets.dtype.type(0), jax.lax.bitwise_or, (sets.ndim - 1,))


def behind(cell: Array, rightward: Array) -> Array:
    """The cell behind a moving object, as a bit; 0 if it is outside the board."""
    return jnp.where(rightward, cell >> 1, (cell << 1) & ROW)


def stacked(*boards: Array) -> Array:
    """[10, channels] one board per channel."""
    channel = np.arange(len(boards))
    board = jnp.zeros((SIZE, len(boards)), jnp.int32)
    for number, one in enumerate(boards):
        board = jnp.where(channel == number, one[:, None], board)
    return board


def spread(board: Array) -> Array:
    """[10, 10, channels] bitboards, [10, channels], as an observation: row, column, channel; bool."""
    return settled(board)[:, None, :] & (1 << np.arange(SIZE, dtype=np.int32))[:, None] != 0


def clip(place: Array, low: int = 0, high: int = EDGE) -> Array:
    return jnp.clip(place, low, high)


def across(action: Array) -> Array:
    """The horizontal move of an action: −1, 0 or 1."""
    return jnp.int32(action == RIGHT) - jnp.int32(action == LEFT)


def downwards(action: Array) -> Array:
    """The vertical move of an action: −1, 0 or 1, downwards."""
    return jnp.int32(action == DOWN) - jnp.int32(action == UP)


def settled(tree: Any) -> Any:
    """The same integers, computed once.

    XLA fuses cheap operations into all their uses: a step into every number of the next state, and that into each of some
    hundred cells. It never duplicates a reduction: this trivial one is a fusion barrier, and makes a step several times faster.
    """

    def barrier(leaf: Array) -> Array:
        return union(jnp.where(jnp.arange(2) == 0, leaf[..., None], leaf.dtype.type(0)))

    return jax.tree.map(barrier, tree)
