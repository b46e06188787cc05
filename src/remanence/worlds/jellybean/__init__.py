"""Jelly Bean World: an infinite map of items that is made while the agent walks (Platanios, Saparov and Mitchell, 2020)."""

from remanence.worlds.jellybean.items import PRESETS, Box, Item, JellyBean, preset
from remanence.worlds.jellybean.world import ACTIONS, JellyBeanWorlds

__all__ = ["ACTIONS", "PRESETS", "Box", "Item", "JellyBean", "JellyBeanWorlds", "preset"]
