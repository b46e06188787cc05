"""The generator of the original simulator: x ← 48271 x mod 2³¹ − 1."""

from __future__ import annotations

import numba

MODULUS = 2**31 - 1
STEP = 48271
JUMPS = tuple(pow(STEP, count, MODULUS) for count in range(6))  # x · JUMPS[k] is k numbers further


@numba.njit(cache=True, nogil=True)
def jump(state: int, factor: int) -> int:
    """x · factor mod 2³¹ − 1 without a division: bits above the 31st count as much as the lowest ones."""
    product = state * factor
    folded = (product & MODULUS) + (product >> 31)
    return folded - MODULUS if folded >= MODULUS else folded


@numba.njit(cache=True, nogil=True)
def draw(state: int) -> int:
    """The next number, which is also the next state."""
    return jump(state, STEP)


def seeded(seed: int) -> int:
    """The state for a seed; seeds 0 and 1 are the same."""
    return seed % MODULUS or 1
