"""Renders rooms as images and text."""

from __future__ import annotations

import numpy as np

from remanence.worlds.drawing import GREEN, GREY, RED, text_lines
from remanence.worlds.rooms.world import Rooms, RoomsState

PAINTS = {
    "red": RED,
    "green": GREEN,
    "blue": (0, 0, 255),
    "purple": (112, 39, 195),
    "yellow": (255, 255, 0),
    "grey": (190, 190, 190),  # lighter than walls
}
HEADINGS = ">v<^"


def rooms_picture(rooms: Rooms, state: RoomsState, pixels: int = 16) -> np.ndarray:
    """[height · pixels, width · pixels, 3] a top view, RGB, uint8; `state` is the state of one lane.

    Floor is black, walls are grey, goals green, items discs of their colour; the agent is a red triangle that points forwards.
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


def rooms_text(rooms: Rooms, state: RoomsState) -> str:
    """Walls #, goals G, items by the first letter of their colour; the agent is an arrow."""
    signs = np.full((rooms.height, rooms.width), ".")
    things = [(wall, "#") for wall in rooms.walls] + [(goal.cell, "G") for goal in rooms.goals]
    lying = [(cell, kind.colour[0]) for kind in rooms.items for cell in kind.cells]
    things += [thing for thing, there in zip(lying, np.asarray(state.items), strict=True) if there]
    for (x, y), sign in things:
        signs[y, x] = sign
    signs[divmod(int(state.cell), rooms.width)] = HEADINGS[int(state.direction)]
    return text_lines(signs)
