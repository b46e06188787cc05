"""The state of Jelly Bean Worlds as flat, growing arrays, and how it is packed for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from remanence.core.errors import UserError
from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.random import MODULUS

NEVER = np.iinfo(np.int64).max
ROWS, SLOTS, PATCHES, CODES, DELETED, LONGEST = range(6)  # columns of `used`


class Memory(NamedTuple):
    """The state of all lanes. Patches are sparse: each has a list of items, in one pool of codes per lane.

    The code of an item is kind · 4ᵇ + x · 2ᵇ + y, x and y within its patch, b bits each. The patches of a row of the map (equal y)
    have consecutive slots in the order of x; rows are in the order of y.
    """

    rng: np.ndarray  # [lanes]  the state of the random number generator
    place: np.ndarray  # [lanes, 2]  the agent's position, x and y
    time: np.ndarray  # [lanes]  steps taken
    collected: np.ndarray  # [lanes, kinds]  since the beginning
    used: np.ndarray  # [lanes, 6]  used length of each pool, and the number of patches in the longest row

    row_y: np.ndarray  # [lanes, rows]
    row_start: np.ndarray  # [lanes, rows]  its first slot
    row_count: np.ndarray  # [lanes, rows]  patches in it
    row_room: np.ndarray  # [lanes, rows]  slots reserved for it

    slots: np.ndarray  # [lanes, slots]  the number of a patch

    patch_x: np.ndarray  # [lanes, patches]
    patch_y: np.ndarray  # [lanes, patches]
    patch_fixed: np.ndarray  # [lanes, patches]  whether it is never sampled again
    patch_start: np.ndarray  # [lanes, patches]  its first code
    patch_count: np.ndarray  # [lanes, patches]  items in it, including collected ones that still affect new terrain
    patch_room: np.ndarray  # [lanes, patches]  codes reserved for it
    patch_deleted_at: (
        np.ndarray
    )  # [lanes, patches]  index of its first deletion time; −1 if nothing was ever collected here
    patch_due: np.ndarray  # [lanes, patches]  when the next collected item ceases to affect new terrain

    codes: np.ndarray  # [lanes, codes]  items
    deleted_at: np.ndarray  # [lanes, times]  when the items of some patches were collected; 0 for those still there


POOLS = {
    **dict.fromkeys(("row_y", "row_start", "row_count", "row_room"), ROWS),
    "slots": SLOTS,
    **dict.fromkeys(("patch_x", "patch_y", "patch_fixed", "patch_start"), PATCHES),
    **dict.fromkeys(("patch_count", "patch_room", "patch_deleted_at", "patch_due"), PATCHES),
    "codes": CODES,
    "deleted_at": DELETED,
}  # growing arrays, and the column of `used` with their length
TYPES = {"patch_fixed": np.bool_, "patch_due": np.int64, "codes": np.uint16}


def empty_memory(rules: JellyBean, lanes: int) -> Memory:
    """Lanes without a map, with empty pools."""
    return Memory(
        rng=np.zeros(lanes, np.int64),
        place=np.zeros((lanes, 2), np.int64),
        time=np.zeros(lanes, np.int64),
        collected=np.zeros((lanes, rules.num_kinds), np.int64),
        used=np.zeros((lanes, LONGEST + 1), np.int64),
        **{name: np.zeros((lanes, 0), TYPES.get(name, np.int32)) for name in POOLS},
    )


def with_room(memory: Memory, rules: JellyBean, lanes: np.ndarray) -> Memory:
    """The same memory if these lanes, a mask, have room for any next step, else a larger copy."""
    cells = rules.patch_size**2
    rows, slots, patches, codes, deleted_at, max_row = memory.used[lanes].max(axis=0).tolist()
    needed = (
        rows + 4,
        slots + 4 * (2 * max_row + 16),  # each of four rows may be moved to a larger range
        patches + 16,
        codes + 2 * 16 * cells,  # when patches are copied, and again when they have been sampled
        deleted_at + cells,
    )
    first = memory.row_y, memory.slots, memory.patch_x, memory.codes, memory.deleted_at
    if all(count <= pool.shape[1] for count, pool in zip(needed, first, strict=True)):
        return memory
    if needed[CODES] > memory.codes.shape[1]:
        memory = _compacted(memory, reserve=2 * 16 * cells)
    larger = {}
    for name, column in POOLS.items():
        old = getattr(memory, name)
        if column != CODES and needed[column] > old.shape[1]:
            most = memory.used[:, column].max()
            larger[name] = np.zeros((len(old), 2 * needed[column]), old.dtype)
            larger[name][:, :most] = old[:, :most]
    return memory._replace(**larger)


def _compacted(memory: Memory, reserve: int) -> Memory:
    """Codes without the gaps of moved patches, in a larger pool unless half of it is free then."""
    live = memory.patch_count.sum(axis=1, dtype=np.int64)
    codes = np.zeros((len(live), max(memory.codes.shape[1], 2 * int(live.max()) + reserve)), np.uint16)
    start, room, used = memory.patch_start.copy(), memory.patch_room.copy(), memory.used.copy()
    for lane, patches in enumerate(memory.used[:, PATCHES]):
        counts = memory.patch_count[lane, :patches].astype(np.int64)
        begins = np.cumsum(counts) - counts
        live_codes = np.repeat(memory.patch_start[lane, :patches] - begins, counts) + np.arange(live[lane])
        codes[lane, : live[lane]] = memory.codes[lane, live_codes]
        start[lane, :patches], room[lane, :patches], used[lane, CODES] = begins, counts, live[lane]
    return memory._replace(codes=codes, patch_start=start, patch_room=room, used=used)


def items(
    memory: Memory, rules: JellyBean, lane: int, patch: int, collected: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kinds, x and y of the items in a patch, [items] each; optionally with collected items that still affect new terrain."""
    start, count, deleted_at = (
        int(of[lane, patch]) for of in (memory.patch_start, memory.patch_count, memory.patch_deleted_at)
    )
    codes = memory.codes[lane, start : start + count].astype(np.int64)
    if deleted_at >= 0 and not collected:
        codes = codes[memory.deleted_at[lane, deleted_at : deleted_at + count] == 0]
    mask = (1 << rules.cell_bits) - 1
    return codes >> 2 * rules.cell_bits, codes >> rules.cell_bits & mask, codes & mask


