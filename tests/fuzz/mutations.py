"""Mutations that know what they mutate: JSON, bytes, archives of arrays."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.harness import Planted

SCRIPT = "</script><script>document.title='owned'</script>"
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 1.5, -0.0, float("nan"), float("inf"), 1e308, 10**30, -(2**63)),
    *("", "x", "0.5", "\x1b[31m", "\x00", "\ud800", "‮abc", "é☃", "a" * 3000, SCRIPT, "../../x", "nan"),
    *([], [None], ["x"], [[]], [1, 2], [float("nan")], {}, {"x": "y"}, {"x": -1}, [[[[[]]]]]),
)


def mutated_json(value: Any, rng: random.Random, values: tuple[Any, ...] = JSON_VALUES) -> Any:
    """The same JSON with one value replaced, deleted, doubled, or moved to another key."""
    root = {"root": copy.deepcopy(value)}
    inside: Any = root
    key: Any = "root"
    while isinstance(inside[key], dict | list) and inside[key] and (inside is root or rng.random() < 0.8):
        inside = inside[key]
        key = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    choice = rng.random()
    if choice < 0.15:
        del inside[key]
    elif choice < 0.25 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(inside[key]))
    elif choice < 0.3 and isinstance(inside, dict):
        inside[rng.choice(("x", SCRIPT, "\x1b[0m", ""))] = inside.pop(key)
    elif choice < 0.4 and isinstance(inside[key], int | float):
        inside[key] = rng.choice((-inside[key], inside[key] * 1e6, str(inside[key]), [inside[key]]))
    else:
        inside[key] = rng.choice(values)
    return root.get("root")


def mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    """The same bytes with a flipped bit, a hole, a cut, a repetition, or noise."""
    mutant, at = bytearray(content), rng.randrange(max(len(content), 1))
    end = at + rng.randrange(1, 64)
    match rng.randrange(6):
        case 0:
            return flipped(content, rng.randrange(8 * len(content)))
        case 1:
            return content[:at]
        case 2:
            del mutant[at:end]
        case 3:
            mutant[at:at] = mutant[at:end]
        case 4:
            mutant[at:end] = bytes(len(mutant[at:end]))
        case _:
            mutant[at:end] = rng.randbytes(len(mutant[at:end]))
    return bytes(mutant)


def flipped(content: bytes, bit: int) -> bytes:
    mutant = bytearray(content)
    mutant[bit // 8] ^= 1 << bit % 8
    return bytes(mutant)


def mutated_array(array: np.ndarray, rng: random.Random) -> Any:
    """An array of another type, shape or content."""
    numbers = array.dtype.kind in "fiub"
    match rng.randrange(10):
        case 0:
            return array.astype(rng.choice([np.float64, np.float16, np.int64, np.uint8])) if numbers else np.zeros(1)
        case 1:
            return array.astype(np.complex128) if numbers else np.array(b"\xff\xfe")
        case 2:
            return array.reshape(-1)
        case 3:
            return array[None]
        case 4:
            return array[..., :0] if array.ndim else np.zeros(0)
        case 5:
            return np.array("x" * 50)
        case 6:
            return np.zeros(3, [("a", "f4"), ("b", "i8")])
        case _ if numbers and array.size:
            spoilt = array.astype(array.dtype if array.dtype.kind == "f" else np.float64)
            spoilt.flat[rng.randrange(spoilt.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1.0])
            return spoilt
        case _:
            return np.array(json.dumps(rng.choice(JSON_VALUES)))


def mutated_npz(arrays: dict[str, Any], rng: random.Random, canary: Path) -> bytes:
    """The same archive with one member changed, lost, added, pickled, or with a header that promises too much."""
    arrays, members = dict(arrays), dict[str, bytes]()
    name = rng.choice(list(arrays))
    match rng.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[rng.choice(("more", "../../more", "about.npy", "weights", "é"))] = np.zeros(2)
        case 2 | 3:
            del arrays[name]
            members[f"{name}.npy"] = pickled_array(canary)
        case 4:
            shape = rng.choice([(2**20, 2**20), (10**18,), (-1, 2), (2**62, 4)])
            del arrays[name]
            members[f"{name}.npy"] = _npy_header(shape) + b"\0" * 64
        case 5:
            members[f"{name}.npy"] = mutated_bytes(_npy(np.asarray(arrays.pop(name))), rng)
        case _:
            arrays[name] = mutated_array(np.asarray(arrays[name]), rng)
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for key, array in arrays.items():
            archive.writestr(f"{key}.npy", _npy(np.asarray(array)))
        for key, content in members.items():
            archive.writestr(key, content)
    return kept.getvalue()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def pickled_array(canary: Path) -> bytes:
    """An array of objects: loaded with pickles allowed, it makes the canary."""
    planted = np.empty(1, object)
    planted[0] = Planted(canary)
    file = io.BytesIO()
    np.lib.format.write_array(file, planted, allow_pickle=True)
    return file.getvalue()


def _npy_header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()
