"""Jelly Bean World: an infinite map of items that is made while the agent walks (Platanios, Saparov and Mitchell, 2020).

The worlds are those of the original simulator, bit for bit, for the same seed and actions.
"""

from remanence.worlds.jellybean.items import PRESETS, Box, Item, JellyBean, preset
from remanence.worlds.jellybean.rewards import RewardSchedule
from remanence.worlds.jellybean.world import ACTIONS, JellyBeanWorlds

__all__ = ["ACTIONS", "PRESETS", "Box", "Item", "JellyBean", "JellyBeanWorlds", "RewardSchedule", "preset"]
