"""Our worlds, and the paper's streams of tasks, for agents of other libraries: registered with Gymnasium.

`import remanence` registers them if Gymnasium was imported before. In whatever order things were imported,
`gymnasium.make("remanence.environments:remanence/CornerGrid-v0")` always works. What a world needs is imported when it is made.
"""

from __future__ import annotations

import gymnasium

from remanence.environments.switching import TaskSwitching

__all__ = ["GAMES", "STREAMS", "WORLDS", "TaskSwitching"]

WORLDS = {
    "CornerGrid": "remanence.environments.worlds:CornerGridEnv",
    "CornerGridImage": "remanence.environments.worlds:CornerGridImageEnv",
    "ContinuousGrid": "remanence.environments.worlds:ContinuousGridEnv",
    "SlipperyGrid": "remanence.environments.worlds:SlipperyGridEnv",
    "Chain": "remanence.environments.worlds:ChainEnv",
    "ItemRooms": "remanence.environments.worlds:ItemRoomsEnv",
    "TwoRooms": "remanence.environments.worlds:TwoRoomsEnv",
    "MinAtarGames": "remanence.environments.worlds:MinAtarGamesEnv",
    "JellyBeanWorld": "remanence.worlds.jellybean.gym:JellyBeanEnv",
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
    gymnasium.register(f"remanence/{_name}-v0", "remanence.environments.worlds:MinAtarEnv", kwargs={"game": _game})
for _name, _stream in STREAMS.items():
    gymnasium.register(f"remanence/{_name}-v0", f"remanence.environments.streams:{_stream}")
