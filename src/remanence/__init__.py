"""Continual reinforcement learning with a permanent and a transient value function.

A *life* is one agent, in one world, fed by one stream of tasks; everything else is arrays over lanes.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from remanence import backend

if TYPE_CHECKING:
    from remanence.own.changes import Drift, Steady, Switches
    from remanence.own.live import live
    from remanence.own.policy import Policy, load_policy
    from remanence.own.recipes import DQN, PTDQN, PTQ, Q, Random
    from remanence.results.store import load as load_results
    from remanence.types import Episodes

__version__ = "0.1.0"

# Agents in an environment of your own; imported by who asks for them.
_ELSEWHERE = {
    "live": "own.live",
    **dict.fromkeys(("Drift", "Steady", "Switches"), "own.changes"),
    **dict.fromkeys(("DQN", "PTDQN", "Q", "PTQ", "Random"), "own.recipes"),
    **dict.fromkeys(("Policy", "load_policy"), "own.policy"),
    "load_results": "results",
    "Episodes": "types",
}
__all__ = [
    "DQN",
    "PTDQN",
    "PTQ",
    "Drift",
    "Episodes",
    "Policy",
    "Q",
    "Random",
    "Steady",
    "Switches",
    "live",
    "load_policy",
    "load_results",
]

backend.prepare()
if "gymnasium" in sys.modules:  # only who uses it waits for it
    from remanence import environments as environments


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'remanence' has no attribute '{name}'")
    module = importlib.import_module(f"remanence.{_ELSEWHERE[name]}")
    globals()[name] = found = getattr(module, "load" if name == "load_results" else name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ELSEWHERE})
