"""The games of MinAtar, compiled (paper, §6.1)."""

from remanence.worlds.minatar.game import NUM_ACTIONS, Game
from remanence.worlds.minatar.picture import minatar_picture
from remanence.worlds.minatar.world import GAMES, MinAtar, MinAtarDraws, MinAtarGames, MinAtarState, make_game

__all__ = [
    "GAMES",
    "NUM_ACTIONS",
    "Game",
    "MinAtar",
    "MinAtarDraws",
    "MinAtarGames",
    "MinAtarState",
    "make_game",
    "minatar_picture",
]
