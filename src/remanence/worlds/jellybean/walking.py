"""Steps of agents on existing terrain: moving, collecting, observing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from remanence.core.native.compiling import compiled
from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.memory import DELETED, NEVER, Memory
from remanence.worlds.jellybean.patches import find

UP, LEFT, RIGHT, DOWN = range(4)
MOVES_X, MOVES_Y = np.array([0, -1, 1, 0]), np.array([1, 0, 0, -1])  # y upwards
DONE, NO_TERRAIN, NO_ROOM, TOO_FAR = range(4)  # why a lane stopped
FARTHEST = 2**31  # in cells and in steps: positions of patches and deletion times have 32 bits


class CoreView(NamedTuple):
    """The core of each lane as a dense array: 2 × 2 patches around the agent. Computed from the memory."""

    core: np.ndarray  # [lanes, 2]  x and y of its lower left patch
    patches: np.ndarray  # [lanes, 2, 2]  their numbers, by x and y
    cells: np.ndarray  # [lanes, 2 size, 2 size]  by x and y: 0 for nothing, else 1 + the kind of the item
    ahead: np.ndarray  # [lanes, 2]  the core a lane waits for because its terrain does not exist yet
    status: np.ndarray  # [lanes]  why the lane stopped
    taken: np.ndarray  # [lanes]  steps taken in this call


def blank_sight(rules: JellyBean, lanes: int) -> CoreView:
    side = 2 * rules.patch_size
    return CoreView(
        core=np.full((lanes, 2), FARTHEST, np.int64),  # invalid: filled before the first step
        patches=np.zeros((lanes, 2, 2), np.int64),
        cells=np.zeros((lanes, side, side), np.uint8),
        ahead=np.full((lanes, 2), core_of(0, rules.patch_size), np.int64),
        status=np.zeros(lanes, np.int64),
        taken=np.zeros(lanes, np.int64),
    )


@compiled
def look(memory: Memory, sight: CoreView, size: int, views: np.ndarray) -> bool:
    """Writes the view of each lane, [lanes, view, view]. False if the map does not exist there."""
    for lane in range(len(memory.time)):
        x, y = memory.place[lane, 0], memory.place[lane, 1]
        core_x, core_y = core_of(x, size), core_of(y, size)
        if not _enter(memory, sight, lane, core_x, core_y, size):
            return False
        _see(sight, lane, x - core_x * size, y - core_y * size, views[lane])
    return True


@compiled
def walk(
    memory: Memory,
    sight: CoreView,
    actions: np.ndarray,
    size: int,
    lifetime: int,
    views: np.ndarray,
    collected_now: np.ndarray,
) -> bool:
    """Runs the steps of each lane until it is done or something is missing. Returns whether all are done.

    Args:
        actions: [steps, lanes].
        views: [steps or 1, lanes, view, view], written; with room for one view, only the last one is kept.
        finds: [steps, lanes], written: 0 for nothing, else 1 + the kind of the item collected in that step.
    """
    steps, lanes = actions.shape
    half, everywhere = size // 2, True
    keep = len(views) > 1
    for lane in range(lanes):
        sight.status[lane] = DONE
        for step in range(sight.taken[lane], steps):
            action = actions[step, lane]
            x, y = memory.place[lane, 0] + MOVES_X[action], memory.place[lane, 1] + MOVES_Y[action]
            near_x, near_y = x - sight.core[lane, 0] * size, y - sight.core[lane, 1] * size
            if not (half <= near_x < 3 * half and half <= near_y < 3 * half):
                if max(abs(x), abs(y)) > FARTHEST - 4 * size:
                    sight.status[lane] = TOO_FAR
                    break
                core_x, core_y = core_of(x, size), core_of(y, size)
                if not _enter(memory, sight, lane, core_x, core_y, size):
                    sight.status[lane] = NO_TERRAIN
                    sight.ahead[lane, 0], sight.ahead[lane, 1] = core_x, core_y
                    break
                near_x, near_y = x - core_x * size, y - core_y * size
            if memory.time[lane] >= FARTHEST - 1:
                sight.status[lane] = TOO_FAR
                break
            if memory.used[lane, DELETED] + size * size > memory.deleted_at.shape[1]:
                sight.status[lane] = NO_ROOM
                break
            memory.place[lane, 0], memory.place[lane, 1] = x, y
            memory.time[lane] += 1
            code = sight.cells[lane, near_x, near_y]
            collected_now[step, lane] = code
            if code:
                memory.collected[lane, code - 1] += 1
                sight.cells[lane, near_x, near_y] = 0
                _take(memory, sight, lane, near_x, near_y, code, size, lifetime)
            for i in range(2):
                for j in range(2):
                    if memory.patch_due[lane, sight.patches[lane, i, j]] <= memory.time[lane]:
                        _purge(memory, lane, sight.patches[lane, i, j], lifetime)
            _see(sight, lane, near_x, near_y, views[step if keep else 0, lane])
            sight.taken[lane] = step + 1
        everywhere &= sight.status[lane] == DONE
    return everywhere


@compiled
def core_of(coordinate: int, size: int) -> int:
    """The first of the two patches along an axis that contain all cells within half a patch."""
    return (coordinate + size // 2) // size - 1


@compiled
def _enter(memory: Memory, sight: CoreView, lane: int, core_x: int, core_y: int, size: int) -> bool:
    """Fills the cells of another core; False, without changes, if its terrain does not exist yet."""
    numbers = np.empty((2, 2), np.int64)
    for i in range(2):
        for j in range(2):
            numbers[i, j] = find(memory, lane, core_x + i, core_y + j)
            if numbers[i, j] < 0 or not memory.patch_fixed[lane, numbers[i, j]]:
                return False
    bits = _bits(size)
    mask = (1 << bits) - 1
    cells = sight.cells[lane]
    cells[:] = 0
    for i in range(2):
        for j in range(2):
            patch = numbers[i, j]
            sight.patches[lane, i, j] = patch
            start, deleted_at = memory.patch_start[lane, patch], memory.patch_deleted_at[lane, patch]
            for index in range(memory.patch_count[lane, patch]):
                if deleted_at < 0 or memory.deleted_at[lane, deleted_at + index] == 0:
                    code = np.int64(memory.codes[lane, start + index])
                    cells[i * size + ((code >> bits) & mask), j * size + (code & mask)] = 1 + (code >> (2 * bits))
    sight.core[lane, 0], sight.core[lane, 1] = core_x, core_y
    return True


@compiled
def _bits(size: int) -> int:
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


@compiled
def _see(sight: CoreView, lane: int, near_x: int, near_y: int, view: np.ndarray) -> None:
    range_ = len(view) // 2
    for i in range(len(view)):
        for j in range(len(view)):
            view[i, j] = sight.cells[lane, near_x - range_ + i, near_y - range_ + j]


@compiled
def _take(
    memory: Memory, sight: CoreView, lane: int, near_x: int, near_y: int, code: int, size: int, lifetime: int
) -> None:
    """Records when an item was collected."""
    bits = _bits(size)
    patch = sight.patches[lane, near_x // size, near_y // size]
    sought = ((code - 1) << (2 * bits)) | ((near_x % size) << bits) | (near_y % size)
    start, count = memory.patch_start[lane, patch], memory.patch_count[lane, patch]
    if memory.patch_deleted_at[lane, patch] < 0:
        deleted_at = memory.used[lane, DELETED]
        for index in range(count):
            memory.deleted_at[lane, deleted_at + index] = 0
        memory.patch_deleted_at[lane, patch] = deleted_at
        memory.used[lane, DELETED] += count
    for index in range(count):
        if memory.codes[lane, start + index] == sought:
            memory.deleted_at[lane, memory.patch_deleted_at[lane, patch] + index] = memory.time[lane]
    memory.patch_due[lane, patch] = min(memory.patch_due[lane, patch], memory.time[lane] + lifetime)


@compiled
def _purge(memory: Memory, lane: int, patch: int, lifetime: int) -> None:
    """Removes expired items; the last of the list replaces a removed one."""
    start, deleted_at = memory.patch_start[lane, patch], memory.patch_deleted_at[lane, patch]
    due, index = NEVER, 0
    while index < memory.patch_count[lane, patch]:
        deleted = memory.deleted_at[lane, deleted_at + index]
        if deleted == 0:
            index += 1
        elif deleted + lifetime > memory.time[lane]:
            due = min(due, deleted + lifetime)
            index += 1
        else:
            last = memory.patch_count[lane, patch] - 1
            memory.codes[lane, start + index] = memory.codes[lane, start + last]
            memory.deleted_at[lane, deleted_at + index] = memory.deleted_at[lane, deleted_at + last]
            memory.patch_count[lane, patch] = last
    memory.patch_due[lane, patch] = due
