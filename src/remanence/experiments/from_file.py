"""Loads an experiment from a user's file, given as `mine.py` or `mine.py:NAME`.

The file is an ordinary Python program that runs when it is loaded. It defines an `Experiment` with the name `EXPERIMENT`, or the
name after the colon. See `examples/own_experiment.py`.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import cloudpickle

from remanence.core.errors import UserError
from remanence.experiments.base import Experiment

DEFAULT = "EXPERIMENT"


def is_file(name: str) -> bool:
    return _parts(name)[0].endswith(".py")


def load_file(name: str) -> Experiment:
    """The experiment that `mine.py` or `mine.py:NAME` names."""
    file, attribute = _parts(name)
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file '{path}' to read an experiment from")
    found = getattr(_load(path), attribute, None)
    if not isinstance(found, Experiment):
        raise UserError(f"'{path}' has no experiment named {attribute}: give another as {path}:NAME")
    return found


def _parts(name: str) -> tuple[str, str]:
    file, colon, attribute = name.rpartition(":")
    return (file, attribute) if colon and file.endswith(".py") else (name, DEFAULT)


def _load(path: Path) -> ModuleType:
    """The file as a module. Other processes cannot import it by name, so its code is pickled by value."""
    spec = importlib.util.spec_from_file_location(f"_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"cannot load {_place(path, error)}: {type(error).__name__}: {_message(error)}") from error
    cloudpickle.register_pickle_by_value(module)
    return module


def _place(path: Path, error: BaseException) -> str:
    """Where a user's file failed: the line that cannot be parsed, or the last line of the file that ran."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"'{error.filename or path}', line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"'{path}', line {lines[-1]}" if lines else f"'{path}'"


def _message(error: BaseException) -> str:
    return str(error.msg if isinstance(error, SyntaxError) else error)
