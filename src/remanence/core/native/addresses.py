"""Arrays at addresses, and calls of functions at addresses."""

# Numba passes the first argument of an intrinsic, and sets its options when it is imported.
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from remanence.core.native.compiling import kernel

F4, I4, I8, U1 = np.float32, np.int32, np.int64, np.uint8
_BOOL, _U2 = np.bool_, np.uint16


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    del typingctx, address

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        del context
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def call(typingctx: Any, function: Any, argument: Any) -> Any:
    """Calls the C function at an address, int64 -> int64."""
    del typingctx, function, argument

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        del context
        number = ir.IntType(64)
        return builder.call(builder.inttoptr(args[0], ir.FunctionType(number, [number]).as_pointer()), [args[1]])

    return types.int64(types.int64, types.int64), codegen


@kernel
def floats(address, n):
    return carray(_pointer(address), (n,), F4)


@kernel
def ints(address, n):
    return carray(_pointer(address), (n,), I4)


@kernel
def longs(address, n):
    return carray(_pointer(address), (n,), I8)


@kernel
def octets(address, n):
    return carray(_pointer(address), (n,), U1)


@kernel
def shorts(address, n):
    return carray(_pointer(address), (n,), _U2)


@kernel
def bools(address, n):
    return carray(_pointer(address), (n,), _BOOL)
