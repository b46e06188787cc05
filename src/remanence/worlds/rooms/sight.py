"""The agent's view of rooms: Minigrid's symbols, occlusion by walls, and the encoding as an observation."""

from __future__ import annotations

import numpy as np

# Minigrid's numbers for a cell: a type, a color and a state (of doors: always 0 in these rooms).
TYPES = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
STATES = ("open", "closed", "locked")

ITEM_COLOURS = ("blue", "red", "yellow", "purple")  # of the encoding "things", in the order of the paper's item rewards
ENCODINGS = {"minigrid": len(TYPES) + len(COLOURS) + len(STATES), "things": len(ITEM_COLOURS) + 1}  # channels of each


def symbol(kind: str, colour: str) -> np.ndarray:
    """[3] Minigrid's numbers for an object, uint8."""
    return np.array([TYPES.index(kind), COLOURS.index(colour), 0], np.uint8)


UNSEEN, EMPTY = symbol("unseen", "red"), symbol("empty", "red")  # Minigrid gives them colour 0, which is red
WALL, GOAL = symbol("wall", "grey"), symbol("goal", "green")


def visible(opaque: np.ndarray) -> np.ndarray:
    """[..., n, n] which cells of a view, [column, row], are visible if `opaque` cells, [..., n, n], block the sight.

    Visibility spreads as in Minigrid: row by row away from the agent, in each row first from left to right and then back. A
    visible cell that is not opaque makes its neighbor on that side visible, and in the next row the cells straight and
    diagonally ahead.
    """
    n = opaque.shape[-1]
    seen = np.zeros_like(opaque)
    seen[..., n // 2, n - 1] = True
    for row in reversed(range(n)):
        for side, columns in ((1, range(n - 1)), (-1, range(n - 1, 0, -1))):
            for column in columns:
                through = seen[..., column, row] & ~opaque[..., column, row]
                seen[..., column + side, row] |= through
                if row > 0:
                    seen[..., column + side, row - 1] |= through
                    seen[..., column, row - 1] |= through
    return seen


def encode(symbols: np.ndarray, encoding: str) -> np.ndarray:
    """[..., channels] symbols, [..., 3], as bool.

    "minigrid": one-hot type (11), colour (6) and state (3), as Minigrid's `OneHotPartialObsWrapper`; so an unseen or empty cell
    has three channels set like any other. "things": a blue, red, yellow or purple item, a goal; all else is zero.
    """
    kind, colour, state = np.moveaxis(symbols, -1, 0)
    if encoding == "minigrid":
        parts = ((kind, TYPES), (colour, COLOURS), (state, STATES))
        return np.concatenate([np.eye(len(names), dtype=bool)[part] for part, names in parts], axis=-1)
    items = [(kind == TYPES.index("ball")) & (colour == COLOURS.index(name)) for name in ITEM_COLOURS]
    return np.stack([*items, kind == TYPES.index("goal")], axis=-1)
