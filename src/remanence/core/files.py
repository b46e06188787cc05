"""Files that are replaced as a whole: a reader never sees a partial one, even after a crash."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from remanence.core.errors import UserError

# NAME.PID.tmp, left by a process that was killed while it wrote NAME
_LEFTOVER = re.compile(r".+\.\d+\.tmp")


@contextlib.contextmanager
def replacing(path: Path, lasting: bool = False) -> Iterator[Path]:
    """Yields where to write; renamed to `path` at the end. `lasting`: synced to disk, so that it survives a power cut."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        partial.unlink(missing_ok=True)  # a link that was planted here would lead the write elsewhere
        yield partial
        if lasting:
            sync(partial)
        os.replace(partial, path)
        if lasting:
            sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def open_to_append(path: Path) -> TextIO:
    """Opens a file, or creates it, but follows no symbolic link: one that a stranger planted would lead to another file."""
    try:
        return open(path, "a+", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"'{path}' is a symbolic link, which a run never makes: remove it") from error
        raise


def remove_leftovers(directory: Path, min_age: float = 0.0) -> None:
    """Removes files that killed processes left half written, if they are at least `min_age` seconds old."""
    for path in leftovers(directory):
        with contextlib.suppress(OSError):  # another process is faster, or the disk is read-only
            if time.time() - path.stat().st_mtime >= min_age:
                path.unlink()


def leftovers(directory: Path) -> list[Path]:
    found = directory.glob("*.tmp")
    return sorted(path for path in found if _LEFTOVER.fullmatch(path.name) and path.is_file() and not path.is_symlink())


def sync(path: Path) -> None:
    """Flushes a file or directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
