"""Images and text of Jelly Bean Worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from remanence.worlds import jellybean
from remanence.worlds.jellybean.items import JellyBean

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
    worlds: jellybean.JellyBeanWorlds,
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


class Walk(NamedTuple):
    """Where a walk has led: positions are relative to the agent."""

    seed: int
    steps: int
    radius: int
    """how far around the agent items and path are listed"""
    vision_range: int
    kinds: tuple[str, ...]
    items: tuple[dict[str, Any], ...]  # x, y, kind
    path: tuple[dict[str, Any], ...]  # x, y, step


def walk_to_the_nearest(rules: JellyBean, seed: int = 3, steps: int = 400, radius: int = 32) -> Walk:
    """A walk that always goes to the nearest item in view."""
    world, path = jellybean.JellyBeanWorlds(rules, [seed]), [(0, 0)]
    for _ in range(steps):
        world.step(np.array([_towards_the_nearest(world.views[0], len(path))]))
        path.append((int(world.places[0, 0]), int(world.places[0, 1])))
    x, y = path[-1]
    side = 2 * radius + 1
    codes, _ = world.terrain(0, x - radius, y - radius, side, side)
    items = (
        {"x": int(i) - radius, "y": int(j) - radius, "kind": rules.items[codes[i, j] - 1].name}
        for i, j in np.argwhere(codes)
    )
    near = (
        {"x": a - x, "y": b - y, "step": n} for n, (a, b) in enumerate(path) if max(abs(a - x), abs(b - y)) <= radius
    )
    kinds = tuple(item.name for item in rules.items)
    return Walk(seed, steps, radius, rules.vision_range, kinds, tuple(items), tuple(near))


def _towards_the_nearest(view: np.ndarray, turn: int) -> int:
    """Up, left, right or down to the nearest visible item; alternately up and right if there is none."""
    middle = len(view) // 2
    found = np.argwhere(view) - middle
    found = found[np.abs(found).sum(axis=1) > 0]
    if not len(found):
        return 0 if turn % 2 else 2
    dx, dy = found[np.abs(found).sum(axis=1).argmin()]
    if abs(dx) > abs(dy):
        return 2 if dx > 0 else 1
    return 0 if dy > 0 else 3
