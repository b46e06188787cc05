"""The map as rows of patches: finding patches, and creating those around the agent."""

from __future__ import annotations

import numpy as np

from remanence.core.native.compiling import compiled
from remanence.worlds.jellybean.memory import CODES, LONGEST, NEVER, PATCHES, ROWS, SLOTS, Memory
from remanence.worlds.jellybean.random import U, draw

BLOCK = (
    6  # patches along the side of the surroundings: the 2 × 2 core, those sampled with it, and those they interact with
)


@compiled
def first_row_from(memory: Memory, lane: int, y: int) -> int:
    """The position of the first row that is not below y."""
    low, high = 0, memory.used[lane, ROWS]
    while low < high:
        middle = (low + high) // 2
        if memory.row_y[lane, middle] < y:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def first_slot_from(memory: Memory, lane: int, row: int, x: int) -> int:
    """The position within a row of its first patch that is not left of x."""
    start = memory.row_start[lane, row]
    low, high = 0, memory.row_count[lane, row]
    while low < high:
        middle = (low + high) // 2
        if memory.patch_x[lane, memory.slots[lane, start + middle]] < x:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def find(memory: Memory, lane: int, x: int, y: int) -> int:
    """The number of the patch at (x, y), −1 if there is none."""
    row = first_row_from(memory, lane, y)
    if row == memory.used[lane, ROWS] or memory.row_y[lane, row] != y:
        return -1
    slot = first_slot_from(memory, lane, row, x)
    if slot == memory.row_count[lane, row]:
        return -1
    patch = memory.slots[lane, memory.row_start[lane, row] + slot]
    return patch if memory.patch_x[lane, patch] == x else -1


