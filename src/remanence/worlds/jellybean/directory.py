"""Where the maps of this process are in memory, for the handler that makes steps without Python (`direct.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remanence.worlds.jellybean.items import JellyBean

if TYPE_CHECKING:
    from remanence.worlds.jellybean.memory import Memory
    from remanence.worlds.jellybean.walking import CoreView

LEFT = 255  # in place of a collected item: the step is still to be made
MAPS = 2**20  # numbers from here on are left to Python
# The address of a record for each map, 0 for none. The last entry is the address of the handler in Python.
DIRECTORY = np.zeros(MAPS + 1, np.int64)
# A record: sizes, then the addresses of the arrays of Memory and of CoreView, in their order.
SIZE, LIFETIME, KINDS, ROWS, SLOTS, PATCHES, CODES, DELETED, ARRAYS = range(9)
_records: dict[int, tuple[Memory, CoreView, np.ndarray]] = {}  # keeps what the addresses point to


def publish(number: int, rules: JellyBean, memory: Memory, sight: CoreView) -> None:
    """Enters a map with one lane. To be called again when its arrays were replaced."""
    if number >= MAPS or (number in _records and _records[number][0] is memory):
        return
    pools = memory.row_y, memory.slots, memory.patch_x, memory.codes, memory.deleted_at
    sizes = rules.patch_size, rules.deleted_item_lifetime, rules.num_kinds, *(pool.shape[1] for pool in pools)
    record = np.array([*sizes, *(array.ctypes.data for array in (*memory, *sight))], np.int64)
    _records[number] = memory, sight, record
    DIRECTORY[number] = record.ctypes.data


def withdraw(number: int) -> None:
    """Removes a map."""
    if number < MAPS:
        DIRECTORY[number] = 0
        _records.pop(number, None)
