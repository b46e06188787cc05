"""Rooms like Minigrid's: the world, its layouts, and the agent's view."""
