"""Lives that a callback stopped: how far they came. They are only in the results that `live` returns, never in a run on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remanence.results.store import Results

STOPPED_AFTER = "stopped_after"  # the column of `lanes`: closed windows; null for a life that is finished


def stopped_agents(results: Results) -> str:
    """Which agents were stopped, and after how many windows; empty if none was."""
    parts = []
    for name in results.contenders:
        counts = results.lifetimes(name)
        least, most = min(counts), max(counts)
        if least < results.windows:
            begun, seeds = int((results.lanes["contender"] == name).sum()), len(results.seeds)
            some = f" ({begun} of {seeds} seeds)" if begun < seeds else ""
            range_of = f"{least} to {most}" if least < most else f"{least}"
            parts.append(f"{name} after {range_of} of {results.windows} {results.unit}s{some}")
    return ", ".join(parts)


def stopped_remark(results: Results) -> str:
    """The same, as a sentence; empty if none was."""
    return f"stopped by the callback: {agents}" if (agents := stopped_agents(results)) else ""
