"""The three shares of a consolidation: of V^T, λ is kept, a is absorbed by V^P, and 1 − λ − a is forgotten.

    V^P ← V^P + a V^T,     V^T ← λ V^T,     a + λ ≤ 1

Where a + λ > 1, a part of V^T counts twice: V^P + V^T jumps away from 0 at every consolidation, and bootstrapping keeps it there.
Where a + λ = 1, nothing is forgotten.

`transient_half_life` h is the time after which half of V^T is left. It decides λ = 2^(−k / h) for any interval k.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

from remanence.core.errors import UserError
from remanence.core.types import Episodes, Steps

AUTO: Any = "auto"  # the default of `consolidate_every`: a configuration replaces it by a concrete interval
REMEMBERED = 0.1  # of what leaves V^T, the share that V^P absorbs, if only a half-life is given
ROUNDING = 1e-6
SETTLED = (
    "transient_half_life",
    "decay",
    "absorb",
    "consolidate_every",
    "decay_output",
    "in_order",
    "permanent_optimizer",
    "reinit",
)  # fields whose defaults depend on others

Config = TypeVar("Config")
HalfLife = int | Steps | Episodes | None


def settle_half_life(config: Any, usual: int | None) -> None:
    """Replaces the default of the half-life: the usual one, or none if other fields say how V^T decays."""
    if config.transient_half_life == AUTO:
        decided = config.decay is not None or config.absorb is not None or config.consolidate_every != AUTO
        decided |= config.decay_output is False or config.reinit is True
        _set(config, "transient_half_life", None if decided else usual)


def settle_shares(config: Any, usual_every: Any, usual_decay: float, per_half_life: int, fewest_steps: int = 1) -> None:
    """Replaces the defaults of interval, λ and a by concrete numbers, and checks them.

    Without a half-life: the usual interval; the usual λ, and 0 at known task boundaries, where the transient part is reset
    (paper, §5).

    Args:
        per_half_life: consolidations per half-life, if the interval is not given.
        fewest_steps: between two of them.
    """
    if config.transient_half_life is None:
        if config.consolidate_every == AUTO:
            _set(config, "consolidate_every", usual_every)
        if config.decay is None:
            _set(config, "decay", 0.0 if config.consolidate_every is None else usual_decay)
    else:
        _settle_half_life(config, per_half_life, fewest_steps)
    _check_control(config)
    shares: tuple[float | None, float] = (config.absorb, config.decay)  # type: ignore[assignment]
    absorb, decay = shares
    if absorb is not None and absorb + decay > 1 + ROUNDING:
        raise UserError(
            f"absorb={absorb:g} and decay={decay:g} add up to more than 1, and values would grow without end: "
            f"absorb at most {1 - decay:.4g}"
        )


def _check_control(config: Any) -> None:
    if config.absorb and config.permanent_lr == 0:
        raise UserError(
            f"permanent_lr=0 does not keep the permanent part from absorbing a share of {config.absorb:.3g}: for an agent that "
            "never consolidates, give absorb=0.0"
        )


def _settle_half_life(config: Any, per_half_life: int, fewest_steps: int) -> None:
    half_life, in_episodes = _count(config.transient_half_life)
    if half_life < 1:
        raise UserError(f"transient_half_life must be at least 1; got {config.transient_half_life}")
    if config.consolidate_every is None:
        raise UserError(
            "transient_half_life needs consolidations at regular times, not at task boundaries: omit consolidate_every"
        )
    if config.consolidate_every == AUTO:
        count = max(1 if in_episodes else fewest_steps, round(half_life / per_half_life))
        _set(config, "consolidate_every", Episodes(count) if in_episodes else count)
    every, every_in_episodes = _count(config.consolidate_every)
    if every_in_episodes != in_episodes:
        units = ("episodes", "steps") if in_episodes else ("steps", "episodes")
        raise UserError(
            f"transient_half_life is in {units[0]} and consolidate_every in {units[1]}: give both in the same unit"
        )
    decay = 2.0 ** (-every / half_life)
    if config.decay is None:
        _set(config, "decay", decay)
    elif not math.isclose(config.decay, decay, rel_tol=ROUNDING):
        raise UserError(
            f"a half-life of {half_life} with a consolidation every {every} means decay={decay:.6g}; got decay={config.decay:g}: "
            "give transient_half_life or decay, not both"
        )
    if config.absorb is None:
        _set(config, "absorb", REMEMBERED * (1.0 - decay))


def with_fields(config: Config, **fields: Any) -> Config:
    """The configuration with other values. With a half-life or a share, fields that are as the defaults settled them are settled
    again: another half-life has another λ."""
    half_life = getattr(config, "transient_half_life", None)
    if not (fields.keys() & {"transient_half_life", "absorb"} or half_life):
        return dataclasses.replace(config, **fields)  # type: ignore[type-var]
    unsettled = {one.name: one.default for one in dataclasses.fields(config) if one.name in SETTLED}  # type: ignore[arg-type]
    if dataclasses.replace(config, **unsettled).transient_half_life != half_life:  # type: ignore[type-var]
        del unsettled["transient_half_life"]  # it is not the default: it stays
    usual = dataclasses.replace(config, **unsettled)  # type: ignore[type-var]
    again = {name: value for name, value in unsettled.items() if getattr(config, name) == getattr(usual, name)}
    return dataclasses.replace(config, **{**again, **fields})  # type: ignore[type-var]


def _count(duration: int | Steps | Episodes) -> tuple[int, bool]:
    """A number of steps or episodes, and whether it is of episodes."""
    return (duration, False) if isinstance(duration, int) else (duration.count, isinstance(duration, Episodes))


def _set(config: Any, name: str, value: Any) -> None:
    object.__setattr__(config, name, value)
