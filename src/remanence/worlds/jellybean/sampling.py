"""Metropolis–Hastings sampling of the items in new patches: items are born and die, one proposal at a time.

A set of items has log-probability Σ intensity + Σ interaction over ordered pairs, up to a constant. What an item of each kind would feel in
each cell is kept in a field, so that a proposal reads one number and only an accepted one costs work.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.memory import CODES, Memory
from remanence.worlds.jellybean.patches import BLOCK
from remanence.worlds.jellybean.random import JUMPS, MODULUS, jump

SPARE = 4  # codes of room for growth when a patch is moved
LOWEST, FINENESS = -22.0, 64  # the logarithm of the smallest random number is −21.5
VECTOR = 8  # numbers that a processor adds at once
_, ONCE, TWICE, THRICE, FOUR_TIMES, FIVE_TIMES = JUMPS
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


class Tables(NamedTuple):
    """The rules as numbers to look up."""

    patch_size: int
    cell_bits: int
    reach: int
    intensity: np.ndarray  # [kinds]
    influence: np.ndarray  # [kinds, kinds, 2 reach + 1, width]  what an item does to the field of each kind around it, by x and y
    extent: np.ndarray  # [kinds, kinds]  how far it does so; −1 if it does nothing
    width: np.ndarray  # [kinds, kinds]  of a line of influence, a multiple of VECTOR
    logarithms: np.ndarray  # [cells + 2]
    surely: np.ndarray  # [bins]  a random number below it accepts whatever the exact gain in this bin
    hardly: np.ndarray  # [bins]  a random number from it on rejects


class Scratch(NamedTuple):
    """Where one set of surroundings is sampled."""

    field: np.ndarray  # [kinds · plane]
    filled: np.ndarray  # [plane]  whether there is an item
    items: np.ndarray  # [16, cells]  codes of the items of each sampled patch
    line: int  # cells from one x to the next


def tables(rules: JellyBean) -> Tables:
    kinds, reach = rules.num_kinds, rules.reach
    across = np.arange(-reach, reach + 1)
    squared = across[:, None] ** 2 + across**2  # [2 reach + 1, 2 reach + 1]
    influence = np.zeros((kinds, kinds, 2 * reach + 1, _whole_vectors(2 * reach + 1)), np.float32)
    extent, width = np.full((kinds, kinds), -1), np.zeros((kinds, kinds), np.int64)
    for one, item in enumerate(rules.items):
        for other, partner in enumerate(rules.items):
            boxes = [box for box in (item.interactions[other], partner.interactions[one]) if box]
            far = max((box.reach for box in boxes), default=0)
            if far:
                near = slice(reach - far, reach + far + 1)
                felt = sum(box.at(squared[near, near]) for box in boxes)
                felt[far, far] = 0.0  # an item does not feel itself
                influence[one, other, : 2 * far + 1, : 2 * far + 1] = felt
                extent[one, other], width[one, other] = far, _whole_vectors(2 * far + 1)
    counts = np.arange(rules.patch_size**2 + 2)
    # A bin wider on both sides, because the gain that chooses the bin is rounded.
    bins = LOWEST + (np.arange((2 - LOWEST) * FINENESS) + np.array([[-1], [2]])) / FINENESS
    surely, hardly = np.clip(np.exp(bins) * 2.0**31, 0, 2.0**31).astype(np.int64)
    hardly[bins[1] >= 0] = 2**31
    return Tables(
        rules.patch_size,
        rules.cell_bits,
        reach,
        np.array([item.intensity for item in rules.items], np.float32),
        influence,
        extent,
        width,
        np.log(np.maximum(counts, 1)).astype(np.float32),
        surely,
        hardly,
    )


def scratch(rules: JellyBean) -> Scratch:
    line = 4 * rules.patch_size + 4 * rules.reach
    plane = line * line + VECTOR
    cells = rules.patch_size**2
    field = np.zeros(rules.num_kinds * plane, np.float32)
    return Scratch(field, np.zeros(plane, np.bool_), np.zeros((16, cells), np.uint16), line)


def _whole_vectors(length: int) -> int:
    return math.ceil(length / VECTOR) * VECTOR


@compiled
def sample(
    memory: Memory,
    lane: int,
    around: np.ndarray,
    wanted: np.ndarray,
    iterations: int,
    tables: Tables,
    scratch: Scratch,
) -> None:
    """Samples the wanted patches, [6, 6], among those around, [6, 6], and fixes the four in the middle."""
    patches = np.empty(16, np.int64)
    origins = np.empty(16, np.int64)
    counts = np.empty(16, np.int64)
    number = 0
    for j in range(BLOCK):
        for i in range(BLOCK):
            if wanted[i, j]:
                patches[number] = around[i, j]
                origins[number] = _origin(i, j, tables, scratch)
                number += 1
    _spread(memory, lane, around, wanted, tables, scratch)
    for index in range(number):
        start, counts[index] = memory.patch_start[lane, patches[index]], memory.patch_count[lane, patches[index]]
        scratch.items[index, : counts[index]] = memory.codes[lane, start : start + counts[index]]
    state = memory.rng[lane]
    memory.rng[lane] = _propose(state, iterations, origins[:number], counts[:number], tables, scratch)
    for index in range(number):
        _keep(memory, lane, patches[index], scratch.items[index, : counts[index]])
    memory.patch_fixed[lane, around[2, 2]] = memory.patch_fixed[lane, around[2, 3]] = True
    memory.patch_fixed[lane, around[3, 2]] = memory.patch_fixed[lane, around[3, 3]] = True


@compiled
def _origin(i: int, j: int, tables: Tables, scratch: Scratch) -> int:
    """The place of the lower left cell of a patch; what lies outside the sampled 4 × 4 has twice the reach around it."""
    x = 2 * tables.reach + (i - 1) * tables.patch_size
    y = 2 * tables.reach + (j - 1) * tables.patch_size
    return x * scratch.line + y


@compiled
def _spread(
    memory: Memory, lane: int, around: np.ndarray, wanted: np.ndarray, tables: Tables, scratch: Scratch
) -> None:
    """The field, and which cells are filled, from all items that wanted patches can feel."""
    scratch.field[:] = 0.0
    scratch.filled[:] = False
    size, bits, reach = tables.patch_size, tables.cell_bits, tables.reach
    columns, rows = np.flatnonzero(wanted.sum(axis=1)), np.flatnonzero(wanted.sum(axis=0))
    left, right = columns[0] * size - reach, (columns[-1] + 1) * size + reach
    low, high = rows[0] * size - reach, (rows[-1] + 1) * size + reach
    mask = (1 << bits) - 1
    for i in range(BLOCK):
        for j in range(BLOCK):
            if around[i, j] < 0:
                continue
            start, count = memory.patch_start[lane, around[i, j]], memory.patch_count[lane, around[i, j]]
            for index in range(start, start + count):
                code = np.int64(memory.codes[lane, index])
                x, y = (code >> bits) & mask, code & mask
                if left <= i * size + x < right and low <= j * size + y < high:
                    cell = _origin(i, j, tables, scratch) + x * scratch.line + y
                    scratch.filled[cell] = True
                    _radiate(code >> (2 * bits), cell, np.float32(1.0), tables, scratch)


@compiled
def _radiate(kind: int, cell: int, sign: float, tables: Tables, scratch: Scratch) -> None:
    """Adds what an item does to the field, or takes it away."""
    plane = len(scratch.filled)
    field = scratch.field
    for other in range(len(tables.intensity)):
        extent = tables.extent[kind, other]
        if extent > 0:
            width = tables.width[kind, other]
            corner = other * plane + cell - extent * scratch.line - extent
            for x in range(2 * extent + 1):
                line = corner + x * scratch.line
                influence = tables.influence[kind, other, x]
                target = field[line : line + width]
                for y in range(width):
                    target[y] += sign * influence[y]


@compiled
def _propose(
    state: int, iterations: int, origins: np.ndarray, counts: np.ndarray, tables: Tables, scratch: Scratch
) -> int:
    """Births and deaths in each patch in turn. Returns the state of the generator afterwards."""
    kinds, size, bits = len(tables.intensity), tables.patch_size, tables.cell_bits
    mask, line, plane = (1 << bits) - 1, scratch.line, len(scratch.filled)
    field, filled, intensity = scratch.field, scratch.filled, tables.intensity
    one, minus = np.float32(1.0), np.float32(-1.0)
    for _ in range(iterations):
        for patch in range(len(origins)):
            items, count = scratch.items[patch], counts[patch]
            if jump(state, ONCE) % 2 == 0:
                kind = jump(state, TWICE) % kinds
                y = jump(state, THRICE) % size
                x = jump(state, FOUR_TIMES) % size
                cell = origins[patch] + x * line + y
                if filled[cell]:
                    state = jump(state, FOUR_TIMES)
                    continue
                state = jump(state, FIVE_TIMES)
                if _accepts(state, intensity[kind] + field[kind * plane + cell], count + 1, one, tables):
                    items[count] = (kind << (2 * bits)) | (x << bits) | y
                    counts[patch] += 1
                    filled[cell] = True
                    _radiate(kind, cell, one, tables, scratch)
            elif count == 0:
                state = jump(state, ONCE)
            else:
                index = jump(state, TWICE) % count
                state = jump(state, THRICE)
                code = np.int64(items[index])
                kind = code >> (2 * bits)
                cell = origins[patch] + ((code >> bits) & mask) * line + (code & mask)
                if _accepts(state, intensity[kind] + field[kind * plane + cell], count, minus, tables):
                    items[index] = items[count - 1]
                    counts[patch] -= 1
                    filled[cell] = False
                    _radiate(kind, cell, minus, tables, scratch)
    return state


@compiled
def _accepts(luck: int, energy: float, count: int, sign: float, tables: Tables) -> bool:
    """Whether a random number accepts the birth (sign 1) or death (sign −1) of an item, `count` being the larger number of items.

        ln u < ± (energy − ln count + ln kinds + 2 ln size)

    The logarithm is taken only where thresholds on both sides do not decide.
    """
    logarithms = tables.logarithms
    gain = sign * energy - sign * logarithms[count]
    gain = gain + sign * logarithms[len(tables.intensity)]
    gain = gain + sign * (np.float32(2.0) * logarithms[tables.patch_size])
    place = min(max(gain - np.float32(LOWEST), np.float32(0.0)), np.float32(2 - LOWEST) - np.float32(1 / FINENESS))
    number = np.int64(place * np.float32(FINENESS))
    if luck < tables.surely[number]:
        return True
    if luck >= tables.hardly[number]:
        return False
    uniform = np.float32(luck) / np.float32(MODULUS - 1)
    return np.float32(math.log(uniform)) < gain


@compiled
def _keep(memory: Memory, lane: int, patch: int, items: np.ndarray) -> None:
    """Writes the items of a patch back, to a new place if they have become too many."""
    if len(items) > memory.patch_room[lane, patch]:
        memory.patch_start[lane, patch] = memory.used[lane, CODES]
        memory.patch_room[lane, patch] = len(items) + SPARE
        memory.used[lane, CODES] += len(items) + SPARE
    start = memory.patch_start[lane, patch]
    memory.codes[lane, start : start + len(items)] = items
    memory.patch_count[lane, patch] = len(items)
