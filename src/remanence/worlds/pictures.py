"""Worlds as pictures: what the agent of the image grid sees (paper, §5.1), and rooms for people to look at.

Scenes of the other worlds are in `scenes.py`.
"""

from __future__ import annotations

import numpy as np

from remanence.core.errors import UserError
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.rooms.world import Rooms, RoomsState

BLACK, GREY, GREEN, RED = (0, 0, 0), (128, 128, 128), (0, 255, 0), (255, 0, 0)
PAINTS = {
    "red": RED,
    "green": GREEN,
    "blue": (0, 0, 255),
    "purple": (112, 39, 195),
    "yellow": (255, 255, 0),
    "grey": (190, 190, 190),  # lighter than walls
}


def corner_grid_pictures(grid: CornerGrid, side: int = 48) -> np.ndarray:
    """[states, side, side, 3] the grid with the agent in each of its states, RGB, uint8.

    The grid with a wall around it, and lines of one pixel between all cells: in 48 pixels, the 7 cells of a grid of size 5 have 6
    pixels each. Floor black, walls and lines grey, goals green; the agent is a red square that hides what is under it.
    """
    cells = grid.size + 2
    pixels, rest = divmod(side - (cells - 1), cells)
    if pixels < 1 or rest:
        raise UserError(
            f"a picture of {side} pixels does not fit a grid of size {grid.size}: with walls it is {cells} cells wide, "
            f"so a side must be {cells} times the pixels per cell plus {cells - 1} for lines"
        )

    def square(state: int) -> tuple[slice, slice]:
        row, column = divmod(state, grid.size)
        top, left = (row + 1) * (pixels + 1), (column + 1) * (pixels + 1)
        return slice(top, top + pixels), slice(left, left + pixels)

    background = np.full((side, side, 3), GREY, np.uint8)
    for state in range(grid.num_states):
        background[square(state)] = BLACK
    for corner in grid.corners:
        background[square(int(corner))] = GREEN
    pictures = np.repeat(background[None], grid.num_states, axis=0)
    for state in range(grid.num_states):
        pictures[(state, *square(state))] = RED
    return pictures


def rooms_picture(rooms: Rooms, state: RoomsState, pixels: int = 16) -> np.ndarray:
    """[height · pixels, width · pixels, 3] rooms from above, RGB, uint8; `state` is that of one lane.

    Floor black, walls grey, goals green, items discs of their colour; the agent is a red triangle that points where it looks.
    """
    picture = np.zeros((rooms.height * pixels, rooms.width * pixels, 3), np.uint8)
    across = (np.arange(pixels) + 0.5) / pixels * 2 - 1  # the middle of each pixel, from −1 to 1
    y, x = np.meshgrid(across, across, indexing="ij")
    everywhere, disc = np.ones_like(x, bool), x**2 + y**2 <= 0.6**2
    arrow = (x >= -0.7) & (2 * np.abs(y) <= 0.8 - x)  # points to the right

    def paint(cell: tuple[int, int], shape: np.ndarray, colour: tuple[int, int, int]) -> None:
        left, top = cell[0] * pixels, cell[1] * pixels
        picture[top : top + pixels, left : left + pixels][shape] = colour

    for wall in rooms.walls:
        paint(wall, everywhere, GREY)
    for goal in rooms.goals:
        paint(goal.cell, everywhere, GREEN)
    lying = [(cell, PAINTS[kind.colour]) for kind in rooms.items for cell in kind.cells]
    for (cell, colour), there in zip(lying, np.asarray(state.items), strict=True):
        if there:
            paint(cell, disc, colour)
    row, column = divmod(int(state.cell), rooms.width)
    paint((column, row), np.rot90(arrow, -int(state.direction)), RED)
    return picture
