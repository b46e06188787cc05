"""Continual reinforcement learning with a permanent and a transient value function.

A *life* is one agent, in one world, fed by one stream of tasks; everything else is arrays over lanes.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from remanence.core import backend

if TYPE_CHECKING:
    from remanence.agents.behaviour import Linear
    from remanence.agents.configs import DQN, PTDQN, PTQ, PTTD, TD, DeepPTTD, DeepTD, Q, Random
    from remanence.core.types import Episodes, Steps
    from remanence.gym.policy import Policy, load_policy
    from remanence.live_env import Search, live, live_sweep, load_results
    from remanence.streams import Drift, Stationary, Switches

__version__ = "0.2.0"

# Imported on first use.
_ELSEWHERE = {
    **dict.fromkeys(("Search", "live", "live_sweep", "load_results"), "live_env"),
    **dict.fromkeys(("Drift", "Stationary", "Switches"), "streams"),
    **dict.fromkeys(("TD", "PTTD", "DeepTD", "DeepPTTD", "Q", "PTQ", "DQN", "PTDQN", "Random"), "agents.configs"),
    "Linear": "agents.behaviour",
    **dict.fromkeys(("Policy", "load_policy"), "gym.policy"),
    **dict.fromkeys(("Episodes", "Steps"), "core.types"),
}
__all__ = [
    "DQN",
    "PTDQN",
    "PTQ",
    "PTTD",
    "TD",
    "DeepPTTD",
    "DeepTD",
    "Drift",
    "Episodes",
    "Linear",
    "Policy",
    "Q",
    "Random",
    "Search",
    "Stationary",
    "Steps",
    "Switches",
    "live",
    "live_sweep",
    "load_policy",
    "load_results",
]

backend.prepare()
if "gymnasium" in sys.modules:  # importing it is slow
    from remanence import gym as gym


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'remanence' has no attribute '{name}'")
    module = importlib.import_module(f"remanence.{_ELSEWHERE[name]}")
    globals()[name] = found = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ELSEWHERE})
