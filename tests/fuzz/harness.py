"""What all fuzzers share: one try, what came of it, and the count."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from remanence.cli import main
from remanence.core.errors import UserError

SAMPLES = Path(__file__).parents[1] / "data" / "runs"
SECONDS = 600  # after which a try counts as hanging
REFUSED, ACCEPTED = "refused", "accepted"
TRACEBACK, SILENT, CODE = "traceback", "silent change", "code"
DEFECTS = (TRACEBACK, SILENT, CODE)


class Hangs(BaseException):
    """A try that takes too long."""


@dataclass
class Answer:
    """What came of one try."""

    kind: str
    said: str = ""
    """standard output and standard error, or the sentence of a `UserError`"""
    value: Any = None


@dataclass
class Tally:
    """What came of all tries of one fuzzer."""

    name: str
    canary: Path
    """a file that only planted code makes"""
    counts: Counter[str] = field(default_factory=Counter)
    tries: int = 0
    defects: list[str] = field(default_factory=list)

    def add(self, label: object, answer: Answer, silent: str = "", code: str = "") -> None:
        """Counts a try. `silent`: what changed without a word; `code`: what would run in a browser or steer a terminal."""
        self.tries += 1
        self.counts[answer.kind] += 1
        if answer.kind == TRACEBACK:
            self._blame(TRACEBACK, label, answer.said)
        if silent:
            self.counts[SILENT] += 1
            self._blame(SILENT, label, silent)
        if self.canary.exists():
            self.canary.unlink()
            code = code or "planted code ran"
        if code:
            self.counts[CODE] += 1
            self._blame(CODE, label, code)

    def _blame(self, kind: str, label: object, why: str) -> None:
        self.defects.append(f"{self.name}, {kind}: {label!r:.600}\n{why[-2000:]}")


def command(*arguments: str | Path) -> Answer:
    """A command line in this process. A mistake of a user is a sentence on standard error and exit code 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        answer = attempt(lambda: _exit_code([str(one) for one in arguments]))
    if answer.kind == TRACEBACK:
        return answer
    said = out.getvalue() + err.getvalue()
    if answer.value == 0:
        return Answer(ACCEPTED, said, out.getvalue())
    if answer.value == 2 and err.getvalue().strip() and "Traceback" not in said:
        return Answer(REFUSED, said)
    return Answer(TRACEBACK, f"exit code {answer.value!r} with {said!r}")


def _exit_code(arguments: list[str]) -> Any:
    try:
        return main(arguments)
    except SystemExit as ended:  # how the parser ends
        return ended.code or 0


def attempt(work: Callable[[], Any], seconds: int = SECONDS) -> Answer:
    """Calls a function of the library: it returns, or raises a `UserError` with one sentence. The value `Hangs`: not in time."""
    with _in_time(seconds), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = work()
        except UserError as error:
            said = str(error)
            return Answer(REFUSED if said.strip() and "\n" not in said.strip() else TRACEBACK, said)
        except KeyboardInterrupt:
            raise
        except Hangs as error:
            return Answer(TRACEBACK, str(error), Hangs)
        except BaseException:  # a panic of Polars and the end of our patience are no `Exception`
            return Answer(TRACEBACK, traceback.format_exc())
    return Answer(ACCEPTED, "\n".join(str(one.message) for one in told), value)


@contextlib.contextmanager
def _in_time(seconds: int) -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise Hangs(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def inside(place: Path) -> Iterator[None]:
    """Works in this directory: a mutated command may write to where it is."""
    before = Path.cwd()
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory with its content; locks only name their last holder."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def copied(sample: str, to: Path) -> Path:
    """A kept run, fresh."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(SAMPLES / sample, to))


class Planted:
    """Unpickled, it makes the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.canary), "w")


Fuzzer = Callable[[int, random.Random, Path], Tally]
"""(tries, rng, an empty directory) -> what came of them"""
