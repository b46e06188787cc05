"""Continual reinforcement learning with a permanent and a transient value function.

A *life* is one agent, in one world, fed by one stream of tasks; everything else is arrays over lanes.
"""

import sys

from remanence import backend

__version__ = "0.1.0"

backend.prepare()
if "gymnasium" in sys.modules:  # only who uses it waits for it
    from remanence import environments as environments
