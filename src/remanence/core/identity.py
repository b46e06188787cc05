"""What tells one piece of a user's code from another: functions, classes and objects by what they do and hold.

It is part of the description of a run, so changed code is another run. A function is its code, what it closes over, its defaults,
and what it reads of its module. Code of libraries is not followed: a library's function is its name and what it closes over, a
library's object its class.
Nothing of it is executed when a run is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import enum
import hashlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePath
from typing import Any

import jax
import numpy as np

from remanence.core.errors import printable

MAX_DEPTH = 32  # of values that hold values
MAX_SHOWN = 100  # values of a list in a description; of longer ones a digest
_LIBRARIES = {"site-packages", "dist-packages"}
_PLAIN = (bool, int, float, str, tuple, type(None))


def of_function(function: Any) -> Any:
    """A function, or anything else that can be called; not by where it stands in its file."""
    return _Reader().value(function)


def of_value(value: Any) -> Any:
    """A value that a function holds, or that a parameter of the environment takes."""
    return _Reader().value(value)


def of_code(function: types.FunctionType) -> str:
    """The code of a function and what it reads of its module; without what it closes over and its defaults."""
    return _Reader().code(function)


def of_env(env: Any) -> dict[str, Any]:
    """An environment by its classes, from the outside, and the arguments it was registered with."""
    return _Reader().env(env)


def own_code(value: Any) -> list[Any]:
    """The user's own classes and functions in a value, each with its name: methods are not part of an object, but decide what it
    does."""
    seen: dict[int, Any] = {}
    codes: dict[int, Any] = {}

    def look(one: Any) -> None:
        if id(one) in seen:
            return
        seen[id(one)] = one
        code = one if isinstance(one, type | types.FunctionType) else type(one)
        if is_own(code):
            codes[id(code)] = code
        for part in _parts(one):
            look(part)

    look(value)
    return [[code.__qualname__, _Reader().value(code)] for code in codes.values()]


def is_own(code: Any) -> bool:
    """Whether a function, class or module is the user's: not of a library, of Python or of remanence. A class is so, too, if it
    derives from one."""
    if isinstance(code, type):
        return any(_is_own_module(base.__module__) for base in code.__mro__)
    return _is_own_module(code.__name__ if isinstance(code, types.ModuleType) else getattr(code, "__module__", None))


@lru_cache(maxsize=1024)
def _is_own_module(name: str | None) -> bool:
    root = (name or "").partition(".")[0]
    if root == "__main__":  # also in a notebook, whose __main__ is a library's
        return True
    if not root or root == "remanence" or root in sys.stdlib_module_names:
        return False
    module = sys.modules.get(root)
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return not any(_LIBRARIES & set(Path(place).parts) for place in places)


def _parts(value: Any) -> Iterable[Any]:
    """What a configuration has in it."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, tuple | list | set | frozenset):
        return value
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, types.FunctionType):
        return [_content(cell) for cell in value.__closure__ or ()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return vars(value).values() if is_own(type(value)) and hasattr(value, "__dict__") else ()


class _Reader:
    """Reads one value. Functions, classes and modules that were read already are told by their names, and so are values inside of
    themselves: everything has an end."""

    def __init__(self) -> None:
        self.seen: set[int] = set()  # functions, classes and modules
        self.path: list[int] = []  # of values that hold each other

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return printable(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray | jax.Array):
            array = np.asarray(value)
            return _digest([array.dtype.str, array.shape, array.tobytes()])
        if isinstance(value, bytes | bytearray):
            return _digest([bytes(value)])
        if isinstance(value, enum.Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if isinstance(value, PurePath):
            return printable(str(value))
        if id(value) in self.seen or id(value) in self.path or len(self.path) == MAX_DEPTH:
            return f"again {_name(value)}"
        if isinstance(value, types.FunctionType | types.ModuleType | type):
            self.seen.add(id(value))
        self.path.append(id(value))
        try:
            found = self._read(value)
        finally:
            self.path.pop()
        return _digest([found]) if isinstance(found, list | dict) and len(found) > MAX_SHOWN else found

    def _read(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {printable(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, tuple | list):
            return [self.value(one) for one in value]
        if isinstance(value, set | frozenset):
            return sorted((self.value(one) for one in value), key=repr)
        if isinstance(value, types.ModuleType):
            return self.module(value)
        if isinstance(value, type):
            return self.kind(value)
        if isinstance(value, partial):
            return [self.value(value.func), self.value(value.args), self.value(value.keywords)]
        if isinstance(value, types.MethodType):
            return [self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if hasattr(value, "__wrapped__"):  # such as a function that jax compiles
            return [type(value).__qualname__, self.value(value.__wrapped__)]
        if hasattr(value, "observation_space"):
            return self.env(value)
        return self.object(value)

    def function(self, function: types.FunctionType) -> Any:
        name = self.code(function) if is_own(function) else _name(function)
        held = [*(_content(cell) for cell in function.__closure__ or ()), *(function.__defaults__ or ())]
        held += [*(function.__kwdefaults__ or {}).values()]
        return [name, [self.value(one) for one in held]] if held else name

    def code(self, function: types.FunctionType) -> str:
        """A digest of the code, and of what it reads of its module, which may be large, or not meant for others to read."""
        return _digest([*_code(function.__code__), *self.globals(function)])

    def globals(self, function: types.FunctionType) -> list[Any]:
        """The names that a function of the user's reads of its module, with what they stand for."""
        if not is_own(function):
            return []
        names = sorted(set(_globals(function.__code__)) & function.__globals__.keys())
        found = [(name, function.__globals__[name]) for name in names]
        return [[name, self.value(one)] for name, one in found if not isinstance(one, types.ModuleType) or is_own(one)]

    def kind(self, kind: type) -> str:
        """A class by its name, its source and that of the classes it derives from, where it can be read, and what methods of the
        user's own classes read of their modules."""
        parts: list[Any] = []
        for base in kind.__mro__:
            if base.__module__.partition(".")[0] in ("builtins", "typing", "abc"):
                continue
            methods = sorted(_methods(base), key=lambda one: one.__qualname__) if is_own(base) else []
            try:
                parts.append(inspect.getsource(base))
            except (OSError, TypeError):  # typed in at a prompt
                parts += [list(_code(method.__code__)) for method in methods]
                parts.append(
                    {name: one for name, one in vars(base).items() if isinstance(one, _PLAIN) and name[:2] != "__"}
                )
            parts += [found for method in methods for found in self.globals(method)]
        return f"{kind.__module__}.{kind.__qualname__} {_digest(parts)}"

    def module(self, module: types.ModuleType) -> Any:
        """A module by its name, and the user's own by its source."""
        file = getattr(module, "__file__", None)
        if file is not None and is_own(module):
            with contextlib.suppress(OSError):
                return f"{module.__name__} {_digest([Path(file).read_bytes()])}"
        return module.__name__

    def env(self, env: Any) -> dict[str, Any]:
        layers, layer = [], env
        while layer is not None:
            layers.append(_Reader().kind(type(layer)))
            layer = getattr(layer, "env", None)
        spec = getattr(env, "spec", None)
        arguments = {str(name): self.value(one) for name, one in getattr(spec, "kwargs", {}).items()}
        limit = getattr(spec, "max_episode_steps", None)
        return {
            "classes": layers,
            **({"arguments": arguments} if arguments else {}),
            **({"limit": limit} if limit else {}),
        }

    def object(self, value: Any) -> Any:
        """Any other object: by its class, and what it holds, if the class is the user's own or holds nothing else."""
        kind = type(value)
        if dataclasses.is_dataclass(kind):
            fields = {
                field.name: getattr(value, field.name, None) for field in dataclasses.fields(kind) if field.compare
            }
        elif is_own(kind) or isinstance(value, types.SimpleNamespace) or kind.__name__ == "Namespace":
            fields = dict(getattr(value, "__dict__", {}))
        elif callable(value):  # of a library
            return _name(value)
        else:
            return kind.__qualname__
        return [self.kind(kind) if is_own(kind) else kind.__qualname__, self.value(fields)]


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _digest(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b",")
    return digest.hexdigest()[:12]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _code(code: types.CodeType) -> Iterator[Any]:
    yield from (code.co_code, code.co_names, code.co_varnames)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _globals(code: types.CodeType) -> Iterator[str]:
    """Names that are read of the module, also by functions inside."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _methods(kind: type) -> Iterator[types.FunctionType]:
    """The functions that a class defines itself."""
    for one in vars(kind).values():
        inside = [one]
        if isinstance(one, property):
            inside = [one.fget, one.fset]
        elif isinstance(one, cached_property):
            inside = [one.func]
        elif isinstance(one, staticmethod | classmethod):
            inside = [one.__func__]
        yield from (found for found in inside if isinstance(found, types.FunctionType))
