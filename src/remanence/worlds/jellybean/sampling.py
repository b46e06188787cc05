"""Metropolis–Hastings sampling of the items in new patches: each proposal adds or removes one item.

A field holds the energy that an item of each kind would have in each cell, so a proposal reads one number, and only accepted
ones update the field.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from remanence.core.native.compiling import compiled
from remanence.worlds.jellybean.energy import FINENESS, HIGHEST, LOWEST, Energy, grid
from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.memory import CODES, Memory
from remanence.worlds.jellybean.patches import BLOCK, surround
from remanence.worlds.jellybean.random import JUMPS, MODULUS, U, jump
from remanence.worlds.jellybean.vector import VECTOR, add_vector

SPARE = 4  # extra codes reserved when a patch is moved
MAX_PATCHES = 16  # patches sampled together
F = np.float32
ZERO, ONE = U(0), U(1)
_, ONCE, TWICE, THRICE, FOUR_TIMES, FIVE_TIMES = JUMPS


class Workspace(NamedTuple):
    """Buffers for sampling the surroundings of one agent."""

    size: int  # of a patch
    bits: int  # of a coordinate in a patch
    reach: int  # of items
    line: int  # cells of the field from one x to the next
    field: np.ndarray  # [kinds · plane]  the energy an item would have
    filled: np.ndarray  # [plane]  whether there is an item
    items: np.ndarray  # [patches · cells]  codes of the items of each sampled patch
    counts: np.ndarray  # [patches]  how many there are
    origins: np.ndarray  # [patches]  position of its lower left cell in the field


def workspace(rules: JellyBean) -> Workspace:
    line, plane = grid(rules)
    return Workspace(
        size=rules.patch_size,
        bits=rules.cell_bits,
        reach=rules.reach,
        line=line,
        field=np.zeros(rules.num_kinds * plane, np.float32),
        filled=np.zeros(plane, np.bool_),
        items=np.zeros(MAX_PATCHES * rules.patch_size**2, np.uint16),
        counts=np.zeros(MAX_PATCHES, np.uint64),
        origins=np.zeros(MAX_PATCHES, np.uint64),
    )


@compiled
def make_terrain(
    memory: Memory, lane: int, cores: np.ndarray, iterations: int, energy: Energy, workspace: Workspace
) -> None:
    """Generates and fixes the core of each lane, and the patches it needs around it. Cores: [lanes, 2] their lower left patch."""
    around, wanted = surround(memory, lane, cores[lane, 0], cores[lane, 1])
    sample(memory, lane, around, wanted, iterations, energy, workspace)
    for i in range(2, 4):
        for j in range(2, 4):
            memory.patch_fixed[lane, around[i, j]] = True


@compiled
def sample(
    memory: Memory,
    lane: int,
    around: np.ndarray,
    wanted: np.ndarray,
    iterations: int,
    energy: Energy,
    workspace: Workspace,
) -> None:
    """Samples the wanted patches, [6, 6], among those around, [6, 6]."""
    patches = np.empty(MAX_PATCHES, np.int64)
    cells, number = workspace.size * workspace.size, 0
    _spread(memory, lane, around, wanted, energy, workspace)
    for j in range(BLOCK):  # row by row
        for i in range(BLOCK):
            if wanted[i, j]:
                patch = patches[number] = around[i, j]
                start, count = memory.patch_start[lane, patch], memory.patch_count[lane, patch]
                for index in range(count):
                    workspace.items[number * cells + index] = memory.codes[lane, start + index]
                workspace.counts[number], workspace.origins[number] = count, _origin(i, j, workspace)
                number += 1
    memory.rng[lane] = _propose(U(memory.rng[lane]), iterations, number, energy, workspace)
    for index in range(number):
        items = workspace.items[index * cells : index * cells + np.int64(workspace.counts[index])]
        _keep(memory, lane, patches[index], items)


@compiled
def _origin(i: int, j: int, workspace: Workspace) -> int:
    """Position of the lower left cell of a patch in the field."""
    return (
        (2 * workspace.reach + (i - 1) * workspace.size) * workspace.line
        + 2 * workspace.reach
        + (j - 1) * workspace.size
    )


@compiled
def _spread(
    memory: Memory, lane: int, around: np.ndarray, wanted: np.ndarray, energy: Energy, workspace: Workspace
) -> None:
    """Fills the field from all items that interact with wanted patches."""
    workspace.field[:] = 0.0
    workspace.filled[:] = False
    size, bits, mask = workspace.size, workspace.bits, (1 << workspace.bits) - 1
    left = low = BLOCK * size
    right = high = 0
    for i in range(BLOCK):
        for j in range(BLOCK):
            if wanted[i, j]:
                left, right = min(left, i * size - workspace.reach), max(right, (i + 1) * size + workspace.reach)
                low, high = min(low, j * size - workspace.reach), max(high, (j + 1) * size + workspace.reach)
    for i in range(BLOCK):
        for j in range(BLOCK):
            patch = around[i, j]
            if patch < 0:
                continue
            start = memory.patch_start[lane, patch]
            for index in range(start, start + memory.patch_count[lane, patch]):
                code = np.int64(memory.codes[lane, index])
                x, y = (code >> bits) & mask, code & mask
                if left <= i * size + x < right and low <= j * size + y < high:
                    cell = _origin(i, j, workspace) + x * workspace.line + y
                    workspace.filled[cell] = True
                    _radiate(code >> (2 * bits), cell, F(1.0), energy, workspace.field)


@compiled
def _radiate(kind: int | np.int64, cell: int | np.int64, sign: F, energy: Energy, field: np.ndarray) -> None:
    """Adds an item's contribution to the field, or subtracts it."""
    for stroke in range(energy.first_stroke[kind], energy.first_stroke[kind + 1]):
        add_vector(field, cell + energy.stroke_place[stroke], sign, energy.strokes, stroke * VECTOR)  # type: ignore[call-arg]


