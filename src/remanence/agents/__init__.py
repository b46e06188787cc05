"""Agents: tuples of pure functions, all memory in an explicit state."""

from remanence.agents.base import AT_SWITCH, Agent, Rhythm
from remanence.agents.permanent_transient import PTHypers, PTState, pt_q, pt_td
from remanence.agents.td import NoHypers, TDHypers, q_learning, random_agent, td

__all__ = [
    "AT_SWITCH",
    "Agent",
    "NoHypers",
    "PTHypers",
    "PTState",
    "Rhythm",
    "TDHypers",
    "pt_q",
    "pt_td",
    "q_learning",
    "random_agent",
    "td",
]
