"""Agents: tuples of pure functions, all memory in an explicit state."""

from remanence.agents.base import AT_SWITCH, Agent, Rhythm
from remanence.agents.composition import alone, by_number, side_by_side, two_heads
from remanence.agents.dqn import Consolidation, Forgetting, Training, deep_agent, dqn, pt_dqn, resetting
from remanence.agents.pt import PTHypers, PTState, pt_q, pt_td
from remanence.agents.td import NoHypers, TDHypers, q_learning, random_agent, td

__all__ = [
    "AT_SWITCH",
    "Agent",
    "Consolidation",
    "Forgetting",
    "NoHypers",
    "PTHypers",
    "PTState",
    "Rhythm",
    "TDHypers",
    "Training",
    "alone",
    "by_number",
    "deep_agent",
    "dqn",
    "pt_dqn",
    "pt_q",
    "pt_td",
    "q_learning",
    "random_agent",
    "resetting",
    "side_by_side",
    "td",
    "two_heads",
]
