"""Configurations as plain data: to JSON for descriptions and hashes, and back for saved policies and the command line."""

from __future__ import annotations

import ast
import dataclasses
import functools
import types
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from remanence.core.errors import UserError, unknown
from remanence.core.identity import is_own, of_code, of_value

KIND = "kind"  # the key that holds the class of a dataclass
_LATER = "not described at its default"


def later(default: Any) -> Any:
    """A field that was added after runs were stored: at its default it is not described, so they keep their hash."""
    return dataclasses.field(default=default, metadata={_LATER: True})


def _is_described(field: dataclasses.Field[Any], value: Any) -> bool:
    unchanged = isinstance(value, type(field.default)) and value == field.default
    return field.compare and not (_LATER in field.metadata and unchanged)


def to_json(value: Any) -> Any:
    """A value as JSON. Equal values give equal JSON, and any difference that decides a result shows.

    Dataclasses become {"kind": class, field: value, …}. A function is told by its name, its code, what it reads of its module and
    the values it closes over, so an optax transformation with another decay rate is another value.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, types.SimpleNamespace):
        return {KIND: type(value).__name__, **to_json(vars(value))}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        described = {
            field.name: to_json(fields[field.name])
            for field in dataclasses.fields(value)
            if _is_described(field, fields[field.name])
        }
        return {KIND: type(value).__name__, **described}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(one) for one in value]
    if isinstance(value, functools.partial):
        return {"partial": to_json(value.func), "arguments": to_json(value.args), "options": to_json(value.keywords)}
    if isinstance(value, types.MethodType):
        code = {"code": of_code(value.__func__)} if is_own(value.__func__) else {}
        return {"method": value.__func__.__qualname__, **code, "of": to_json(value.__self__)}
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, types.ModuleType):  # that a function closes over
        return value.__name__
    if callable(value):
        if hasattr(value, "__wrapped__") or is_own(type(value)):  # such as a function that jax compiles
            return {"function": _name(value), "code": of_value(value)}
        return _name(value)
    raise UserError(f"a configuration holds numbers, texts, tuples, dataclasses and functions; not {value!r}")


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"


def _function(function: types.FunctionType) -> dict[str, Any]:
    closed = [to_json(cell.cell_contents) for cell in function.__closure__ or ()]
    return {
        "function": f"{function.__module__}.{function.__qualname__}",
        "code": of_code(function),
        **({"closure": closed} if closed else {}),
        **({"defaults": to_json(function.__defaults__)} if function.__defaults__ else {}),
        **({"options": to_json(function.__kwdefaults__)} if function.__kwdefaults__ else {}),
    }


def from_json(value: Any, kinds: Mapping[str, type]) -> Any:
    """Undoes `to_json` for dataclasses of the given kinds; lists become tuples. Nothing else is ever called."""
    if isinstance(value, list):
        return tuple(from_json(one, kinds) for one in value)
    if isinstance(value, dict):
        if KIND not in value:
            raise ValueError("not a configuration")
        if value[KIND] not in kinds:
            raise unknown("kind of configuration", value[KIND], kinds)
        return kinds[value[KIND]](**{name: from_json(one, kinds) for name, one in value.items() if name != KIND})
    return value


def typed(value: Any) -> str:
    """A value of `to_json` as `parse` reads it from a command line; of a function only its name, which is not read."""
    if isinstance(value, dict) and KIND in value:
        arguments = ", ".join(f"{name}={_inside(one)}" for name, one in value.items() if name != KIND)
        return f"{value[KIND]}({arguments})"
    if isinstance(value, list):
        return f"({', '.join(map(_inside, value))}{',' if len(value) == 1 else ''})"
    return str(value.get("function", value)) if isinstance(value, dict) else str(value)


def _inside(value: Any) -> str:
    return repr(value) if isinstance(value, str) else typed(value)


def parse(text: str, kinds: Mapping[str, type]) -> Any:
    """A value as typed on a command line: a Python literal, or a call such as `Episodes(5)`; any other text stands for itself."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    if isinstance(tree, ast.Name):
        return float(text) if tree.id in ("nan", "inf") else text
    return _evaluate(tree, text, kinds)


def _evaluate(node: ast.expr, text: str, kinds: Mapping[str, type]) -> Any:
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_evaluate(one, text, kinds) for one in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id not in kinds:
            raise unknown("kind of configuration", node.func.id, kinds)
        arguments = [_evaluate(one, text, kinds) for one in node.args]
        options = {option.arg: _evaluate(option.value, text, kinds) for option in node.keywords if option.arg}
        try:
            return kinds[node.func.id](*arguments, **options)
        except TypeError as error:
            raise UserError(f"'{text}' does not fit {node.func.id}: {error}") from error
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return text
