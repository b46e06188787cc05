"""Charts as tests read them."""

from __future__ import annotations

from typing import Any


def spec(chart: Any) -> dict[str, Any]:
    """The chart as JSON, with its rows where they are used; Altair lists them once, by name."""
    whole = chart.to_dict()
    tables = whole.pop("datasets", {})

    def filled(node: Any) -> Any:
        if isinstance(node, list):
            return [filled(one) for one in node]
        if isinstance(node, dict) and set(node) == {"name"} and node["name"] in tables:
            return {"values": tables[node["name"]]}
        return {key: filled(one) for key, one in node.items()} if isinstance(node, dict) else node

    return filled(whole)
