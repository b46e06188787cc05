"""Images of MinAtar's games."""

from __future__ import annotations

from typing import Any

import numpy as np

from remanence.core.errors import UserError
from remanence.worlds.minatar.game import SIZE
from remanence.worlds.minatar.world import make_game

BACKGROUND = (16, 18, 28)
GREEN, BLUE, WHITE = (80, 220, 120), (90, 150, 255), (240, 240, 240)
GOLD, RED, VIOLET = (255, 200, 60), (235, 80, 80), (170, 110, 240)
DIM, SHADE = (70, 75, 95), (45, 110, 75)
# By channel; later channels of a game cover earlier ones, but trails cover nothing.
PAINTS = {
    "asterix": {"player": GREEN, "enemy": RED, "trail": DIM, "gold": GOLD},
    "breakout": {"paddle": GREEN, "ball": WHITE, "trail": DIM, "brick": RED},
    "freeway": {"chicken": GREEN, "car": WHITE}
    | {f"speed {speed}": (250 - 45 * (speed - 1), 60, 40 + 40 * (speed - 1)) for speed in range(1, 6)},
    "seaquest": {
        "front": GREEN,
        "back": SHADE,
        "shot": WHITE,
        "trail": DIM,
        "bullet": GOLD,
        "fish": RED,
        "submarine": VIOLET,
        "oxygen": BLUE,
        "divers aboard": GOLD,
        "diver": BLUE,
    },
    "space_invaders": {
        "cannon": GREEN,
        "alien": RED,
        "alien to the left": RED,
        "alien to the right": VIOLET,
        "shot": WHITE,
        "bomb": GOLD,
    },
}


def minatar_picture(game: str, obs: Any, pixels: int = 16) -> np.ndarray:
    """[10 · pixels, 10 · pixels, 3] an observation of one lane, RGB, uint8; `obs` may have more channels than the game."""
    names, seen = make_game(game).channels, np.asarray(obs)
    if seen.ndim != 3 or seen.shape[:2] != (SIZE, SIZE) or seen.shape[2] < len(names):
        raise UserError(
            f"{game} is drawn from one observation of shape (10, 10, {len(names)}) or more; got {seen.shape}"
        )
    picture = np.full((SIZE, SIZE, 3), BACKGROUND, np.uint8)
    trails = [name for name in names if name == "trail" or name.startswith("speed")]
    for name in (*trails, *(name for name in names if name not in trails)):
        picture[seen[..., names.index(name)].astype(bool)] = PAINTS[game][name]
    return picture.repeat(pixels, axis=0).repeat(pixels, axis=1)
