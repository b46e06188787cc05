"""Errors a user can fix: shown as one line, without a stack trace."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

# Directories of code that is not the user's.
_NOT_OF_THE_USER = (
    *{sysconfig.get_path(one) for one in ("stdlib", "purelib", "platlib")},
    str(Path(__file__).parents[1]),
)
# They could steer a terminal, or cannot be printed.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """What is wrong and how to fix it, in one line."""


class NotRestored(UserError):
    """A part of a checkpoint cannot be restored: the lives that it holds begin again."""


BY_CALLBACK = -1  # instead of the number of a signal


class Stopped(Exception):
    """The run was stopped by this signal, or by the user's callback, after saving a checkpoint."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal

    def __str__(self) -> str:
        return "stopped; all progress is saved, and the same command resumes"


def of_disk(error: BaseException, path: Path) -> UserError | None:
    """The `UserError` for an error of the disk; None for any other error.

    Libraries do not always raise an `OSError`, so the text of the error is searched too.
    """
    for code, wrong, fix in (
        (errno.ENOSPC, "the disk is full", "make room"),
        (errno.EDQUOT, "the quota is used up", "make room"),
        (errno.EROFS, "it is read-only", "make it writable"),
        (errno.EACCES, "permission denied", "make it writable"),
        (errno.EIO, "the disk reports an error", "check it"),
        (errno.EFBIG, "a file would be larger than this process may write", "raise the limit (ulimit -f)"),
        (errno.ENFILE, "too many files are open on this machine", "close some"),
        (errno.EMFILE, "too many files are open", "raise the limit (ulimit -n)"),
    ):
        if (isinstance(error, OSError) and error.errno == code) or os.strerror(code).lower() in str(error).lower():
            if isinstance(error, OSError) and isinstance(error.filename, str):
                path = Path(error.filename)  # it may be elsewhere
            return UserError(
                f"cannot write to '{path}': {wrong}. Everything saved before is safe: {fix}, and the same command resumes"
            )
    return None


def of_memory(error: BaseException) -> UserError | None:
    """The `UserError` for an error of memory or of the number of threads; None for any other error."""
    signs = (
        "RESOURCE_EXHAUSTED",
        "can't start new thread",
        os.strerror(errno.ENOMEM),
        "std::bad_alloc",
        "Out of memory",
    )
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in signs):
        return UserError(
            "memory, or the number of threads, does not suffice. Everything saved before is safe: use fewer --lanes-per-group or "
            "seeds, or raise the limit, and the same command resumes"
        )
    return None


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns errors of the disk into `UserError`s."""
    try:
        yield
    except (UserError, Stopped):
        raise
    except Exception as error:
        raise of_disk(error, path) or error from error


def printable(text: str) -> str:
    """A text from a file or a user, without characters that could steer a terminal."""
    return _UNPRINTABLE.sub("�", text)


def calling(what: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Calls the user's code; an error says where it failed."""
    try:
        return function(*arguments, **options)
    except UserError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())
        raise UserError(f"{what} failed: {type(error).__name__}: {message:.300}") from error


def with_place(error: UserError) -> UserError:
    """An error of the user's code, with the file and the line: for other processes, whose tracebacks are not shown."""
    frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
    of_user = [frame for frame in frames if not frame.filename.startswith(("<frozen", *_NOT_OF_THE_USER))]
    if not of_user:
        return error
    return UserError(f"{error} ({of_user[-1].filename}, line {of_user[-1].lineno}, in {of_user[-1].name})")


def of_agent(name: str, error: UserError) -> UserError:
    """An error with the name of the agent that it is about, unless it begins with it."""
    text = str(error)
    return UserError(text if text.startswith((f"{name} ", f"{name}.")) else f"{name}: {text}")


def unknown(kind: str, name: str, allowed: Iterable[str]) -> UserError:
    """The error for an unknown name, with the closest known one."""
    names = list(allowed)
    folded = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    hint = f"did you mean '{folded[near[0]]}'?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}': {hint}")
