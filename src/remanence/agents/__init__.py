"""Agents: tuples of pure functions, all memory in an explicit state."""

from remanence.agents.base import AT_SWITCH, Agent, Rhythm
from remanence.agents.permanent_transient import PTHypers, PTState, pt_td
from remanence.agents.td import TDHypers, td

__all__ = ["AT_SWITCH", "Agent", "PTHypers", "PTState", "Rhythm", "TDHypers", "pt_td", "td"]
