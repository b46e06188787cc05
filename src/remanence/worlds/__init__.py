"""Worlds: static shape in a frozen dataclass, everything that moves in explicit state."""

from remanence.worlds.base import World
from remanence.worlds.chain import Chain
from remanence.worlds.continuous_grid import ContinuousGrid
from remanence.worlds.corner_grid import CornerGrid
from remanence.worlds.slippery_grid import SlipperyGrid

__all__ = ["Chain", "ContinuousGrid", "CornerGrid", "SlipperyGrid", "World"]
