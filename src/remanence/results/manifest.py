"""The manifest of a directory: size and SHA-256 of each of its files, so that a changed or lost file is noticed when it is read.

manifest.json   {"format": 1, "finished": false, "files": {NAME: [CHECKSUM, …]}, "checksum": of all that}

A file is announced before it is replaced: its entry then lists the old and the new checksum (or "absent"), and both are right. So
a crash at any time leaves files that fit the manifest. When a run is finished, every file is listed, with one checksum.

Checksums find accidents, not attacks: whoever changes a file can change the manifest too.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from remanence.core.errors import UserError
from remanence.core.files import replacing

MANIFEST = "manifest.json"
FORMAT = 1
ABSENT = "absent"
TRIES, SECONDS_BETWEEN_TRIES = 5, 0.05  # another process may replace a file between our looks at it and at the manifest


class DamageError(UserError):
    """A file is not as it was written."""

    def __init__(self, directory: Path, what: str) -> None:
        super().__init__(
            f"the run in '{directory}' is damaged ({what}): start over with --restart, or choose another --out"
        )
        self.what = what


def read_checked(directory: Path, name: str) -> bytes | None:
    """The content of a file, as it was written; None if there is none, and none is expected. Raises a `DamageError`."""
    for tries_left in reversed(range(TRIES)):
        try:
            content = _content(directory, name)
        except OSError as error:
            raise DamageError(directory, f"{name}: {error.strerror}") from error
        problem = _problem(directory, name, content)
        if not problem:
            return content
        if tries_left:
            time.sleep(SECONDS_BETWEEN_TRIES)
    raise DamageError(directory, problem)


def _content(directory: Path, name: str) -> bytes | None:
    path = directory / name
    if path.exists() and not path.is_file():  # reading a pipe would wait forever
        raise DamageError(directory, f"{name} is not a file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def announce(directory: Path, name: str, partial: Path, recorded: Collection[str]) -> None:
    """Records that a file is about to be replaced by another one. Only files in `recorded` stay listed: others may change now."""
    files, _ = _read(directory) or ({}, False)
    files = {one: entry for one, entry in files.items() if one in recorded}
    old = directory / name
    current = _checksum_of(old) if old.exists() else ABSENT
    if current not in files.get(name, [current]):
        raise DamageError(directory, _changed(name, current))
    _write(directory, {**files, name: list(dict.fromkeys([current, _checksum_of(partial)]))}, finished=False)


def seal(directory: Path, names: list[str]) -> None:
    """Checks every file and records these, which are finished, with one checksum each."""
    found = _read(directory)
    if found is None or found[1]:  # written before there were manifests, or done already
        return
    files = {}
    for name in sorted({*found[0], *names}):
        content = read_checked(directory, name)
        if content is not None:
            files[name] = [checksum(content)]
    _write(directory, files, finished=True)


def listed_files(directory: Path) -> list[str] | None:
    """Names of the files in the manifest; None if there is no manifest."""
    found = _read(directory)
    return None if found is None else list(found[0])


def checksum(content: bytes) -> str:
    return f"{len(content)}:{hashlib.sha256(content).hexdigest()}"


def _checksum_of(file: Path) -> str:
    with file.open("rb") as opened:
        return f"{file.stat().st_size}:{hashlib.file_digest(opened, 'sha256').hexdigest()}"


def _problem(directory: Path, name: str, content: bytes | None) -> str:
    """What is wrong with a file; empty if nothing is, or if it is not listed."""
    files, _ = _read(directory) or ({}, False)
    current = ABSENT if content is None else checksum(content)
    return "" if current in files.get(name, [current]) else _changed(name, current)


def _changed(name: str, current: str) -> str:
    return f"{name} is missing" if current == ABSENT else f"{name} has changed since it was written"


def _read(directory: Path) -> tuple[dict[str, list[str]], bool] | None:
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest.pop("checksum") != _own_checksum(manifest):
            raise ValueError("checksum")
        version = manifest["format"]
        found = manifest["files"], manifest["finished"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(directory, f"{MANIFEST} has changed since it was written") from error
    if version != FORMAT:
        raise UserError(
            f"'{directory / MANIFEST}' has format {version}, this remanence reads {FORMAT}: install a newer one"
        )
    return found


def _write(directory: Path, files: dict[str, list[str]], finished: bool) -> None:
    manifest: dict[str, Any] = {"format": FORMAT, "finished": finished, "files": files}
    manifest["checksum"] = _own_checksum(manifest)
    with replacing(directory / MANIFEST, lasting=True) as partial:
        partial.write_text(json.dumps(manifest, indent=2))


def _own_checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
