"""The command `remanence`: reads the arguments, runs a command and prints its errors.

Commands import what they need when they run, so that `remanence --help` is fast.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand

from remanence.cli.bench import BenchCommand
from remanence.cli.files import Check, Clean
from remanence.cli.listing import List
from remanence.cli.optional import REGISTRY
from remanence.cli.report import Report
from remanence.cli.run import Run
from remanence.cli.show import Show
from remanence.cli.sweep import Sweep
from remanence.cli.theory import Theory
from remanence.core.errors import Stopped, UserError, of_disk, of_memory, printable

Command = (
    Annotated[List, subcommand("list")]
    | Annotated[Run, subcommand("run")]
    | Annotated[Sweep, subcommand("sweep")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Clean, subcommand("clean")]
    | Annotated[Theory, subcommand("theory")]
    | Annotated[BenchCommand, subcommand("bench")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. A `UserError` is printed as one line on standard error, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or file that lacks a character shows "?" instead
            stream.reconfigure(errors="replace")
    try:
        _check_arguments(sys.argv[1:] if arguments is None else arguments)
        command = tyro.cli(
            Command,  # type: ignore[arg-type]
            prog="remanence",
            description="Continual reinforcement learning with permanent and transient value functions.",
            args=arguments,
            config=(FlagCreatePairsOff,),
            registry=REGISTRY,
        )
        command.execute()
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
    """Refuses control characters: the parser prints what it does not understand, and a file's name could steer the terminal."""
    for argument in arguments:
        if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in argument):
            raise UserError(f"an argument has a control character, which no name or option needs: '{argument}'")


def _tell(message: object, code: int = 2) -> int:
    """Prints a line on standard error, if it still exists; gives the exit code."""
    with contextlib.suppress(OSError):
        print(f"remanence: {printable(str(message))}", file=sys.stderr)
    return code
