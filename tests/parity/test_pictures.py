"""Pictures of worlds, pixel by pixel."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import GRID
from remanence.core.errors import UserError
from remanence.worlds import CornerGrid, Goal, Items, Rooms, corner_grid_pictures, rooms_picture
from remanence.worlds.rooms.world import Start

SIGNS = {(0, 0, 0): ".", (128, 128, 128): "#", (0, 255, 0): "G", (255, 0, 0): "A", (0, 0, 255): "b"}


def sketch(picture: np.ndarray) -> list[str]:
    """A sign per pixel."""
    return ["".join(SIGNS[tuple(pixel)] for pixel in row) for row in picture.tolist()]


def test_a_small_grid_pixel_by_pixel() -> None:
    """Two pixels per cell, one per line, a wall around: 5 cells and 4 lines are 14 pixels. The agent is in the centre."""
    pictures = corner_grid_pictures(CornerGrid(size=3), side=14)
    wall, top, middle = "#" * 14, "###GG#..#GG###", "###..#AA#..###"
    assert sketch(pictures[4]) == [wall] * 3 + [top] * 2 + [wall] + [middle] * 2 + [wall] + [top] * 2 + [wall] * 3


def test_the_image_grid_of_the_paper() -> None:
    """48 x 48 (§5.1): every state has its picture, and the agent in it is a square of 6 x 6 in its cell."""
    pictures = corner_grid_pictures(GRID)
    assert (pictures.shape, pictures.dtype) == ((25, 48, 48, 3), np.uint8)
    for state, picture in enumerate(pictures):
        rows, columns = np.nonzero((picture == (255, 0, 0)).all(axis=-1))
        row, column = divmod(state, 5)
        assert (rows.min(), columns.min()) == (7 + 7 * row, 7 + 7 * column)
        assert (rows.max(), columns.max(), len(rows)) == (rows.min() + 5, columns.min() + 5, 36)
        goals = 3 if state in GRID.corners else 4  # the agent hides what is under it
        assert (picture == (0, 255, 0)).all(axis=-1).sum() == 36 * goals


@pytest.mark.parametrize(("size", "side"), [(5, 47), (3, 48), (7, 48), (5, 6), (5, 0)])
def test_a_picture_that_does_not_fit_is_refused(size: int, side: int) -> None:
    with pytest.raises(UserError, match=f"a picture of {side} pixels does not fit a grid of size {size}"):
        corner_grid_pictures(CornerGrid(size=size), side)


ROOMS = Rooms(3, 2, starts=((1, 1),), walls=((0, 0),), goals=(Goal((1, 0)),), items=(Items("blue", ((2, 0), (2, 1))),))


def test_rooms_from_above() -> None:
    """Looking right: the triangle is broad at the back and points to the item, a disc."""
    state, _ = ROOMS.begin(Start(jnp.int32(4), jnp.int32(0)))
    assert sketch(rooms_picture(ROOMS, state, pixels=6)) == [
        "######GGGGGG......",
        "######GGGGGG..bb..",
        "######GGGGGG.bbbb.",
        "######GGGGGG.bbbb.",
        "######GGGGGG..bb..",
        "######GGGGGG......",
        "..................",
        ".......A......bb..",
        ".......AAA...bbbb.",
        ".......AAA...bbbb.",
        ".......A......bb..",
        "..................",
    ]


@pytest.mark.parametrize(("direction", "broad"), [(0, (1, 0)), (1, (0, 1)), (2, (1, 2)), (3, (2, 1))])
def test_the_agent_points_where_it_looks(direction: int, broad: tuple[int, int]) -> None:
    """The red mass leans to the back: left when it looks right, and so on clockwise; taken items are not drawn."""
    state, _ = ROOMS.begin(Start(jnp.int32(4), jnp.int32(direction)))
    picture = rooms_picture(ROOMS, state._replace(items=jnp.array([True, False])), pixels=30)
    rows, columns = np.nonzero((picture == (255, 0, 0)).all(axis=-1))
    lean = np.sign(np.round([rows.mean() - 44.5, columns.mean() - 44.5], 6)).astype(int) + 1
    assert tuple(lean) == broad
    assert (picture[:30] == (0, 0, 255)).all(axis=-1).any()
    assert not (picture[30:] == (0, 0, 255)).all(axis=-1).any()
