"""Reads `description.json`. It may come from a stranger: what other code relies on is checked here, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remanence.core.errors import UserError, printable
from remanence.results.manifest import MANIFEST, DamageError, listed_files, read_checked

DESCRIPTION = "description.json"
FORMAT = 2
"""of a run's files. 1, before there were manifests: the description has no `format`"""

_MISSING = object()


def read_description(run: Path) -> dict[str, Any]:
    """The description of a run; raises a `UserError` if there is none, or it is damaged or of a newer format."""
    content = read_checked(run, DESCRIPTION)
    if content is None:
        raise UserError(f"'{run}' is not a run: it has no {DESCRIPTION}")
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamageError(run, DESCRIPTION) from error
    if not isinstance(description, dict):
        raise DamageError(run, DESCRIPTION)
    version = description.get("format", 1)
    if _integer(version) and version > FORMAT:
        writer = _at(description, "versions.remanence")
        by = f", written by remanence {printable(writer[:80])}" if isinstance(writer, str) else ""
        raise UserError(
            f"the run in '{run}' has format {version}{by}; "
            f"this remanence reads formats up to {FORMAT}: install a newer one"
        )
    if problem := next(_problems(description), ""):
        raise DamageError(run, f"{DESCRIPTION}: {problem}")
    if version > 1 and listed_files(run) is None:
        raise DamageError(run, f"{MANIFEST} is missing")
    return description


def _problems(about: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a description."""
    for text in _strings(about):
        if printable(text) != text:
            yield f"{printable(text[:80])!r} has characters that cannot be printed"
    for path, fits in _FIELDS.items():
        if not fits(_at(about, path)):
            yield f"{path} is missing or not as expected"
    length, window = next(iter(about["stream"]["segment_length"].values())), about.get("window", 1)
    if length < window:
        yield "window is longer than a segment"


def _at(about: Any, path: str) -> Any:
    for key in path.split("."):
        about = about.get(key, _MISSING) if isinstance(about, dict) else _MISSING
    return about


def _strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # not NaN either


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _count(value: Any) -> bool:
    return _integer(value) and value >= 1


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(fits, value))


def _dict_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _optional(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is _MISSING or fits(value)


def _or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _agent(value: Any) -> bool:
    return isinstance(value, dict) and _dict_of(_number)(value.get("hypers")) and _is_dict(value.get("config", {}))


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _learner(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("learner")) and isinstance(value.get("why"), str)


def _choice(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("metric")) and _dict_of(_dict_of(_number))(value.get("settings"))


def _segment_length(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and all(map(_count, value.values()))


def _stream(value: Any) -> bool:
    order = isinstance(value, dict) and _list_of(_or_null(_integer))(value.get("order"))
    return order and _segment_length(value.get("segment_length"))


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "experiment": _text,
    "preset": _text,
    "seeds": _list_of(_integer),
    "contenders": _dict_of(_agent),
    "stream": _stream,
    "stream.parameter": _optional(_or_null(_text)),
    "before": _optional(_stream),
    "window": _optional(_count),
    "metrics": _optional(_texts),
    "world": _optional(_is_dict),
    "world.environments": _optional(_list_of(_text)),
    "versions": _dict_of(_text),
    "versions.remanence": _text,
    "learners": _optional(_dict_of(_learner)),
    "sweep": _optional(_dict_of(_dict_of(_list_of(_number)))),
    "one_at_a_time": _optional(_dict_of(_count)),
    "choice": _optional(_choice),
    "format": _optional(_count),
}
