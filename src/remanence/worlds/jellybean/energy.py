"""The interactions of items, as lookup tables.

A set of items has log-probability Σ intensity + Σ interaction over ordered pairs, up to a constant. What one item adds to the
field of the others is a list of *strokes*: eight adjacent numbers each, the width of a SIMD addition.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.vector import VECTOR

LOWEST, HIGHEST, FINENESS = -22, 2, 32  # gains outside need no random number: the smallest possible ln u is −21.5


class Grid(NamedTuple):
    """Memory layout of the field: a plane for each kind, 4 × 4 patches plus a margin of twice the reach, by x and y."""

    line: int  # from one x to the next
    plane: int  # from one kind to the next


class Energy(NamedTuple):
    """The rules of a world as tables."""

    intensity: np.ndarray  # [kinds]
    first_stroke: np.ndarray  # [kinds + 1]  index of the first stroke of each kind
    stroke_place: np.ndarray  # [strokes]  position relative to the item's cell in the first plane
    strokes: np.ndarray  # [strokes · 8]
    offset: np.ndarray  # [cells + 2]  ln kinds + 2 ln size − ln count, approximately
    logarithm: np.ndarray  # [counts]
    choices: np.float32  # ln kinds + 2 ln size: one in this many kinds and cells is proposed
    accept_below: np.ndarray  # [bins of the gain]  a random number below it accepts
    reject_from: (
        np.ndarray
    )  # [bins of the gain]  a random number from it on rejects; between the two, the exact gain decides


def grid(rules: JellyBean) -> Grid:
    line = 4 * (rules.patch_size + rules.reach)
    return Grid(line, line * line + VECTOR)


def energy(rules: JellyBean) -> Energy:
    first, places, strokes = _strokes(rules)
    counts = np.arange(rules.patch_size**2 + 2)
    logarithm = np.log(np.maximum(counts, 1))
    kinds, cells = np.float32(np.log(rules.num_kinds)), np.float32(2 * np.log(rules.patch_size))
    accept_below, reject_from = _thresholds()
    return Energy(
        intensity=np.array([item.intensity for item in rules.items], np.float32) * FINENESS,
        first_stroke=first,
        stroke_place=places,
        strokes=strokes,
        offset=(FINENESS * (np.log(rules.num_kinds) + 2 * np.log(rules.patch_size) - logarithm)).astype(np.float32),
        logarithm=logarithm.astype(np.float32),
        choices=kinds + cells,
        accept_below=accept_below,
        reject_from=reject_from,
    )


def felt(rules: JellyBean, one: int, other: int) -> np.ndarray:
    """[2 reach + 1, 2 reach + 1] what an item adds to the energy of another one nearby, by x and y: both orders of the pair."""
    across = np.arange(-rules.reach, rules.reach + 1)
    squared = across[:, None] ** 2 + across**2
    pair = rules.items[one].interactions[other], rules.items[other].interactions[one]
    values = sum((box.at(squared) for box in pair if box), np.zeros(squared.shape))
    values[rules.reach, rules.reach] = 0.0  # no self-interaction
    return values.astype(np.float32)


def _strokes(rules: JellyBean) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    line, plane = grid(rules)
    kinds = range(rules.num_kinds)
    first, places, strokes = [0], [], []
    for one, other in itertools.product(kinds, kinds):
        for x, row in enumerate(felt(rules, one, other)):
            there = np.flatnonzero(row)
            for y in range(there[0], there[-1] + 1, VECTOR) if len(there) else ():
                places.append(other * plane + (x - rules.reach) * line + y - rules.reach)
                strokes.append(np.pad(row[y : y + VECTOR], (0, VECTOR - len(row[y : y + VECTOR]))))
        if other == kinds[-1]:
            first.append(len(places))
    return np.array(first), np.array(places, np.int64), np.array(strokes, np.float32).reshape(-1) * FINENESS


def _thresholds() -> tuple[np.ndarray, np.ndarray]:
    """For each bin of the gain: below the first number ln u < gain always holds, from the second on it never does."""
    bins = np.arange((HIGHEST - LOWEST) * FINENESS)
    below, above = bins - 1, bins + 2  # one more bin on either side, because the gain is rounded before it is binned
    accept_below, reject_from = (np.minimum(np.exp(edge / FINENESS + LOWEST), 1.0) * 2.0**31 for edge in (below, above))
    return np.floor(accept_below).astype(np.uint32), np.ceil(reject_from).astype(np.uint32)
