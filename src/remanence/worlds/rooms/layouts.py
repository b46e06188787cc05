"""The rooms of the paper and their tasks: item rooms (§5.1 and App. C.1.2) and two rooms (§5.2 and App. C.1.3)."""

from __future__ import annotations

import numpy as np

from remanence.worlds.rooms.sight import ITEM_COLOURS
from remanence.worlds.rooms.world import Cell, Goal, Items, Rooms

# Rewards of blue, red, yellow and purple items in the paper's four tasks (App. C.1.2); the released code doubles them.
ITEM_ROOMS_TASKS = np.array([[-1, 1, 1, 1], [1, 1, 0.5, 1], [1, 1, 1, -1], [-1, 1, 0.5, -1]], np.float32)
# Rewards of the first and the second goal in the paper's two tasks (App. C.1.3).
TWO_ROOMS_TASKS = np.array([[5, 0], [0, 5]], np.float32)

ITEM_ROOMS = """
###########
#Gb.b#y.yG#
#b.b.#.y.y#
#.b.b#y.y.#
#b.b...y.y#
####...####
#r.r...p.p#
#.r.r#p.p.#
#r.r.#.p.p#
#Gr.r#p.pG#
###########
"""  # blue, yellow, red and purple items; goals in the corners

TWO_ROOMS = """
###############
#......G......#
#.............#
#........G....#
#..############
#....##########
#....##########
#....##########
#....##########
#ssss##########
###############
"""  # the agent starts in the last row of the lower room


def item_rooms(
    *,
    view: int = 5,
    step_limit: int | None = None,
    discount: float = 0.9,
    encoding: str = "things",
    released: bool = False,
) -> Rooms:
    """Four rooms with a checkerboard of items each and a goal in each corner (paper, §5.1 and App. C.1.2).

    The goals have reward 0. The agent starts between the cells (3, 3) and (6, 6). Task: the rewards of blue, red, yellow and purple
    items, see `ITEM_ROOMS_TASKS`. `released` is the world of the released code: starts up to (8, 8), and turns also move.
    """
    drawn = _read(ITEM_ROOMS)
    reach = range(3, 9) if released else range(3, 7)
    return Rooms(
        width=11,
        height=11,
        starts=tuple((x, y) for y in reach for x in reach),
        walls=drawn["#"],
        goals=tuple(Goal(cell) for cell in drawn["G"]),
        items=tuple(Items(colour, drawn[colour[0]], prize) for prize, colour in enumerate(ITEM_COLOURS)),
        view=view,
        step_limit=step_limit,
        discount=discount,
        encoding=encoding,
        turns_also_move=released,
    )


def two_rooms(
    *,
    view: int = 5,
    step_limit: int | None = 100,
    discount: float = 0.99,
    encoding: str = "minigrid",
) -> Rooms:
    """Two rooms with two goals in the upper one (paper, §5.2 and App. C.1.3).

    Task: the rewards of the goals at (7, 1) and (9, 3), see `TWO_ROOMS_TASKS`. The default encoding shows walls: without them
    most views would be empty.
    """
    drawn = _read(TWO_ROOMS)
    return Rooms(
        width=15,
        height=11,
        starts=drawn["s"],
        walls=drawn["#"],
        goals=tuple(Goal(cell, prize) for prize, cell in enumerate(drawn["G"])),
        view=view,
        step_limit=step_limit,
        discount=discount,
        encoding=encoding,
    )


def _read(drawing: str) -> dict[str, tuple[Cell, ...]]:
    """The cells of each character in a layout, row by row."""
    cells: dict[str, tuple[Cell, ...]] = {}
    for y, row in enumerate(drawing.split()):
        for x, sign in enumerate(row):
            cells[sign] = (*cells.get(sign, ()), (x, y))
    return cells