@compiled
def surround(memory: Memory, lane: int, core_x: int, core_y: int) -> tuple[np.ndarray, np.ndarray]:
    """Creates what is missing around a 2 × 2 core of patches, whose lower left is given, before it is sampled.

    Returns:
        the numbers of patches around, [6, 6] by x and y, −1 where there is none; the core is in the middle.
        which of them are to be sampled, [6, 6]: those not fixed in the 3 × 3 blocks around the core's patches that are not fixed.
    """
    wanted = np.zeros((BLOCK, BLOCK), np.bool_)
    for i in range(2, 4):
        for j in range(2, 4):
            patch = find(memory, lane, core_x + i - 2, core_y + j - 2)
            if patch < 0 or not memory.patch_fixed[lane, patch]:
                for near in range(9):
                    wanted[i - 1 + near // 3, j - 1 + near % 3] = True

    if memory.used[lane, PATCHES] == 0:  # there must be a patch to copy
        row = _insert_row(memory, lane, core_y - 1)
        _new_slot(memory, lane, row)
        memory.slots[lane, memory.row_start[lane, row]] = _new_patch(memory, lane, core_x - 1, core_y - 1)
    for j in range(BLOCK):
        first, last = ends(wanted[:, j])
        if first <= last:
            _insert_row(memory, lane, core_y + j - 2)
    for j in range(BLOCK):
        first, last = ends(wanted[:, j])
        if first <= last:
            _extend_row(memory, lane, core_y + j - 2, core_x + first - 2, core_x + last - 2)

    around = np.empty((BLOCK, BLOCK), np.int64)
    for i in range(BLOCK):
        for j in range(BLOCK):
            around[i, j] = find(memory, lane, core_x + i - 2, core_y + j - 2)
            wanted[i, j] = wanted[i, j] and not memory.patch_fixed[lane, around[i, j]]
    return around, wanted


@compiled
def ends(flags: np.ndarray) -> tuple[int, int]:
    """The positions of the first and the last true flag; the first is after the last if none is true."""
    first, last = len(flags), -1
    for position in range(len(flags)):
        if flags[position]:
            first, last = min(first, position), position
    return first, last


@compiled
def _insert_row(memory: Memory, lane: int, y: int) -> int:
    """The position of row y, which is empty if there was none."""
    row, rows = first_row_from(memory, lane, y), memory.used[lane, ROWS]
    if row < rows and memory.row_y[lane, row] == y:
        return row
    for array in (memory.row_y, memory.row_start, memory.row_count, memory.row_room):
        for other in range(rows, row, -1):
            array[lane, other] = array[lane, other - 1]
        array[lane, row] = 0
    memory.row_y[lane, row] = y
    memory.used[lane, ROWS] += 1
    return row


@compiled
def _extend_row(memory: Memory, lane: int, y: int, first_x: int, last_x: int) -> None:
    """Creates the missing patches of a row from `first_x` to `last_x`, from right to left, each a copy of some patch.

    The row is stretched in place. Meanwhile `_draw_patch` sees the old length of the row, and slots that have not been
    overwritten yet.
    """
    row = first_row_from(memory, lane, y)
    count = memory.row_count[lane, row]
    low = first_slot_from(memory, lane, row, first_x)
    high = first_slot_from(memory, lane, row, last_x + 1)
    new = last_x - first_x + 1 - (high - low)
    if new == 0:
        return
    for _ in range(new):
        _new_slot(memory, lane, row)
    memory.row_count[lane, row] = count
    slots, start = memory.slots[lane], memory.row_start[lane, row]
    for slot in range(count - 1, high - 1, -1):
        slots[start + slot + new] = slots[start + slot]
    source = high - 1
    for x in range(last_x, first_x - 1, -1):
        slot = start + low + x - first_x
        if source >= low and memory.patch_x[lane, slots[start + source]] == x:
            slots[slot] = slots[start + source]
            source -= 1
        else:
            slots[slot] = _new_patch(memory, lane, x, y)
            _copy_items(memory, lane, _draw_patch(memory, lane), slots[slot])
    memory.row_count[lane, row] = count + new
    memory.used[lane, LONGEST] = max(memory.used[lane, LONGEST], count + new)


@compiled
def _new_slot(memory: Memory, lane: int, row: int) -> None:
    """Makes a row one longer, in a larger range if its own is full."""
    start, count = memory.row_start[lane, row], memory.row_count[lane, row]
    if count == memory.row_room[lane, row]:
        place = memory.used[lane, SLOTS]
        room = 2 * count + 4
        for slot in range(count):
            memory.slots[lane, place + slot] = memory.slots[lane, start + slot]
        memory.row_start[lane, row], memory.row_room[lane, row] = place, room
        memory.used[lane, SLOTS] += room
    memory.row_count[lane, row] += 1


@compiled
def _new_patch(memory: Memory, lane: int, x: int, y: int) -> int:
    """The number of a new patch without items."""
    patch = memory.used[lane, PATCHES]
    memory.used[lane, PATCHES] += 1
    memory.patch_x[lane, patch], memory.patch_y[lane, patch] = x, y
    memory.patch_fixed[lane, patch] = False
    memory.patch_start[lane, patch] = memory.used[lane, CODES]
    memory.patch_count[lane, patch] = memory.patch_room[lane, patch] = 0
    memory.patch_deleted_at[lane, patch], memory.patch_due[lane, patch] = -1, NEVER
    return patch


@compiled
def _draw_patch(memory: Memory, lane: int) -> int:
    """A random patch: first a row, uniformly (instead of an empty row, the next nonempty one), then a patch of the row."""
    rows = memory.used[lane, ROWS]
    row = _draw_below(memory, lane, rows)
    while memory.row_count[lane, row] == 0:
        row = (row + 1) % rows
    return memory.slots[lane, memory.row_start[lane, row] + _draw_below(memory, lane, memory.row_count[lane, row])]


@compiled
def _draw_below(memory: Memory, lane: int, bound: int) -> int:
    memory.rng[lane] = draw(U(memory.rng[lane]))
    return memory.rng[lane] % bound


@compiled
def _copy_items(memory: Memory, lane: int, source: int, patch: int) -> None:
    """Fills a new patch; also with collected items that still affect new terrain."""
    start, count = memory.used[lane, CODES], memory.patch_count[lane, source]
    origin = memory.patch_start[lane, source]
    for index in range(count):
        memory.codes[lane, start + index] = memory.codes[lane, origin + index]
    memory.patch_start[lane, patch] = start
    memory.patch_count[lane, patch] = memory.patch_room[lane, patch] = count
    memory.used[lane, CODES] += count
