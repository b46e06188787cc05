"""Mutated policies: refused with a sentence, or exactly what the file says, and they act."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np

from fuzz.harness import ACCEPTED, SAMPLES, Answer, Tally, attempt
from fuzz.mutations import JSON_VALUES, mutated_bytes, mutated_json, mutated_npz
from remanence import PTQ, Policy, load_policy
from remanence.core.archives import read_arrays
from remanence.live_env import live
from scripted import Corridor

ABOUT = "about"


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("policies", place / "canary")
    table = live(PTQ(consolidate_every=10, decay=0.5), Corridor, 30, progress=False).policy("PT-Q")
    originals = [SAMPLES / "format2/live/policies/0.npz", table.save(place / "table.npz")]
    path = place / "policy.npz"
    for number in range(tries):
        original = originals[number % len(originals)]
        content, is_damage = _mutant(original, number, rng, tally.canary)
        path.write_bytes(content)
        answer = attempt(lambda: _used(path, place / "again.npz"))
        silent = ""
        if answer.kind == ACCEPTED:
            silent = _difference(answer.value, original if is_damage else path)
        tally.add((number, original.name, content[:300]), Answer(answer.kind, answer.said), silent)
    return tally


def _mutant(original: Path, number: int, rng: random.Random, canary: Path) -> tuple[bytes, bool]:
    """The content of a file, and whether it is damage, which must be noticed, or another policy, which may be fine."""
    if number % 3 == 0:
        return mutated_bytes(original.read_bytes(), rng), True
    arrays = read_arrays(original, 2**30)
    if number % 3 == 1:
        return mutated_npz(arrays, rng, canary), False
    about = mutated_json(
        json.loads(str(arrays.pop(ABOUT))), rng, (*JSON_VALUES, 2, 3, 10**6, 2**31, "DQN", "int32", 0.9)
    )
    saved = io.BytesIO()
    np.savez(saved, allow_pickle=False, **{ABOUT: np.array(json.dumps(about)), **arrays})
    return saved.getvalue(), False


def _used(path: Path, to: Path) -> Path:
    """Loads a policy, acts with it, and saves it again."""
    policy: Policy = load_policy(path)
    spaces = policy.spaces
    frames = getattr(policy.config, "frames", 1)
    shape = spaces.env_shape if frames == 1 else (frames, *spaces.env_shape)
    obs = np.full(shape, spaces.first_state)
    task = 0 if policy.agent.task_aware else None
    action = policy.act(obs, task=task)
    assert spaces.first_action <= action < spaces.first_action + spaces.actions
    return policy.save(to)


def _difference(again: Path, before: Path) -> str:
    """What a policy that was loaded and saved has that its file has not."""
    one, other = read_arrays(again, 2**30), read_arrays(before, 2**30)
    about, said = (json.loads(str(arrays.pop(ABOUT))) for arrays in (one, other))
    for told in (about, said):
        told.pop("remanence", None)
    about["config"] = {key: value for key, value in about["config"].items() if key in said["config"]}  # others are new
    if wrong := {key: (said.get(key), about.get(key)) for key in {*about, *said} if said.get(key) != about.get(key)}:
        return f"in the file, and as it was read: {wrong}"
    same = one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    return "" if same else "other weights"
