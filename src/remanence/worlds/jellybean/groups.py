"""How many items of one kind lie together in Jelly Bean World."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy

from remanence.worlds import jellybean
from remanence.worlds.jellybean.items import JellyBean

RIGHT = 2
STEPS, RADIUS = 256, 12  # length and half the height of the strip that is looked at
WORLDS = tuple(range(2, 12))  # seeds: 0 and 1 are the same world


@cache
def share_in_groups(rules: JellyBean, kinds: tuple[str, ...] = ("blue", "red")) -> np.ndarray:
    """[worlds] the share of items in groups of three or four: items of one kind that touch, at edges or corners.

    An agent walks straight on, so that terrain is made; items it collected are counted. Groups cut by the edge are left out.
    """
    worlds = jellybean.JellyBeanWorlds(rules, WORLDS)
    for _ in range(STEPS):
        worlds.step(np.full(len(WORLDS), RIGHT))
    codes = [1 + kind for kind, item in enumerate(rules.items) if item.name in kinds]
    shares = []
    for lane, (x, y) in enumerate(worlds.places.tolist()):
        strip, _ = worlds.terrain(lane, x - STEPS, y - RADIUS, STEPS, 2 * RADIUS, collected=True)
        sizes = np.concatenate([whole_groups(strip == code) for code in codes])
        shares.append(sizes[np.isin(sizes, (3, 4))].sum() / sizes.sum())
    return np.array(shares)


def whole_groups(cells: np.ndarray) -> np.ndarray:
    """The sizes of the connected groups of a map, [width, height], that do not touch its edge."""
    labels = np.zeros(cells.shape, np.int32)
    scipy.ndimage.label(cells, np.ones((3, 3)), output=labels)
    edge = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    sizes = np.bincount(labels.ravel())
    return sizes[np.setdiff1d(np.arange(1, len(sizes)), edge)]
