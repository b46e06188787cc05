"""Mistakes a user can make and mend: shown as one line, without a stack trace."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What was wrong and what to do about it, in one line."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = list(known)
    folded = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    hint = f"did you mean '{folded[near[0]]}'?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}': {hint}")
