"""Words of a command line as a command. Each mistake is one sentence."""

from __future__ import annotations

import contextlib
import io
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from remanence.cli.mistakes import check_command
from remanence.core.errors import UserError


def parsed(words: Sequence[str], commands: Mapping[str, type]) -> Any:
    """The command with its options. What the parser would still refuse, in a box, becomes one sentence."""
    check_command(words, commands)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                typing.Union[tuple(Annotated[kind, subcommand(name)] for name, kind in commands.items())],  # type: ignore[arg-type]  # noqa: UP007
                prog="remanence",
                description="Continual reinforcement learning with permanent and transient value functions.",
                args=words,
                config=(FlagCreatePairsOff,),
                registry=_optional_values(),
            )
    except SystemExit as ended:
        if not ended.code:
            raise
        lines = [re.sub(r"[\u2500-\u257f]|^\||\|$|[-+]{3,}", "", line).strip() for line in said.getvalue().splitlines()]
        raise UserError(" ".join(line for line in lines[1:4] if line) or "this command line cannot be read") from None


def _optional_values() -> ConstructorRegistry:
    """An optional number is a number for people: INT, not {None}|INT."""
    registry = ConstructorRegistry()
    kinds: dict[Any, type] = {int | None: int, float | None: float, str | None: str, Path | None: Path}

    @registry.primitive_rule
    def _(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        if info.type not in kinds:
            return None
        kind = kinds[info.type]
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=kind.__name__.upper(),
            instance_from_str=lambda words: None if words[0] == "None" else kind(words[0]),
            is_instance=lambda value: value is None or isinstance(value, kind),
            str_from_instance=lambda value: [str(value)],
        )

    return registry
