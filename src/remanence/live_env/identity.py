"""What identifies the user's environment: its code as far as it can be seen, and what it answers to a few actions.

It is part of the description of a run, so a changed environment is another run. Nothing of it is executed when a run is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from remanence.core.describe import to_json
from remanence.core.errors import UserError, printable

MAX_DEPTH = 8  # of functions that hold functions


def of_function(function: Any, depth: int = 0) -> Any:
    """A function by its code, the names it uses, and the values it holds; not by where it stands in its file."""
    if isinstance(function, partial):
        held = [*function.args, *(f"{name}={of_value(one, depth)}" for name, one in function.keywords.items())]
        return [of_function(function.func, depth), [of_value(one, depth) for one in held]]
    if isinstance(function, types.MethodType):
        return [of_function(function.__func__, depth), type(function.__self__).__qualname__]
    if isinstance(function, type):
        return of_class(function)
    if not isinstance(function, types.FunctionType):
        return type(function).__qualname__
    held = [*(cell.cell_contents for cell in function.__closure__ or ()), *(function.__defaults__ or ())]
    held += [*(function.__kwdefaults__ or {}).values()]
    digest = hashlib.sha256(repr(list(_code(function.__code__))).encode()).hexdigest()[:12]
    return [digest, [of_value(one, depth + 1) for one in held]] if held and depth < MAX_DEPTH else digest


def _code(code: types.CodeType) -> Iterator[Any]:
    yield from (code.co_code, code.co_names, code.co_varnames)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def of_class(kind: type) -> str:
    """A class by its name, and its source and that of the classes it derives from, where it can be read."""
    digest = hashlib.sha256()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] not in ("builtins", "typing", "abc"):
            with contextlib.suppress(OSError, TypeError):
                digest.update(inspect.getsource(base).encode())
    return f"{kind.__module__}.{kind.__qualname__} {digest.hexdigest()[:12]}"


def of_value(value: Any, depth: int = 0) -> Any:
    """A value that a function holds, or that a parameter of the environment takes."""
    if callable(value):
        return of_function(value, depth)
    if isinstance(value, np.ndarray):
        return hashlib.sha256(value.tobytes()).hexdigest()[:12]
    try:
        found = to_json(value)
    except UserError:
        return type(value).__qualname__
    return printable(found) if isinstance(found, str) else found


def of_env(env: Any) -> dict[str, Any]:
    """An environment by its classes, from the outside, and the arguments it was registered with."""
    layers, layer = [], env
    while layer is not None:
        layers.append(of_class(type(layer)))
        layer = getattr(layer, "env", None)
    spec = getattr(env, "spec", None)
    arguments = {str(name): of_value(one) for name, one in getattr(spec, "kwargs", {}).items()}
    limit = getattr(spec, "max_episode_steps", None)
    return {"classes": layers, **({"arguments": arguments} if arguments else {}), **({"limit": limit} if limit else {})}
