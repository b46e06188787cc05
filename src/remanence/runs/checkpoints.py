"""Checkpoints of a group of lanes: the whole state, so that a resumed run gives the same bits.

<n>/state/arrays    the arrays, compressed one by one
<n>/manifest.json   names, shapes and dtypes of the arrays, size and checksum of each file, run and lanes

A checkpoint is written under a temporary name and renamed when complete, so a crash cannot damage the older ones. The last
two are kept. They hold arrays and JSON only, never code.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from remanence import __version__
from remanence.core.errors import UserError
from remanence.core.files import sync

MAX_CHECKPOINTS = 2
ARRAYS = "arrays"
VERSIONS = {"remanence": __version__, "jax": jax.__version__}


class Saved(NamedTuple):
    """Time and size of a checkpoint."""

    seconds: float
    bytes: int


class Checkpoints:
    """The checkpoints of one group of lanes. `belongs_to` identifies the run and the lanes."""

    def __init__(self, path: Path, belongs_to: Mapping[str, Any]) -> None:
        self.path = path
        self.belongs_to = dict(belongs_to)
        self._damaged: set[int] = set()
        self._last_size = 0

    def count(self) -> int:
        return len(self._numbers())

    def save(self, state: Mapping[str, np.ndarray]) -> Saved:
        started = time.monotonic()
        number = max(self._numbers(), default=0) + 1
        partial, place = self.path / f"{number}.partial", self.path / str(number)
        try:
            self._clear_away()
            wanted = self._last_size or sum(array.nbytes for array in state.values()) // 8
            if shutil.disk_usage(self.path.parent).free < wanted:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            arrays = _write_arrays(partial / "state", state)
            files = {str(file.relative_to(partial)): _checksum(file) for file in sorted(_files(partial))}
            manifest: dict[str, Any] = {
                "belongs_to": self.belongs_to,
                "versions": VERSIONS,
                "files": files,
                "arrays": arrays,
            }
            manifest["checksum"] = _manifest_checksum(manifest)
            (partial / "manifest.json").write_text(json.dumps(manifest))
            sync(partial / "manifest.json")
            os.rename(partial, place)
            sync(self.path)
            valid = sorted(set(self._numbers()) - self._damaged)
            for old in (*valid[:-MAX_CHECKPOINTS], *self._damaged & set(self._numbers())):
                os.rename(self.path / str(old), self.path / f"{old}.old")
            self._clear_away()
        except Exception:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        self._last_size = sum(size for size, _ in files.values())
        return Saved(time.monotonic() - started, self._last_size)

    def newest(self, warn: Callable[[str], None]) -> dict[str, np.ndarray] | None:
        """The newest undamaged state, or None if there are no checkpoints. Warns about each damaged one."""
        numbers = sorted(self._numbers(), reverse=True)
        for number in numbers:
            place = self.path / str(number)
            try:
                manifest = _checked_manifest(place)
                self._check(manifest)
                return _read_arrays(place / "state", manifest)
            except _DamageError as damage:
                self._damaged.add(number)
                warn(f"the checkpoint '{place}' is damaged ({damage}): trying the previous one")
        if numbers:
            raise UserError(f"all checkpoints in '{self.path}' are damaged: start over with --restart")
        return None

    def _check(self, manifest: dict[str, Any]) -> None:
        """Refuses a checkpoint of another version, run or group: resuming from it would change the results."""
        for name, ours in VERSIONS.items():
            theirs = manifest["versions"].get(name)
            if theirs != ours:
                raise UserError(
                    f"the checkpoint in '{self.path}' was written with {name} {theirs}, this is {ours}: "
                    f"install {name} {theirs}, or start over with --restart"
                )
        if manifest["belongs_to"] != self.belongs_to:
            raise UserError(
                f"the checkpoint in '{self.path}' belongs to another run or other lanes: start over with --restart"
            )

    def _numbers(self) -> list[int]:
        return [int(entry.name) for entry in self.path.glob("*") if entry.name.isdecimal()]

    def _clear_away(self) -> None:
        """Removes files that a crash left half written or half deleted."""
        for entry in [*self.path.glob("*.partial"), *self.path.glob("*.old")]:
            shutil.rmtree(entry)


class _DamageError(Exception):
    """A checkpoint was changed after it was written, or is incomplete."""


def damage(place: Path) -> str:
    """What is wrong with a checkpoint; empty if nothing is."""
    try:
        _checked_manifest(place)
    except _DamageError as wrong:
        return str(wrong)
    return ""


def _checked_manifest(place: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((place / "manifest.json").read_text())
        files = {name: tuple(expected) for name, expected in manifest["files"].items()}
        if manifest.pop("checksum") != _manifest_checksum(manifest):
            raise ValueError
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _DamageError("its manifest cannot be read") from error
    for name, expected in files.items():
        try:
            found = _checksum(place / name)
        except OSError as error:
            raise _DamageError(f"'{name}' is missing") from error
        if found != expected:
            raise _DamageError(f"'{name}' has changed")
    return manifest


def _manifest_checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _checksum(file: Path) -> tuple[int, int]:
    """Size and checksum."""
    size = checksum = 0
    with file.open("rb") as opened:
        while block := opened.read(1 << 22):
            size += len(block)
            checksum = zlib.crc32(block, checksum)
    return size, checksum


def _files(place: Path) -> list[Path]:
    return [entry for entry in place.rglob("*") if entry.is_file()]


def _write_arrays(place: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Writes all arrays, compressed one by one. Returns what it takes to read each: where it ends, its shape and dtype."""
    place.mkdir(parents=True, exist_ok=True)
    about = {}
    with (place / ARRAYS).open("wb") as file:
        for name, array in arrays.items():
            compressed = io.BytesIO()
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            pl.DataFrame({"bytes": content}).write_ipc(compressed, compression="zstd")
            file.write(compressed.getbuffer())
            about[name] = (file.tell(), array.shape, array.dtype.str)
    sync(place / ARRAYS)
    sync(place)
    return about


def _read_arrays(place: Path, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    if "arrays" not in manifest:
        return _read_by_orbax(place, manifest["zero_size"])
    found = {}
    with (place / ARRAYS).open("rb") as file:
        for name, (end, shape, dtype) in manifest["arrays"].items():
            content = pl.read_ipc(io.BytesIO(file.read(end - file.tell())))["bytes"]
            found[name] = content.to_numpy().view(dtype).reshape(shape)
    return found


def _read_by_orbax(place: Path, zero_size: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """A checkpoint from before November 2026. Orbax could not store arrays without elements: they are in the manifest."""
    try:
        import orbax.checkpoint as ocp
    except ImportError as missing:
        raise UserError(
            f"the checkpoint '{place.parent}' was written by orbax: `pip install orbax-checkpoint`, or start over with --restart"
        ) from missing
    checkpointer: Any = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    names = checkpointer.metadata(place.absolute()).item_metadata.tree
    as_numpy = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
    stored = checkpointer.restore(place.absolute(), restore_args=as_numpy)
    return stored | {name: np.zeros(shape, kind) for name, (shape, kind) in zero_size.items()}
