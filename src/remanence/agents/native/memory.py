"""Copies, and a stack of scratch memory."""

from __future__ import annotations

from remanence.agents.native.support import LANES
from remanence.core.native.addresses import F4, floats
from remanence.core.native.compiling import kernel


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
