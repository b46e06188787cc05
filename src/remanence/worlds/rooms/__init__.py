"""Rooms like Minigrid's: the world, its layouts, and what an agent sees."""
