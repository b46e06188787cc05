"""Grids, the continuous grid, chains and rooms for people to look at, with what the live task pays: as pictures, and as text.

Pictures are RGB, uint8. The agent is a red disc; what pays is green, what costs is orange, what is worth nothing is dim.
"""

from __future__ import annotations

import numpy as np

from remanence.worlds.chain import Chain
from remanence.worlds.grids.continuous import CORNERS, ContinuousGrid
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.grids.slippery import SlipperyGrid
from remanence.worlds.pictures import BLACK, GREY, RED
from remanence.worlds.rooms.world import Rooms, RoomsState

GAIN, LOSS, NOTHING, LINE = (60, 200, 90), (255, 140, 0), (70, 75, 95), (40, 42, 52)
HEADINGS = ">v<^"


def corner_grid_scene(grid: CornerGrid, cell: int, rewards: np.ndarray, pixels: int = 32) -> np.ndarray:
    """[size · pixels, size · pixels, 3]"""
    paints = dict(zip(grid.corners.tolist(), map(_worth, rewards), strict=True))
    return _board(grid.size, grid.size, paints, cell, pixels)


def slippery_grid_scene(grid: SlipperyGrid, cell: int, rewards: np.ndarray, pixels: int = 32) -> np.ndarray:
    """[height · pixels, width · pixels, 3], y upwards"""
    walls = {grid.cell(wall): GREY for wall in grid.walls}
    goals = {grid.cell(goal): _worth(reward) for goal, reward in zip(grid.goals, rewards, strict=True)}
    y, x = divmod(cell, grid.width)
    turned = {
        (grid.height - 1 - at // grid.width) * grid.width + at % grid.width: paint
        for at, paint in (walls | goals).items()
    }
    return _board(grid.height, grid.width, turned, (grid.height - 1 - y) * grid.width + x, pixels)


def continuous_grid_scene(
    square: ContinuousGrid, point: np.ndarray, rewards: np.ndarray, side: int = 200
) -> np.ndarray:
    """[side, side, 3], y upwards"""
    x, y = _unit(side)
    picture = np.full((side, side, 3), BLACK, np.uint8)
    for (corner_x, corner_y), reward in zip(CORNERS, rewards, strict=True):
        picture[np.abs(x - corner_x) + np.abs(y - corner_y) <= square.goal_radius] = _worth(reward)
    picture[(x - point[0]) ** 2 + (y - point[1]) ** 2 <= 0.02**2] = RED
    return picture


def chain_scene(chain: Chain, place: int, rewards: np.ndarray, side: int = 240) -> np.ndarray:
    """[side, side, 3] the states on a circle; the rim of each is the brighter, the likelier it is to follow."""
    x, y = _unit(side)
    picture = np.full((side, side, 3), BLACK, np.uint8)
    states = chain.num_states
    radius = min(0.09, 0.9 / states)
    for state, reward in enumerate(rewards):
        angle = 2 * np.pi * state / states
        distance = np.hypot(x - 0.5 - 0.38 * np.sin(angle), y - 0.5 - 0.38 * np.cos(angle))
        rim = 40 + int(215 * chain.transitions[place][state])
        picture[distance <= radius] = (rim, rim, rim)
        picture[distance <= 0.75 * radius] = _worth(reward)
        if state == place:
            picture[distance <= 0.4 * radius] = RED
    return picture


def corner_grid_text(grid: CornerGrid, cell: int, rewards: np.ndarray) -> str:
    signs = np.full(grid.num_states, ".")
    signs[grid.corners] = [_sign(reward) for reward in rewards]
    signs[cell] = "@"
    return _lines(signs.reshape(grid.size, grid.size))


def slippery_grid_text(grid: SlipperyGrid, cell: int, rewards: np.ndarray) -> str:
    signs = np.full(grid.num_states, ".")
    signs[[grid.cell(wall) for wall in grid.walls]] = "#"
    signs[[grid.cell(goal) for goal in grid.goals]] = [_sign(reward) for reward in rewards]
    signs[cell] = "@"
    return _lines(signs.reshape(grid.height, grid.width)[::-1])


def chain_text(chain: Chain, place: int, rewards: np.ndarray) -> str:
    signs = np.array([_sign(reward) for reward in rewards])
    return _lines(np.stack([signs, np.where(np.arange(chain.num_states) == place, "^", " ")]))


def rooms_text(rooms: Rooms, state: RoomsState) -> str:
    """Walls #, goals G, items by the first letter of their colour; the agent is an arrow."""
    signs = np.full((rooms.height, rooms.width), ".")
    things = [(wall, "#") for wall in rooms.walls] + [(goal.cell, "G") for goal in rooms.goals]
    lying = [(cell, kind.colour[0]) for kind in rooms.items for cell in kind.cells]
    things += [thing for thing, there in zip(lying, np.asarray(state.items), strict=True) if there]
    for (x, y), sign in things:
        signs[y, x] = sign
    signs[divmod(int(state.cell), rooms.width)] = HEADINGS[int(state.direction)]
    return _lines(signs)


def _board(height: int, width: int, paints: dict[int, tuple[int, int, int]], agent: int, pixels: int) -> np.ndarray:
    """Cells with lines between them, by rows from the top."""
    x, y = _unit(pixels)
    line, disc = (x < 1 / pixels) | (y > 1 - 1 / pixels), np.hypot(x - 0.5, y - 0.5) <= 0.3
    picture = np.zeros((height * pixels, width * pixels, 3), np.uint8)
    for cell in range(height * width):
        top, left = (pixels * part for part in divmod(cell, width))
        square = picture[top : top + pixels, left : left + pixels]
        square[:] = paints.get(cell, BLACK)
        square[line] = LINE
        if cell == agent:
            square[disc] = RED
    return picture


def _unit(side: int) -> tuple[np.ndarray, np.ndarray]:
    """x to the right and y upwards of the middle of each pixel, from 0 to 1; [side, side] each."""
    middles = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(middles, middles[::-1])
    return x, y


def _worth(reward: float) -> tuple[int, int, int]:
    return GAIN if reward > 0 else LOSS if reward < 0 else NOTHING


def _sign(reward: float) -> str:
    return "+" if reward > 0 else "-" if reward < 0 else "0"


def _lines(signs: np.ndarray) -> str:
    return "\n".join("".join(row) for row in signs)
