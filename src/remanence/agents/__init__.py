"""Agents: tuples of pure functions with an explicit state."""

from remanence.agents.base import AT_SWITCH, Agent, ConsolidateEvery
from remanence.agents.composition import index_rows, separate_networks, shared_trunk, single
from remanence.agents.dqn import deep_agent
from remanence.agents.pt import PTState, pt_q, pt_td
from remanence.agents.td import q_learning, random_agent, td
from remanence.agents.training import Consolidation, OnConsolidate, Training, clear_replay, reset_all
from remanence.core.types import Hypers

__all__ = [
    "AT_SWITCH",
    "Agent",
    "ConsolidateEvery",
    "Consolidation",
    "Hypers",
    "OnConsolidate",
    "PTState",
    "Training",
    "clear_replay",
    "deep_agent",
    "index_rows",
    "pt_q",
    "pt_td",
    "q_learning",
    "random_agent",
    "reset_all",
    "separate_networks",
    "shared_trunk",
    "single",
    "td",
]
