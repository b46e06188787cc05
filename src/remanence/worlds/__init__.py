"""Worlds: static shape in a frozen dataclass, everything that moves in explicit state."""

from remanence.worlds.base import World
from remanence.worlds.chain import Chain
from remanence.worlds.continuous_grid import ContinuousGrid
from remanence.worlds.corner_grid import CornerGrid
from remanence.worlds.minatar import MinAtar, MinAtarGames, minatar_picture
from remanence.worlds.pictures import corner_grid_pictures, rooms_picture
from remanence.worlds.room_layouts import ITEM_ROOMS_TASKS, TWO_ROOMS_TASKS, item_rooms, two_rooms
from remanence.worlds.rooms import Goal, Items, Rooms, RoomsState
from remanence.worlds.slippery_grid import SlipperyGrid

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
