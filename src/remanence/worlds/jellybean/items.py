"""Kinds of items in Jelly Bean World, their interactions, and the paper's two sets of items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from remanence.core.errors import UserError, unknown

ACTIONS = ("up", "left", "right", "down")

CODE_BITS = 16  # of a stored item: its kind and its cell in the patch


@dataclass(frozen=True)
class Box:
    """An interaction: `near` where the squared distance is below `inner`, else `far` where it is below `outer`, else 0.

    It applies to both items of a pair, so two items of one kind count it twice.
    """

    inner: float
    outer: float
    near: float
    far: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in (self.inner, self.outer, self.near, self.far)):
            raise UserError(f"an interaction needs finite numbers; got {self}")
        if self.inner < 0 or self.outer < 0:
            raise UserError(f"squared distances of an interaction cannot be negative; got {self.inner}, {self.outer}")

    def at(self, squared_distance: np.ndarray) -> np.ndarray:
        beyond = np.where(squared_distance < self.outer, self.far, 0.0)
        return np.where(squared_distance < self.inner, self.near, beyond)

    @property
    def reach(self) -> int:
        """The largest distance along an axis at which it is not 0."""
        cut_off = max(self.inner if self.near else 0.0, self.outer if self.far else 0.0)
        return math.isqrt(math.ceil(cut_off) - 1) if cut_off > 1 else 0


@dataclass(frozen=True)
class Item:
    """A kind of item. `intensity`: the log-odds of an item in a cell without neighbors; `colour`: red, green, blue in [0, 1].

    `interactions` has one entry for each kind of the world, in the same order; None for no interaction.
    """

    name: str
    colour: tuple[float, float, float]
    intensity: float
    interactions: tuple[Box | None, ...]

    def __post_init__(self) -> None:
        if len(self.colour) != 3 or not all(0.0 <= part <= 1.0 for part in self.colour):
            raise UserError(
                f"the colour of '{self.name}' must be red, green and blue between 0 and 1; got {self.colour}"
            )
        if not isinstance(self.intensity, int | float) or not math.isfinite(self.intensity):
            raise UserError(f"the intensity of '{self.name}' must be one finite number; got {self.intensity!r}")
        for interaction in self.interactions:
            if not isinstance(interaction, Box | None):
                raise UserError(
                    f"'{self.name}' has an interaction {interaction!r}: use a Box or None, other functions are not supported"
                )


@dataclass(frozen=True)
class JellyBean:
    """The rules of a world: its items, and how its map is generated and observed."""

    items: tuple[Item, ...]
    patch_size: int = 32
    """cells along the side of a patch; the map is generated patch by patch"""
    iterations: int = 4000
    """proposals per patch each time it is sampled"""
    vision_range: int = 5
    """cells the agent sees in each direction"""
    deleted_item_lifetime: int = 500
    """steps during which a collected item still affects new terrain, although the agent no longer sees it"""

    def __post_init__(self) -> None:
        self._check_items()
        half = self.patch_size // 2
        if self.patch_size < 2 or self.patch_size % 2:
            raise UserError(f"the patch size must be even and at least 2; got {self.patch_size}")
        if self.reach > half:
            raise UserError(
                f"items interact over {self.reach} cells, more than half a patch of {self.patch_size}: "
                f"use a patch size of at least {2 * self.reach}"
            )
        if not 0 <= self.vision_range < half:
            raise UserError(
                f"the vision range must be at least 0 and less than half a patch ({half}); got {self.vision_range}"
            )
        if (len(self.items) - 1).bit_length() + 2 * self.cell_bits > CODE_BITS:
            raise UserError(
                f"{len(self.items)} kinds of item in patches of {self.patch_size} do not fit: use a smaller patch size"
            )
        if self.iterations < 0:
            raise UserError(f"the number of iterations cannot be negative; got {self.iterations}")
        if self.deleted_item_lifetime < 1:
            raise UserError(f"the lifetime of deleted items must be at least 1; got {self.deleted_item_lifetime}")

    def _check_items(self) -> None:
        if not self.items:
            raise UserError("a world needs at least one kind of item")
        for what in ("name", "colour"):
            values = [getattr(item, what) for item in self.items]
            if len(set(values)) < len(values):
                raise UserError(f"every kind of item needs a different {what}; got {values}")
        for item in self.items:
            if len(item.interactions) != len(self.items):
                raise UserError(
                    f"'{item.name}' needs an interaction with each of the {len(self.items)} kinds, "
                    f"in their order; got {len(item.interactions)}"
                )

    @property
    def num_kinds(self) -> int:
        return len(self.items)

    @property
    def view(self) -> int:
        """Cells along the side of the agent's view."""
        return 2 * self.vision_range + 1

    @property
    def cell_bits(self) -> int:
        """Bits of a coordinate within a patch."""
        return (self.patch_size - 1).bit_length()

    @property
    def reach(self) -> int:
        """The largest distance of any interaction."""
        return max((box.reach for item in self.items for box in item.interactions if box), default=0)

    @property
    def colours(self) -> np.ndarray:
        """[1 + kinds, 3] the color of a cell: empty, or with an item of each kind."""
        return np.array([(0, 0, 0), *(item.colour for item in self.items)], np.float32)


def _blue_green_red(intensity: float, alike: Box, apart: Box) -> tuple[Item, ...]:
    """Blue and red items that cluster with their own kind, and green ones anywhere."""
    return (
        Item("blue", (0, 0, 1), intensity, (alike, None, apart)),
        Item("green", (0, 1, 0), -6.0, (None, None, None)),
        Item("red", (1, 0, 0), intensity, (apart, None, alike)),
    )


PRESETS = {
    "paper": JellyBean(_blue_green_red(-2.0, Box(2, 100, 10, -5), Box(150, 0, -100, -100))),
    "released": JellyBean(_blue_green_red(-3.5, Box(3, 10, 1, -2), Box(25, 50, -50, -10))),
}


def preset(name: str) -> JellyBean:
    """The rules with the paper's table of items, or with those of its released code."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
