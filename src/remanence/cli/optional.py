"""How the parser shows options that may be omitted: `--seeds INT`, not `--seeds {None}|INT`."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, get_args

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

KINDS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
REGISTRY = ConstructorRegistry()


@REGISTRY.primitive_rule
def optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """The rule for `X | None`, where X is a plain type."""
    kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
    if len(kinds) != 1 or NoneType not in get_args(info.type) or kinds[0] not in KINDS:
        return None
    kind = kinds[0]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=KINDS[kind],
        instance_from_str=lambda words: kind(words[0]),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )
