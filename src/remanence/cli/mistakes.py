"""Checks a command line against the commands' dataclasses, before it is parsed: each mistake is one sentence."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from remanence.core.errors import UserError, unknown

HELP = ("-h", "--help")
POSITIONAL = typing.get_args(Positional[str])[1]  # what marks a field that is no option
KINDS: dict[type, str] = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


@dataclasses.dataclass(frozen=True)
class _Option:
    """What may follow an option, or stand at the place of a positional argument."""

    kind: type
    many: bool
    required: bool
    optional: bool
    """whether `None` is a value"""


def check_command(arguments: Sequence[str], commands: Mapping[str, type]) -> None:
    """Raises a `UserError` for what the parser would refuse. `commands`: the dataclass of each."""
    if any(one in HELP for one in arguments):
        return
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"give a command first: {', '.join(commands)}; `remanence --help` explains them")
    command, *tokens = arguments
    if command not in commands:
        raise unknown("command", command, commands)
    options, places = _fields(commands[command])
    plain = _check_options(command, tokens, options)
    name, place = next(iter(places.items()), ("", None))
    if place is None or (len(plain) > 1 and not place.many):
        if extra := plain[place is not None :]:
            takes = f"takes one {name.upper()}" if place else "takes only options"
            raise UserError(f"'{extra[0]}' is too much: `remanence {command}` {takes}")
    elif place.required and not plain:
        raise UserError(f"`remanence {command}` needs one more word, {name.upper()}: see `remanence {command} --help`")


def _check_options(command: str, tokens: Sequence[str], options: Mapping[str, _Option]) -> list[str]:
    """The words that belong to no option. Every option is there, has a value if it needs one, and of its kind."""
    plain: list[str] = []
    waiting = list(tokens)
    while waiting:
        token = waiting.pop(0)
        if not token.startswith("-") or _is_number(token):
            plain.append(token)
            continue
        name, equals, value = token.partition("=")
        name = name.replace("_", "-")
        option = options.get(name)
        if option is None:
            raise unknown(f"option of `remanence {command}`", name, options)
        if option.kind is bool:
            if equals:
                raise UserError(f"{name} takes no value; got '{value}'")
            continue
        values = [value] if equals else []
        while waiting and not equals and (option.many or not values) and not _is_option(waiting[0]):
            values.append(waiting.pop(0))
        if not values and not option.many:
            raise UserError(f"{name} needs a value: {KINDS[option.kind]}")
        for one in values:
            if not (option.optional and one == "None"):
                _check_value(name, one, option.kind)
    return plain


def _check_value(name: str, value: str, kind: type) -> None:
    try:
        kind(value)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{name} must be {KINDS[kind]}; got '{value:.80}'") from error


def _is_option(token: str) -> bool:
    return token.startswith("-") and len(token) > 1 and not _is_number(token)


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _fields(command: type) -> tuple[dict[str, _Option], dict[str, _Option]]:
    """The options of a command, those of dataclasses inside of it too, and its positional arguments."""
    options: dict[str, _Option] = {}
    places: dict[str, _Option] = {}
    hints = typing.get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        hint = hints[field.name]
        is_place = POSITIONAL in typing.get_args(hint)
        while typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        if dataclasses.is_dataclass(hint):
            options |= _fields(typing.cast(type, hint))[0]
            continue
        many = typing.get_origin(hint) is tuple
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        one = _Option(_kind(hint), many, required, optional=type(None) in typing.get_args(hint))
        if is_place:
            places[field.name] = one
        else:
            options[f"--{field.name.replace('_', '-')}"] = one
    return options, places


def _kind(hint: Any) -> type:
    """`int` of `int | None` and of `tuple[int, ...]`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) in (typing.Union, tuple):
        return next(part for part in typing.get_args(hint) if part not in (type(None), ...))
    return hint
