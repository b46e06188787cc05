"""Steps on existing terrain without Python: the handler that XLA calls.

It finds the maps in `directory.py`. What it cannot do (make terrain, enlarge an array, report a mistake), it leaves to the handler
in Python: it marks the step as `LEFT`. Importing this module compiles the handler, or loads it.
"""

# Numba passes the first argument of an intrinsic, and sets its options when it is imported.
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from remanence.core.native.addresses import bools, call, ints, longs, octets, shorts
from remanence.core.native.callframe import argument, asks_for_version, data, elements, result
from remanence.core.native.compiling import handler, kernel
from remanence.worlds.jellybean.directory import (
    ARRAYS,
    CODES,
    DELETED,
    DIRECTORY,
    KINDS,
    LEFT,
    LIFETIME,
    MAPS,
    PATCHES,
    ROWS,
    SIZE,
    SLOTS,
)
from remanence.worlds.jellybean.memory import Memory
from remanence.worlds.jellybean.walking import CoreView, walk

_SYMBOL = "remanence_jellybean_directory"
llvm.add_symbol(
    _SYMBOL, DIRECTORY.ctypes.data
)  # cached kernels find it by name: its address changes from process to process
_MEMORY, _SIGHT = len(Memory._fields), len(CoreView._fields)  # arrays of a map
ASKED = 4  # numbers of a step: map, time, action, whether the lane is active


@intrinsic
def _directory_address(typingctx: Any) -> Any:
    del typingctx

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        del context, args
        module, number = builder.module, ir.IntType(64)
        symbol = module.globals.get(_SYMBOL) or ir.GlobalVariable(module, number, _SYMBOL)
        return builder.ptrtoint(symbol, number)

    return types.int64(), codegen


@kernel
def _longs(address, n):
    return longs(address, n).reshape((1, n))


@kernel
def _ints(address, n):
    return ints(address, n).reshape((1, n))


@kernel
def _memory(record):
    sizes, at = longs(record, ARRAYS), longs(record + 8 * ARRAYS, _MEMORY)
    rows, slots, patches = sizes[ROWS], sizes[SLOTS], sizes[PATCHES]
    return Memory(
        longs(at[0], 1),
        _longs(at[1], 2),
        longs(at[2], 1),
        _longs(at[3], sizes[KINDS]),
        _longs(at[4], 6),
        _ints(at[5], rows),
        _ints(at[6], rows),
        _ints(at[7], rows),
        _ints(at[8], rows),
        _ints(at[9], slots),
        _ints(at[10], patches),
        _ints(at[11], patches),
        bools(at[12], patches).reshape((1, patches)),
        _ints(at[13], patches),
        _ints(at[14], patches),
        _ints(at[15], patches),
        _ints(at[16], patches),
        _longs(at[17], patches),
        shorts(at[18], sizes[CODES]).reshape((1, sizes[CODES])),
        _ints(at[19], sizes[DELETED]),
    )


@kernel
def _sight(record):
    side, at = 2 * longs(record, ARRAYS)[SIZE], longs(record + 8 * (ARRAYS + _MEMORY), _SIGHT)
    return CoreView(
        _longs(at[0], 2),
        longs(at[1], 4).reshape((1, 2, 2)),
        octets(at[2], side * side).reshape((1, side, side)),
        _longs(at[3], 2),
        longs(at[4], 1),
        longs(at[5], 1),
    )


@kernel
def _step_map(record, time, action, view, answer, cells):
    """One step of one map; the view and what was collected are written to `answer`. -> whether it is done."""
    memory, sight, sizes = _memory(record), _sight(record), longs(record, ARRAYS)
    if memory.time[0] != time or not 0 <= action < 4:
        return False
    sight.taken[0] = 0
    actions = np.full((1, 1), action, np.int8)
    views, collected_now = octets(answer, cells).reshape((1, 1, view, view)), octets(answer + cells, 1).reshape((1, 1))
    return walk(memory, sight, actions, sizes[SIZE], sizes[LIFETIME], views, collected_now)


@kernel
def _step(frame):
    """Argument: [lanes, ASKED]. Result: [lanes, cells + 1], the view and what was collected. -> whether all steps are done."""
    asked, answers = argument(frame, 0), result(frame, 0)
    lanes = elements(asked, 0) // ASKED
    cells, directory = elements(answers, 0) // lanes - 1, longs(_directory_address(), MAPS + 1)
    view, done = int(np.sqrt(cells)), True
    for lane in range(lanes):
        numbers, answer = ints(data(asked) + 4 * ASKED * lane, ASKED), data(answers) + lane * (cells + 1)
        number, active = numbers[0], numbers[3]
        octets(answer, cells + 1)[:] = 0
        record = directory[number] if 0 <= number < MAPS else 0
        if active and (record == 0 or not _step_map(record, numbers[1], numbers[2], view, answer, cells)):
            octets(answer, cells + 1)[cells] = LEFT
            done = False
    return done


@handler
def step_handler(frame):
    if asks_for_version(frame) or _step(frame):
        return 0
    return call(longs(_directory_address(), MAPS + 1)[MAPS], frame)


def address(in_python: int) -> int:
    """The address of the handler. `in_python`: that of the one which makes the steps that are `LEFT`."""
    DIRECTORY[MAPS] = in_python
    return step_handler.address
