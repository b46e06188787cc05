"""The control of every PT agent: the same agent whose permanent part never changes. The paper has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from remanence.agents.base import AgentConfig
from remanence.results.gains import CONTROL_SUFFIX
from remanence.runs.plan import Contender


def with_controls(contenders: Mapping[str, Contender]) -> dict[str, Contender]:
    """The same contenders, and for each PT agent one with ᾱ = 0 that is otherwise the same: its transient part only decays."""
    controls = {
        name + CONTROL_SUFFIX: Contender(replace(one.config, **{_what_consolidates(one.config): 0.0}))  # type: ignore[type-var]
        for name, one in contenders.items()
        if name.startswith("PT-")
    }
    return {**contenders, **controls}


def _what_consolidates(config: AgentConfig) -> str:
    """The field that is 0 for an agent that never consolidates."""
    return "permanent_lr" if getattr(config, "absorb", None) is None else "absorb"
