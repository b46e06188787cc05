"""Whether a stream reveals the task boundaries that an agent needs."""

from __future__ import annotations

from typing import Any

from remanence.agents.base import AT_SWITCH, Agent
from remanence.core.errors import UserError
from remanence.streams import Stream


def check_boundaries(config: Any, agent: Agent, stream: Stream) -> None:
    """Raises if an agent acts at known task boundaries and the stream does not reveal them. It says what the agent does there, how
    it gets boundaries, and how it needs none."""
    if agent.consolidate_every != AT_SWITCH or stream.boundaries_known or agent.task_aware:
        return
    if getattr(config, "reset", False):
        does, without = "resets", "an agent without reset"
    elif hasattr(config, "consolidate_every"):
        does, without = "consolidates", "consolidate_every=n"
    elif getattr(config, "clear_replay", False):
        does, without = "empties its replay buffer", "omit clear_replay"
    else:
        does, without = "consolidates", "another consolidate_every"
    if stream.segments == 1:
        wrong, fix = "this stream has none", "use Switches(…, boundaries_known=True)"
    else:
        wrong, fix = "this stream does not reveal them", "give boundaries_known=True"
    raise UserError(f"this agent {does} at known task boundaries, but {wrong}: {fix}, or {without}")
