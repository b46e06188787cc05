"""Jelly Bean World: an infinite map of items that is generated while the agent walks (Platanios, Saparov and Mitchell, 2020).

For the same seed and actions, the worlds are bit for bit those of the original simulator's default build, if intensities and
interactions are dyadic fractions, as in both presets: sums of energies are then exact in single precision.
"""

from typing import TYPE_CHECKING, Any

from remanence.worlds.jellybean.items import ACTIONS, PRESETS, Box, Item, JellyBean, preset
from remanence.worlds.jellybean.rewards import RewardSchedule

if TYPE_CHECKING:
    from remanence.worlds.jellybean.world import JellyBeanWorlds

__all__ = ["ACTIONS", "PRESETS", "Box", "Item", "JellyBean", "JellyBeanWorlds", "RewardSchedule", "preset"]


def __getattr__(name: str) -> Any:
    if name != "JellyBeanWorlds":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from remanence.worlds.jellybean.world import JellyBeanWorlds  # imports Numba, which is slow

    return JellyBeanWorlds
