"""Reads arrays from an npz file of unknown origin: sizes are known from the headers before anything is loaded."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

# What reading a damaged or hostile file may raise.
DAMAGED = (
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError, NotImplementedError),
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, SyntaxError, tokenize.TokenError),
)


class TooLargeError(ValueError):
    """The arrays of a file would need more memory than allowed."""


def read_arrays(path: Path, max_bytes: int) -> dict[str, np.ndarray]:
    """All arrays of an npz file. Never unpickles; raises one of `DAMAGED`, before it loads anything that is too large."""
    with zipfile.ZipFile(path) as archive:
        total = 0
        for member in archive.infolist():
            with archive.open(member) as file:
                needed = _bytes_of(file)
            total += needed
            if total > max_bytes:
                raise TooLargeError(f"its arrays need {total / 2**30:,.1f} GB, more than {max_bytes / 2**30:,.1f} GB")
            if needed > member.file_size:
                raise ValueError(f"the array '{member.filename}' is incomplete")
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


def _bytes_of(file: IO[bytes]) -> int:
    """The size of an array, from its header."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds objects, not numbers")
    return math.prod(shape) * dtype.itemsize
