"""Kills a small run at each of its file-system events, resumes it, and compares the tables with those of an undisturbed run.

An event is what a process does to files of the run through Python: opens one for writing, renames, removes, makes or removes a
directory, syncs. The process kills itself with SIGKILL just before the n-th event, so that nothing is closed or cleaned up.
`make crash-test` does it for every n; `test_survival.py` for some.

Victims are forked from one process that has imported everything but not started jax: what costs seconds is done once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from crash import MAZE, SWAP, everything, same
from remanence.agents.configs import PTQ
from remanence.core.types import Episodes
from remanence.results import Results, load
from remanence.results.store import find_runs
from remanence.runs import executors, jobs
from remanence.runs.execution import Execution
from remanence.runs.plan import Contender, Plan
from remanence.runs.progress import messages
from remanence.runs.run import execute
from remanence.streams import Stream, cyclic

NAME = "small-table"
EPISODES, SEEDS = 40, 2
FEWEST = 70  # events of a run
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PLACES = {"os.rename": (0, 2), "os.remove": (0, 1), "os.mkdir": (0, 2), "os.rmdir": (0, 1), "os.truncate": (0, None)}
"""audited events: which arguments are the path, and the directory that it starts from"""
PLAN = Plan(
    world=MAZE,
    stream=Stream(SWAP, cyclic(2, 4), Episodes(EPISODES // 4), boundaries_known=False),
    contenders={
        "PT-Q": Contender(PTQ(permanent_lr=0.1, transient_lr=0.3, decay=0.5, consolidate_every=Episodes(7))),
    },
    probe=everything,
    round_steps=4,
)


_made: dict[Any, Any] = {}


@contextlib.contextmanager
def small_steps() -> Iterator[None]:
    """Looks at a group after every few rounds, so that there is something to save; what was compiled is kept."""

    def make_driver(plan: Plan, config: Any, learner: str, lanes: int | None = None) -> Any:
        if config not in _made:
            _made[config] = jobs.make_driver(plan, config, learner, lanes)
            _made[config].rounds_per_chunk = 400
        return _made[config]

    executors.make_driver = make_driver
    try:
        yield
    finally:
        executors.make_driver = jobs.make_driver


def run(out: Path) -> Results:
    console = messages()
    console.quiet = True
    with small_steps():
        return execute(NAME, "test", PLAN, SEEDS, out, console, Execution(checkpoint_every=1e-9, lanes_per_group=1))


def die_at(number: int, out: Path, report: Callable[[int], object]) -> None:
    """From now on this process dies just before its n-th event below a directory; `report` is told of each event."""
    counter, lock = itertools.count(1), threading.Lock()

    def happen() -> None:
        with lock:
            count = next(counter)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            report(count)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, start, writes = given[0], None, bool((given[2] or 0) & WRITES)
        elif event in PLACES:
            place, base = PLACES[event]
            path, start, writes = given[place], None if base is None else given[base], True
        else:
            return
        if writes and isinstance(path, str | Path) and _below(path, start, out):
            happen()

    sync = os.fsync
    os.fsync = lambda descriptor: (happen(), sync(descriptor))[1]
    sys.addaudithook(hook)


def _below(path: str | Path, start: int | None, out: Path) -> bool:
    """Whether a path, relative to an open directory if it is one, is below another."""
    base = os.readlink(f"/proc/self/fd/{start}") if start is not None and start >= 0 else os.getcwd()
    return os.path.abspath(os.path.join(base, path)).startswith(str(out))


def serve() -> None:
    """Reads lines "n DIRECTORY"; for each, forks a run that dies at its n-th event; answers how many events it came to, and how it
    ended."""
    for line in sys.stdin:
        number, out = line.rstrip("\n").split(" ", 1)
        told, tells = os.pipe()
        child = os.fork()
        if not child:
            os.close(told)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = 1
            try:
                die_at(int(number), Path(out), lambda _, tells=tells: os.write(tells, b"."))
                run(Path(out))
                code = 0
            finally:
                os._exit(code)
        os.close(tells)
        with os.fdopen(told, "rb") as answers:
            events = len(answers.read())
        _, status = os.waitpid(child, 0)
        print(events, os.waitstatus_to_exitcode(status), flush=True)


class Victims:
    """A process that forks victims."""

    def __init__(self) -> None:
        environment = {**os.environ, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        self.server = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def kill_at(self, number: int, out: Path) -> tuple[int, bool]:
        """Runs until the n-th event: how many events there were before, and whether it was killed. Raises if it failed."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(f"{number} {out}\n")
        self.server.stdin.flush()
        events, code = map(int, self.server.stdout.readline().split())
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the run ended with {code} after {events} events")
        return events, code == -signal.SIGKILL

    def close(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


def torment(place: Path, choose: Callable[[int], Iterable[int]]) -> tuple[int, int, int]:
    """Kills a run at the chosen ones of all its events, resumes each: how many events, kills, and runs that end otherwise."""
    calm = run(place / "calm")
    victims, kills, different = Victims(), 0, 0
    try:
        total, _ = victims.kill_at(0, place / "counted")  # it is not killed
        different += not same(calm, load(find_runs(place / "counted", NAME)[0]))
        for number in choose(total):
            out = place / "rough"
            _, killed = victims.kill_at(number, out)
            kills += killed
            resumed = run(out)
            left = [path.name for path in resumed.path.rglob("*.tmp")]
            different += not same(calm, resumed) or bool(left) or (resumed.path / "groups").exists()
            shutil.rmtree(out)
    finally:
        victims.close()
    return total, kills, different


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve()
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        total, kills, different = torment(Path(folder), lambda total: range(1, total + 1))
    seconds = time.monotonic() - began
    print(
        f"{total} file-system events, {kills} kills: {kills - different} bit-identical, {different} not; {seconds:.0f} s"
    )
    sys.exit(1 if different or kills < FEWEST else 0)


if __name__ == "__main__":
    main()
