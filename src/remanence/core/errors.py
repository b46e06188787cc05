"""Mistakes a user can make and mend: shown as one line, without a stack trace."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class UserError(Exception):
    """What was wrong and what to do about it, in one line."""


class Stopped(Exception):
    """The run was asked to stop by the signal of this number, and did so after keeping all it had."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal

    def __str__(self) -> str:
        return "stopped; all is kept, and the same command goes on from here"


def of_disk(error: BaseException, path: Path) -> UserError | None:
    """What to tell of an error that is the disk's fault; None if it is another's.

    Libraries that write for us do not always raise an `OSError`: the text then tells what happened.
    """
    for code, wrong, mend in (
        (errno.ENOSPC, "the disk is full", "make room"),
        (errno.EDQUOT, "the quota is used up", "make room"),
        (errno.EROFS, "it is read-only", "make it writable"),
        (errno.EACCES, "permission denied", "make it writable"),
        (errno.EIO, "the disk reports an error", "see to it"),
    ):
        if (isinstance(error, OSError) and error.errno == code) or os.strerror(code).lower() in str(error).lower():
            return UserError(
                f"cannot write to '{path}': {wrong}. What was kept before is safe: {mend}, and the same command goes on from there"
            )
    return None


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Within this, errors that are the disk's fault become ones a person understands."""
    try:
        yield
    except (UserError, Stopped):
        raise
    except Exception as error:
        raise of_disk(error, path) or error from error


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = list(known)
    folded = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    hint = f"did you mean '{folded[near[0]]}'?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}': {hint}")