@compiled
def _propose(state: U, iterations: int, number: int, energy: Energy, workspace: Workspace) -> U:
    """One proposal in each patch in turn, repeatedly. Returns the final state of the generator.

    Adding draws a coin, the kind, y, x and u; no u if the cell is filled. Removing draws a coin, the item and u; only the coin
    if the patch is empty.
    """
    size, bits, line, cells = (
        U(workspace.size),
        U(workspace.bits),
        U(workspace.line),
        U(workspace.size * workspace.size),
    )
    kinds, plane, mask = U(len(energy.intensity)), U(len(workspace.filled)), (ONE << U(workspace.bits)) - ONE
    field, filled, items, counts = workspace.field, workspace.filled, workspace.items, workspace.counts
    intensity, offset, accept_below, reject_from = (
        energy.intensity,
        energy.offset,
        energy.accept_below,
        energy.reject_from,
    )
    for _ in range(iterations):
        patch = ZERO
        for origin in workspace.origins[:number]:
            count, begin = counts[patch], patch * cells
            coin = jump(state, ONCE)
            if coin & ONE == ZERO:
                kind, y = _remainder(jump(state, TWICE), kinds), _remainder(jump(state, THRICE), size)
                last = jump(state, FOUR_TIMES)
                x = _remainder(last, size)
                cell = origin + x * line + y
                if filled[cell]:
                    state = last
                else:
                    state = jump(state, FIVE_TIMES)
                    gain = intensity[kind] + field[kind * plane + cell]
                    bin = _bin(gain + offset[count + ONE])
                    if state < reject_from[bin] and (
                        state < accept_below[bin] or _accepts(state, gain, F(1.0), count + ONE, energy)
                    ):
                        items[begin + count] = (kind << (bits + bits)) | (x << bits) | y
                        counts[patch] = count + ONE
                        filled[cell] = True
                        _radiate(np.int64(kind), np.int64(cell), F(1.0), energy, field)
            elif count == ZERO:
                state = coin
            else:
                index = begin + _remainder(jump(state, TWICE), count)
                state = jump(state, THRICE)
                code = U(items[index])
                kind, cell = code >> (bits + bits), origin + ((code >> bits) & mask) * line + (code & mask)
                gain = -intensity[kind] - field[kind * plane + cell]
                bin = _bin(gain - offset[count])
                if state < reject_from[bin] and (
                    state < accept_below[bin] or _accepts(state, gain, F(-1.0), count, energy)
                ):
                    items[index] = items[begin + count - ONE]
                    counts[patch] = count - ONE
                    filled[cell] = False
                    _radiate(np.int64(kind), np.int64(cell), F(-1.0), energy, field)
            patch += ONE
    return state


@compiled
def _remainder(number: U, divisor: U) -> U:
    return U(np.uint32(number) % np.uint32(divisor))  # 32-bit division takes half the time


@compiled
def _bin(gain: F) -> U:
    return U(min(max(gain - F(LOWEST * FINENESS), F(0.0)), F((HIGHEST - LOWEST) * FINENESS - 1)))


@compiled
def _accepts(bits: U, gain: F, sign: F, count: U, energy: Energy) -> bool | np.bool_:
    """Whether ln u < gain ± (ln kinds + 2 ln size − ln count), `count` being the larger number of items in the patch.

    In single precision and in the order of the original's default build: first the constant ln kinds + 2 ln size, rounded once,
    then ln count. Rarely called: the thresholds decide nearly always.
    """
    gain = gain * F(1 / FINENESS) + sign * energy.choices
    gain = gain - sign * energy.logarithm[count]
    return F(math.log(F(bits) / F(MODULUS - 1))) < gain


@compiled
def _keep(memory: Memory, lane: int, patch: int, items: np.ndarray) -> None:
    """Writes the items of a patch back, to a new range if there are too many."""
    if len(items) > memory.patch_room[lane, patch]:
        memory.patch_start[lane, patch] = memory.used[lane, CODES]
        memory.patch_room[lane, patch] = len(items) + SPARE
        memory.used[lane, CODES] += len(items) + SPARE
    start = memory.patch_start[lane, patch]
    for index in range(len(items)):
        memory.codes[lane, start + index] = items[index]
    memory.patch_count[lane, patch] = len(items)
