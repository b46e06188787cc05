"""The generator of the original simulator: x ← 48271 x mod 2³¹ − 1.

Kernels use unsigned integers, so that compiled code need not handle negative indices.
"""

from __future__ import annotations

import numpy as np

from remanence.core.native.compiling import compiled_python

U = np.uint64
MODULUS = 2**31 - 1
# x · JUMPS[k] is k numbers ahead: all draws of a proposal can be computed in parallel.
JUMPS = tuple(U(pow(48271, count, MODULUS)) for count in range(6))
_NEXT, _MASK, _BITS = JUMPS[1], U(MODULUS), U(31)


@compiled_python
def jump(state: U, factor: U) -> U:
    """x · factor mod 2³¹ − 1 without a division: 2³¹ ≡ 1, so the bits above the 31st are added to the lowest."""
    product = state * factor
    folded = (product & _MASK) + (product >> _BITS)
    return folded - _MASK if folded >= _MASK else folded


@compiled_python
def draw(state: U) -> U:
    """The next number, which is also the next state."""
    return jump(state, _NEXT)


def seeded(seed: int) -> int:
    """The state for a seed; seeds 0 and 1 are the same."""
    return seed % MODULUS or 1
