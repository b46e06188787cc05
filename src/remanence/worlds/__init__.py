"""Worlds: static parameters in a frozen dataclass, everything that changes in an explicit state."""

from remanence.worlds.base import HostedWorld, World
from remanence.worlds.chain import Chain
from remanence.worlds.grids.continuous import ContinuousGrid
from remanence.worlds.grids.corner import CornerGrid
from remanence.worlds.grids.picture import PictureGrid
from remanence.worlds.grids.rendering import corner_grid_pictures
from remanence.worlds.grids.slippery import SlipperyGrid
from remanence.worlds.minatar import MinAtar, MinAtarGames, minatar_picture
from remanence.worlds.rooms.layouts import ITEM_ROOMS_TASKS, TWO_ROOMS_TASKS, item_rooms, two_rooms
from remanence.worlds.rooms.rendering import rooms_picture
from remanence.worlds.rooms.world import Goal, Items, Rooms, RoomsState

__all__ = [
    "ITEM_ROOMS_TASKS",
    "TWO_ROOMS_TASKS",
    "Chain",
    "ContinuousGrid",
    "CornerGrid",
    "Goal",
    "HostedWorld",
    "Items",
    "MinAtar",
    "MinAtarGames",
    "PictureGrid",
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
