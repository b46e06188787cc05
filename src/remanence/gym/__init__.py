"""Our worlds and the paper's streams of tasks as Gymnasium environments, for agents of other libraries.

`import remanence` registers them if Gymnasium was imported before. `gymnasium.make("remanence.gym:remanence/CornerGrid-v0")`
works in any order of imports. The modules of a world are imported when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from remanence.gym.switching import TaskSwitching

__all__ = ["GAMES", "STREAMS", "WORLDS", "TaskSwitching"]

WORLDS = {
    "CornerGrid": "remanence.gym.worlds:CornerGridEnv",
    "CornerGridImage": "remanence.gym.worlds:CornerGridImageEnv",
    "ContinuousGrid": "remanence.gym.worlds:ContinuousGridEnv",
    "SlipperyGrid": "remanence.gym.worlds:SlipperyGridEnv",
    "Chain": "remanence.gym.worlds:ChainEnv",
    "ItemRooms": "remanence.gym.worlds:ItemRoomsEnv",
    "TwoRooms": "remanence.gym.worlds:TwoRoomsEnv",
    "MinAtarGames": "remanence.gym.worlds:MinAtarGamesEnv",
    "JellyBeanWorld": "remanence.gym.jellybean:JellyBeanEnv",
}
GAMES = {
    "MinAtarAsterix": "asterix",
    "MinAtarBreakout": "breakout",
    "MinAtarFreeway": "freeway",
    "MinAtarSeaquest": "seaquest",
    "MinAtarSpaceInvaders": "space_invaders",
}
STREAMS = {
    "CornerGridStream": "corner_grid",
    "CornerGridImageStream": "corner_grid_image",
    "ContinuousGridStream": "continuous_grid",
    "SlipperyGridStream": "slippery_grid",
    "ItemRoomsStream": "item_rooms",
    "TwoRoomsStream": "two_rooms",
    "MinAtarStream": "minatar",
    "JellyBeanStream": "jelly_bean",
}

for _name, _class in WORLDS.items():
    gymnasium.register(f"remanence/{_name}-v0", _class)
for _name, _game in GAMES.items():
    gymnasium.register(f"remanence/{_name}-v0", "remanence.gym.worlds:MinAtarEnv", kwargs={"game": _game})
for _name, _stream in STREAMS.items():
    gymnasium.register(f"remanence/{_name}-v0", f"remanence.gym.streams:{_stream}")


def __getattr__(name: str) -> Any:
    """`TaskSwitching` is imported on first use: it needs jax."""
    if name != "TaskSwitching":
        raise AttributeError(f"module 'remanence.gym' has no attribute '{name}'")
    from remanence.gym.switching import TaskSwitching

    return TaskSwitching
