"""The corner grid seen as pictures (paper, §5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from remanence.core.types import ObsSpec
from remanence.worlds.base import state_numbers
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.grids.rendering import corner_grid_pictures


@dataclass(frozen=True)
class PictureGrid(CornerGrid):
    """A corner grid whose states look like pictures to a network.

    There are only as many pictures as cells. So an observation is still the number of the cell, and `observation.images` has the
    picture of each, from 0 to 1.
    """

    @cached_property
    def observation(self) -> ObsSpec:
        return state_numbers(self.num_states, corner_grid_pictures(self) / 255.0)
