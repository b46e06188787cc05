"""What becomes of the transient part at a consolidation: a share λ is kept, a share a absorbed, the rest f = 1 − λ − a forgotten.

    P ← P + a T,    T ← λ T                 so, for the sum V = P + T,
    P ← (1 − a) P + a V,    V ← f P + (1 − f) V

Shares may differ between entries: where one pass of step size ᾱ goes over n visits, a = 1 − (1 − ᾱ)^n. V^P is the moving average
of V at the consolidations, so it has a lifetime too: with k steps between two consolidations

    τ_P = −k / ln(1 − a),    τ_T = −k / ln λ,    and a + λ ≤ 1 says that τ_T ≤ τ_P.

`docs/theory.md` proves what follows: with f = 0 the split does not matter, f ≥ 0 rules out inflation. `lifetimes.py` has what V^P
converges to and which τ_T is best.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from remanence.core.errors import UserError


class Shares(NamedTuple):
    """Of the transient part, at a consolidation; each a number or [states]."""

    kept: np.ndarray | float
    """λ"""
    absorbed: np.ndarray | float
    """a"""

    @property
    def forgotten(self) -> np.ndarray | float:
        """f; negative where more is kept and absorbed than there is."""
        return 1.0 - self.kept - self.absorbed

    @classmethod
    def of_lifetimes(cls, interval: float, transient: float, permanent: float) -> Shares:
        """The shares at consolidations every `interval` steps that give both parts these lifetimes."""
        return cls(share_left(interval, transient), 1.0 - share_left(interval, permanent))


def consolidated(permanent: np.ndarray, transient: np.ndarray, shares: Shares) -> tuple[np.ndarray, np.ndarray]:
    """V^P and V^T after a consolidation."""
    return permanent + shares.absorbed * transient, shares.kept * transient


def absorbed_share(step_size: np.ndarray | float, visits: np.ndarray | int) -> np.ndarray:
    """a = 1 − (1 − ᾱ)^n: what one pass over n visits of an entry absorbs (Eq. 4 in a table)."""
    return 1.0 - (1.0 - np.asarray(step_size, np.float64)) ** visits


def lifetime(interval: float, left: float) -> float:
    """τ = −k / ln x of what keeps a share x at consolidations every k steps: 0 if nothing is left, infinite if everything is."""
    if not (0.0 <= left <= 1.0 and interval > 0):
        raise UserError(f"a share must lie between 0 and 1 and an interval be positive; got {left} and {interval}")
    return 0.0 if left == 0.0 else math.inf if left == 1.0 else -interval / math.log(left)


def share_left(interval: float, lifetime: float) -> float:
    """e^(−k/τ), the inverse of `lifetime`."""
    if not (lifetime >= 0.0 and interval > 0):
        raise UserError(
            f"a lifetime cannot be negative and an interval must be positive; got {lifetime} and {interval}"
        )
    return 0.0 if lifetime == 0.0 else math.exp(-interval / lifetime)


def mean_lifetime(interval: float, left: float) -> float:
    """The mean age at which what was learned at a uniformly drawn step is lost.

        k (½ + λ / (1 − λ)) = (k / 2) coth(k / 2τ)

    It is τ (1 + (k/τ)²/12 − …) if k is small compared with τ, and k/2 with λ = 0, where τ is 0: consolidations every k steps
    forget nothing in between.
    """
    lifetime(interval, left)  # checks both
    return math.inf if left == 1.0 else interval * (0.5 + left / (1.0 - left))


def consolidation_cycle(shares: Shares, learned: float) -> np.ndarray:
    """[2, 2] the map of (1 − P/v, T/v) in the simplest process: one state, one reward, values v = r / (1 − γ).

    A cycle first learns, which moves V by a share `learned` of its distance to v (1 − (1 − α(1 − γ))^m in m steps of TD), and
    then consolidates. The determinant is λ c and the trace 1 − a (1 − c) + λ c, with c = 1 − learned, so that the eigenvalues are

        μ = ½ (1 − a (1 − c) + λ c ± √((1 − a (1 − c) + λ c)² − 4 λ c)).

    |μ| < 1 for a > 0 and c < 1: values return to v. Where μ is complex they swing around v: V^T is a momentum.
    """
    kept, absorbed, left = float(shares.kept), float(shares.absorbed), 1.0 - learned
    return np.array([[1.0 - absorbed * learned, -absorbed * left], [kept * learned, kept * left]])


def inflation(shares: Shares, learned: float, cycles: int = 10_000) -> float:
    """The largest V / v that this process reaches from P = T = 0, at most over many cycles; 1 if it never exceeds v."""
    cycle = consolidation_cycle(shares, learned)
    largest, state = 1.0, np.array([1.0, 0.0])
    for _ in range(cycles):
        state = cycle @ state
        largest = max(largest, 1.0 - state[0] + state[1])
        if np.abs(state).max() < 1e-9:
            break
    return float(largest)