def pack(memory: Memory) -> dict[str, np.ndarray]:
    """The state as plain arrays. Pools are without unused entries: one-dimensional, lane after lane. Equal worlds pack equally."""
    memory = _compacted(memory, reserve=0)
    packed = {name: array.copy() for name, array in memory._asdict().items() if name not in POOLS}
    for name, column in POOLS.items():
        pool = getattr(memory, name)
        packed[name] = np.concatenate([pool[lane, :used] for lane, used in enumerate(memory.used[:, column])])
    return packed


def unpack(packed: Mapping[str, np.ndarray], rules: JellyBean) -> Memory:
    """The inverse of `pack`."""
    missing = [name for name in Memory._fields if name not in packed]
    if missing:
        raise UserError(f"this is not the state of a Jelly Bean World: it has no '{missing[0]}'")
    packed_arrays = {name: np.asarray(packed[name]) for name in Memory._fields}
    used, blank = packed_arrays["used"], empty_memory(rules, len(packed_arrays["time"]))
    arrays = {}
    for name, array in packed_arrays.items():
        expected = getattr(blank, name)
        shape = (int(used[:, POOLS[name]].sum()),) if name in POOLS else expected.shape
        if array.shape != shape or array.dtype != expected.dtype:
            raise UserError(
                f"this state of a Jelly Bean World does not fit its rules: '{name}' is {array.dtype} {array.shape}, "
                f"it should be {expected.dtype} {shape}"
            )
        arrays[name] = _by_lane(array, used[:, POOLS[name]]) if name in POOLS else array.copy()
    memory = Memory(**arrays)
    if not all(_sound(memory, rules, lane) for lane in range(len(used))):
        raise UserError("this state of a Jelly Bean World is damaged: its numbers are inconsistent")
    return memory


def _by_lane(pool: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[lanes, longest] the lanes of a packed pool."""
    lanes = np.zeros((len(lengths), lengths.max(initial=0)), pool.dtype)
    for lane, part in enumerate(np.split(pool, np.cumsum(lengths)[:-1])):
        lanes[lane, : len(part)] = part
    return lanes


def _sound(memory: Memory, rules: JellyBean, lane: int) -> bool:
    """Whether all indices are inside their pools: kernels do not check."""
    rows, slots, patches, codes, deleted_at, max_row = memory.used[lane]
    row_start, row_count, row_room = (of[lane, :rows] for of in (memory.row_start, memory.row_count, memory.row_room))
    start, count, room, since = (
        of[lane, :patches]
        for of in (memory.patch_start, memory.patch_count, memory.patch_room, memory.patch_deleted_at)
    )
    lists = [memory.slots[lane, at:][:number] for at, number in zip(row_start, row_count, strict=True)]
    kinds = memory.codes[lane, :codes] >> 2 * rules.cell_bits
    cells = memory.codes[lane, :codes] >> rules.cell_bits * np.arange(2)[:, None] & (1 << rules.cell_bits) - 1
    return bool(
        0 < memory.rng[lane] < MODULUS
        and (np.diff(memory.row_y[lane, :rows].astype(np.int64)) > 0).all()
        and ((row_start >= 0) & (row_count > 0) & (row_count <= row_room) & (row_count <= max_row)).all()
        and (row_start.astype(np.int64) + row_room <= slots).all()
        and sorted(np.concatenate([[], *lists]).tolist()) == list(range(patches))
        and ((start >= 0) & (count >= 0) & (count <= room) & (room <= rules.patch_size**2)).all()
        and (start.astype(np.int64) + room <= codes).all()
        and ((since < 0) | (since.astype(np.int64) + count <= deleted_at)).all()
        and (kinds < rules.num_kinds).all()
        and (cells < rules.patch_size).all()
    )
