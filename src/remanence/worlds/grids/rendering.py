"""Renders grids: the observations of the image grid (paper, §5.1), and images and text for people."""

from __future__ import annotations

import numpy as np

from remanence.core.errors import UserError
from remanence.worlds.drawing import (
    BLACK,
    GREEN,
    GREY,
    RED,
    board,
    pixel_centres,
    reward_colour,
    reward_sign,
    text_lines,
)
from remanence.worlds.grids.continuous import CORNERS, ContinuousGrid
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.grids.slippery import SlipperyGrid


def corner_grid_pictures(grid: CornerGrid, side: int = 48) -> np.ndarray:
    """[states, side, side, 3] images of the grid with the agent in each state, RGB, uint8.

    The grid has a wall around it, and lines of one pixel between all cells: in 48 pixels, the 7 cells of a grid of size 5 have 6
    pixels each. Floor is black, walls and lines are grey, goals green; the agent is a red square that fills its cell.
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


def corner_grid_scene(grid: CornerGrid, cell: int, rewards: np.ndarray, pixels: int = 32) -> np.ndarray:
    """[size · pixels, size · pixels, 3]"""
    paints = dict(zip(grid.corners.tolist(), map(reward_colour, rewards), strict=True))
    return board(grid.size, grid.size, paints, cell, pixels)


def slippery_grid_scene(grid: SlipperyGrid, cell: int, rewards: np.ndarray, pixels: int = 32) -> np.ndarray:
    """[height · pixels, width · pixels, 3], y upwards"""
    walls = {grid.cell(wall): GREY for wall in grid.walls}
    goals = {grid.cell(goal): reward_colour(reward) for goal, reward in zip(grid.goals, rewards, strict=True)}
    y, x = divmod(cell, grid.width)
    turned = {
        (grid.height - 1 - at // grid.width) * grid.width + at % grid.width: paint
        for at, paint in (walls | goals).items()
    }
    return board(grid.height, grid.width, turned, (grid.height - 1 - y) * grid.width + x, pixels)


def continuous_grid_scene(
    square: ContinuousGrid, point: np.ndarray, rewards: np.ndarray, side: int = 200
) -> np.ndarray:
    """[side, side, 3], y upwards"""
    x, y = pixel_centres(side)
    picture = np.full((side, side, 3), BLACK, np.uint8)
    for (corner_x, corner_y), reward in zip(CORNERS, rewards, strict=True):
        picture[np.abs(x - corner_x) + np.abs(y - corner_y) <= square.goal_radius] = reward_colour(reward)
    picture[(x - point[0]) ** 2 + (y - point[1]) ** 2 <= 0.02**2] = RED
    return picture


def corner_grid_text(grid: CornerGrid, cell: int, rewards: np.ndarray) -> str:
    signs = np.full(grid.num_states, ".")
    signs[grid.corners] = [reward_sign(reward) for reward in rewards]
    signs[cell] = "@"
    return text_lines(signs.reshape(grid.size, grid.size))


def slippery_grid_text(grid: SlipperyGrid, cell: int, rewards: np.ndarray) -> str:
    signs = np.full(grid.num_states, ".")
    signs[[grid.cell(wall) for wall in grid.walls]] = "#"
    signs[[grid.cell(goal) for goal in grid.goals]] = [reward_sign(reward) for reward in rewards]
    signs[cell] = "@"
    return text_lines(signs.reshape(grid.height, grid.width)[::-1])
