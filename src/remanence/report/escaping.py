"""Text of a run in a page: names of agents, environments and metrics come from files, so none may become markup or script."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import re
from typing import Any

# "</script" ends a script element from inside a string, and "<!--" changes how the rest is read.
_IN_SCRIPT = {ord("<"): r"\u003c", ord(">"): r"\u003e", ord("&"): r"\u0026"}


class ScriptSafe(json.JSONEncoder):
    """JSON that may stand inside a script element: the same values, without any `<`."""

    def encode(self, o: Any) -> str:
        return super().encode(o).translate(_IN_SCRIPT)


def script_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, cls=ScriptSafe)


def slug(name: str) -> str:
    """A name for links and files."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name) or "run"


def content_security_policy(script: str) -> str:
    """Allows a page this one script, its own style and pictures inside of it; no other script, no `eval`, no network."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


class _SafeChart:
    """A chart whose HTML cannot be left by the text in it; Altair writes the text as it is."""

    def to_html(self, *arguments: Any, json_kwds: dict[str, Any] | None = None, **options: Any) -> str:
        return super().to_html(*arguments, json_kwds={"cls": ScriptSafe, **(json_kwds or {})}, **options)  # type: ignore[misc]

    def save(self, *arguments: Any, json_kwds: dict[str, Any] | None = None, **options: Any) -> None:
        super().save(*arguments, json_kwds={"cls": ScriptSafe, **(json_kwds or {})}, **options)  # type: ignore[misc]

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        """Notebooks show a picture, which needs neither a network nor a script."""
        return {"image/svg+xml": svg(self)}


def svg(chart: Any) -> str:
    """A chart as a picture. It is drawn here, without a network."""
    file = io.StringIO()
    chart.save(file, format="svg")
    return file.getvalue()


def picture(chart: Any) -> str:
    """The same inside of a page. A picture runs nothing, whatever text is in it."""
    return f'<img alt="" src="data:image/svg+xml;base64,{base64.b64encode(svg(chart).encode()).decode()}">'


def safe_chart(chart: Any) -> Any:
    """The same chart; its HTML cannot be left by the text in it."""
    copied = chart.copy(deep=False)
    object.__setattr__(
        copied, "__class__", _safe(type(chart))
    )  # an ordinary assignment becomes a property of the chart
    return copied


@functools.cache
def _safe(kind: type) -> type:
    return kind if issubclass(kind, _SafeChart) else type(kind.__name__, (_SafeChart, kind), {})
