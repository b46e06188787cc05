"""Altair, imported when a chart is made: its import is slow, and most commands draw nothing.

`from remanence.core.lazy import alt` instead of `import altair as alt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

    alt = _Altair()

__all__ = ["alt"]
