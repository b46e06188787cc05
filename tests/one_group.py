"""One group of lanes of the small deep run, lived in this process: stopped where a test wants it, and gone on with."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from crash import plan
from remanence.core.errors import Stopped
from remanence.engine.lanes import Driver
from remanence.runs.jobs import Group, lanes_of_run, make_driver
from remanence.runs.worker import GroupJob, live

EPISODES = 120
PLAN = plan(EPISODES)


@cache
def driver() -> Driver:
    """PT-DQN, looked at after every few rounds."""
    made = make_driver(PLAN, PLAN.contenders["PT-DQN"].config)
    made.rounds_per_chunk = 40
    return made


def work(path: Path, tensorboard: bool = False) -> GroupJob:
    """The two lanes of PT-DQN, with a checkpoint after every chunk."""
    (lanes,) = lanes_of_run(PLAN, [0, 1])
    return GroupJob(PLAN, Group(0, tuple(lanes), 2), "run", path / "groups" / "0000", None, 1e-9, tensorboard)


def after(chunks: int) -> Callable[[], int]:
    """Asks to stop after so many looks."""
    looks = itertools.count(1)
    return lambda: signal.SIGTERM if next(looks) >= chunks else 0


def go(one: GroupJob, asked_to_stop: Callable[[], int] = lambda: 0) -> list[str]:
    """Lives the work; gives the warnings."""
    warnings: list[str] = []
    live(one, driver(), asked_to_stop, lambda *_, **__: None, warnings.append)
    return warnings


@cache
def undisturbed() -> dict[str, pl.DataFrame]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        go(work(Path(folder)))
        return work(Path(folder)).directory.tables()


def assert_as_undisturbed(one: GroupJob) -> None:
    found = one.directory.tables()
    assert found.keys() == undisturbed().keys() == {"lanes", "curves"}
    for name, table in undisturbed().items():
        assert found[name].equals(table), name


def events(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def stopped(tmp_path: Path, chunks: int = 3) -> GroupJob:
    one = work(tmp_path)
    with pytest.raises(Stopped):
        go(one, after(chunks))
    return one


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0,
    reason="this machine does not let a test mount a small disk",
)
