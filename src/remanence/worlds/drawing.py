"""Shared rendering code of worlds: colours, and functions that draw cells.

Images are RGB, uint8. The agent is a red disc; positive rewards are green, negative ones orange, zero is dim.
"""

from __future__ import annotations

import numpy as np

BLACK, GREY, GREEN, RED = (0, 0, 0), (128, 128, 128), (0, 255, 0), (255, 0, 0)
GAIN, LOSS, NOTHING, LINE = (60, 200, 90), (255, 140, 0), (70, 75, 95), (40, 42, 52)


def board(height: int, width: int, paints: dict[int, tuple[int, int, int]], agent: int, pixels: int) -> np.ndarray:
    """A grid of cells with lines between them; cells are numbered by rows from the top."""
    x, y = pixel_centres(pixels)
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


def pixel_centres(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of pixel centres, x to the right and y upwards, from 0 to 1; each [side, side]."""
    middles = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(middles, middles[::-1])
    return x, y


def reward_colour(reward: float) -> tuple[int, int, int]:
    return GAIN if reward > 0 else LOSS if reward < 0 else NOTHING


def reward_sign(reward: float) -> str:
    return "+" if reward > 0 else "-" if reward < 0 else "0"


def text_lines(signs: np.ndarray) -> str:
    return "\n".join("".join(row) for row in signs)
