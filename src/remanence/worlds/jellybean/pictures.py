"""Images and text of Jelly Bean Worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remanence.worlds.jellybean.world import JellyBeanWorlds

UNKNOWN, PROVISIONAL, FLOOR, PATH, AGENT = (128, 128, 128), (64, 64, 64), (0, 0, 0), (150, 130, 60), (255, 255, 255)


def view_picture(codes: np.ndarray, colours: np.ndarray, pixels: int = 16) -> np.ndarray:
    """[view · pixels, view · pixels, 3] the agent's view, RGB, uint8; the agent is the white square in the center.

    Args: codes: [view, view] from a world's `observe`. colours: [1 + kinds, 3] from its rules.
    """
    cells = (255 * colours[codes]).astype(np.uint8)
    picture = _enlarged(cells, pixels)
    middle, inset = len(codes) // 2, pixels // 4
    inside = slice(middle * pixels + inset, (middle + 1) * pixels - inset)
    picture[inside, inside] = AGENT
    return picture


def world_picture(
    worlds: JellyBeanWorlds,
    lane: int = 0,
    radius: int = 48,
    path: Sequence[tuple[int, int]] | np.ndarray = (),
    pixels: int = 4,
) -> np.ndarray:
    """[(2 radius + 1) · pixels, (2 radius + 1) · pixels, 3] the world around an agent from above, RGB, uint8.

    Floor black, dark grey where the map may still change, grey where there is none; cells of the path, [steps, 2], are brown and
    the agent is white.
    """
    left, bottom = (worlds.places[lane] - radius).tolist()
    side = 2 * radius + 1
    codes, certainty = worlds.terrain(lane, left, bottom, side, side)
    cells = np.array([UNKNOWN, PROVISIONAL, FLOOR], np.uint8)[certainty]
    walked = np.asarray(path, np.int64).reshape(-1, 2) - (left, bottom)
    walked = walked[((walked >= 0) & (walked < side)).all(axis=1)]
    cells[walked[:, 0], walked[:, 1]] = PATH
    items = codes > 0
    cells[items] = 255 * worlds.rules.colours[codes[items]]
    cells[radius, radius] = AGENT
    return _enlarged(cells, pixels)


def view_text(codes: np.ndarray, names: Sequence[str]) -> str:
    """The agent's view as letters: the first of an item's name, @ for the agent; y upwards."""
    letters = np.array([".", *(name[0] for name in names)])[codes]
    letters[len(codes) // 2, len(codes) // 2] = "@"
    return "\n".join("".join(line) for line in letters.T[::-1])


def _enlarged(cells: np.ndarray, pixels: int) -> np.ndarray:
    """Cells by x and y upwards as an image with rows from the top."""
    return np.flip(cells.swapaxes(0, 1), axis=0).repeat(pixels, axis=0).repeat(pixels, axis=1)
