"""Renders chains as images and text."""

from __future__ import annotations

import numpy as np

from remanence.worlds.chain import Chain
from remanence.worlds.drawing import BLACK, RED, pixel_centres, reward_colour, reward_sign, text_lines


def chain_scene(chain: Chain, place: int, rewards: np.ndarray, side: int = 240) -> np.ndarray:
    """[side, side, 3] the states on a circle; the brightness of a rim is the probability that the state is next."""
    x, y = pixel_centres(side)
    picture = np.full((side, side, 3), BLACK, np.uint8)
    states = chain.num_states
    radius = min(0.09, 0.9 / states)
    for state, reward in enumerate(rewards):
        angle = 2 * np.pi * state / states
        distance = np.hypot(x - 0.5 - 0.38 * np.sin(angle), y - 0.5 - 0.38 * np.cos(angle))
        rim = 40 + int(215 * chain.transitions[place][state])
        picture[distance <= radius] = (rim, rim, rim)
        picture[distance <= 0.75 * radius] = reward_colour(reward)
        if state == place:
            picture[distance <= 0.4 * radius] = RED
    return picture


def chain_text(chain: Chain, place: int, rewards: np.ndarray) -> str:
    signs = np.array([reward_sign(reward) for reward in rewards])
    return text_lines(np.stack([signs, np.where(np.arange(chain.num_states) == place, "^", " ")]))
