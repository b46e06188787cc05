"""The command `remanence`: reads the arguments, runs a command and prints its errors.

Commands import what they need when they run, so that `remanence --help` is fast.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from remanence import __version__
from remanence.cli.bench import BenchCommand
from remanence.cli.files import Check, Clean
from remanence.cli.listing import List
from remanence.cli.parser import parsed
from remanence.cli.report import Report
from remanence.cli.run import Run
from remanence.cli.serve import Serve
from remanence.cli.show import Show
from remanence.cli.sweep import Sweep
from remanence.cli.theory import Theory
from remanence.core.errors import Stopped, UserError, of_disk, of_memory, printable

COMMANDS: dict[str, type] = {
    "list": List,
    "run": Run,
    "sweep": Sweep,
    "show": Show,
    "report": Report,
    "serve": Serve,
    "check": Check,
    "clean": Clean,
    "theory": Theory,
    "bench": BenchCommand,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. A `UserError` is printed as one line on standard error, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or file that lacks a character shows "?" instead
            stream.reconfigure(errors="replace")
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        _check_arguments(words)
        if words == ["--version"]:
            print(f"remanence {__version__}")
            return 0
        parsed(words, COMMANDS).execute()
    except UserError as error:
        return _tell(error)
    except Stopped as stopped:
        return _tell(stopped, 128 + stopped.signal)
    except OSError as error:  # a full disk, a vanished directory
        message = of_disk(error, Path(error.filename or "."))
        return _tell(message or of_memory(error) or error.strerror or error)
    except KeyboardInterrupt:
        return _tell("stopped; finished work is saved, the same command resumes", 130)
    except Exception as error:
        message = of_memory(error)
        if message is None:
            raise
        return _tell(message)
    return 0


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuses what no file's name can have, and control characters: the parser prints what it does not understand, and a name could
    steer the terminal."""
    for argument in arguments:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError:
            raise UserError(f"an argument has a character that no name or option can have: '{argument}'") from None
        if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in argument):
            raise UserError(f"an argument has a control character, which no name or option needs: '{argument}'")


def _tell(message: object, code: int = 2) -> int:
    """Prints a line on standard error, if it still exists; gives the exit code."""
    with contextlib.suppress(OSError):
        print(f"remanence: {printable(str(message))}", file=sys.stderr)
    return code
