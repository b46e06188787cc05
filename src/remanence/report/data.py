"""The rows of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from remanence.core.lazy import alt


@cache
def _rows() -> type[alt.InlineData]:
    """Rows that are neither copied nor checked one by one: Altair does both at every step in which a chart is built."""

    class Rows(alt.InlineData):
        def __deepcopy__(self, _: Any) -> Rows:
            return self

        def to_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"values": self._kwds["values"]}

    return Rows


def inline(rows: Sequence[dict[str, Any]]) -> alt.InlineData:
    """Rows as the data of a chart; they must not change afterwards."""
    return _rows()(values=rows)
