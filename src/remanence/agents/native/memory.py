"""Arrays at addresses, and a stack of scratch memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from remanence.agents.native.compiling import kernel
from remanence.agents.native.support import LANES

F4, I4, I8, U1 = np.float32, np.int32, np.int64, np.uint8


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    del typingctx, address

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        del context
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


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
def zero(address, n):
    """n floats become 0."""
    a = floats(address, n)
    for i in range(n):
        a[i] = F4(0)


@kernel
def copy(to, other, n):
    """to[:n] = other[:n], floats at addresses."""
    a, b = floats(to, n), floats(other, n)
    for i in range(n):
        a[i] = b[i]


@kernel
def padded(n):
    """The leading dimension of a buffer with rows of n floats."""
    return (n + LANES - 1) // LANES * LANES


@kernel
def take(stack, size):
    """The address of `size` bytes of scratch memory, aligned for vectors. `stack` [1] is its first free address."""
    address = (stack[0] + 63) // 64 * 64
    stack[0] = address + size
    return address
