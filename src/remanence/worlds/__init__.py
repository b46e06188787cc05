"""Worlds: static parameters in a frozen dataclass, everything that changes in an explicit state."""

from remanence.worlds.base import World
from remanence.worlds.chain import Chain
from remanence.worlds.grids.continuous import ContinuousGrid
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.grids.slippery import SlipperyGrid
from remanence.worlds.minatar import MinAtar, MinAtarGames, minatar_picture
from remanence.worlds.pictures import corner_grid_pictures, rooms_picture
from remanence.worlds.rooms.layouts import ITEM_ROOMS_TASKS, TWO_ROOMS_TASKS, item_rooms, two_rooms
from remanence.worlds.rooms.world import Goal, Items, Rooms, RoomsState

__all__ = [
    "ITEM_ROOMS_TASKS",
    "TWO_ROOMS_TASKS",
    "Chain",
    "ContinuousGrid",
    "CornerGrid",
    "Goal",
    "Items",
    "MinAtar",
    "MinAtarGames",
    "Rooms",
    "RoomsState",
    "SlipperyGrid",
    "World",
    "corner_grid_pictures",
    "item_rooms",
    "minatar_picture",
    "rooms_picture",
    "two_rooms",
]
