"""Compiled kernels and where they are cached.

Numba's own cache notices changes of a function's file, but not of the files whose functions it calls. So kernels are cached in a
directory named by a hash of all of them, in the user's cache directory, readable by the user only.
"""

# The types of Numba lack some of its options.
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba

from remanence.core import backend

_ROOMS = "core/native", "agents/native", "worlds/jellybean"  # where kernels are
# Products and sums may fuse; nothing is reordered.
FAST = {"contract", "nsz", "arcp"}
_called: set[str] = set()


@cache
def directory() -> Path | None:
    """The cache of the kernels; None if it cannot be made."""
    sources = hashlib.sha256(numba.__version__.encode())
    package = Path(__file__).parents[2]
    for source in sorted(
        [package / "core" / "hostcall.py", *(file for room in _ROOMS for file in (package / room).glob("*.py"))]
    ):
        sources.update(source.read_bytes())
    return backend.cache_directory("kernels", sources.hexdigest()[:16])


@contextlib.contextmanager
def _cached() -> Iterator[bool]:
    """Within it, decorated functions are cached in our directory; gives whether they can be."""
    path, before = directory(), numba.config.CACHE_DIR
    if path is None:
        yield False
        return
    numba.config.CACHE_DIR = str(path)
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = before


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Processes that start together do not all compile: the others wait, then load what the first one compiled."""
    path = directory()
    if path is None:
        yield
        return
    with (path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def first_one_at_a_time(what: str) -> Iterator[None]:
    """The same for functions that compile when they are first called: around their first calls in this process, named by `what`."""
    if what in _called:
        yield
        return
    with one_at_a_time():
        yield
    _called.add(what)


def compiled(function: Callable) -> Any:
    """A function whose arithmetic is exactly as written, for worlds."""
    with _cached() as can_cache:
        return numba.njit(cache=can_cache, nogil=True, error_model="numpy")(function)


def compiled_python(function: Callable) -> Any:
    """The same with Python's errors, such as that of a division by zero."""
    with _cached() as can_cache:
        return numba.njit(cache=can_cache, nogil=True)(function)


def kernel(function: Callable) -> Any:
    """A function for other kernels."""
    with _cached() as can_cache:
        return numba.njit(cache=can_cache, nogil=True, fastmath=FAST, error_model="numpy")(function)


def inlined(function: Callable) -> Any:
    """A part of the kernels that call it, not compiled by itself: for one-liners, and for what is called from one place."""
    return numba.njit(inline="always")(function)


def handler(function: Callable) -> Any:
    """A function that XLA calls with the address of a call frame; compiled at once."""
    with _cached() as can_cache:
        return numba.cfunc(numba.types.int64(numba.types.int64), cache=can_cache, nopython=True)(function)
