"""The reference shows each name once, where it is defined: a module's `__all__` may list names that it imports."""

from __future__ import annotations

import griffe  # pyright: ignore[reportMissingImports]  # of the extra "docs"


class WhereDefined(griffe.Extension):
    def on_module(self, *, mod: griffe.Module, **_: object) -> None:
        if mod.exports and not mod.is_init_module:
            imported = {name for name, member in mod.members.items() if member.is_alias}
            mod.exports = [name for name in mod.exports if str(name) not in imported]
