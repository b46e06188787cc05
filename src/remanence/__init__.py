"""Continual reinforcement learning with a permanent and a transient value function.

A *life* is one agent, in one world, fed by one stream of tasks; everything else is arrays over lanes.
"""

from remanence import backend

__version__ = "0.1.0"

backend.prepare()
