"""Groups of a run that is only in memory."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from remanence.results.directory import GroupDirectory, Savable, joined


class MemoryGroup(GroupDirectory):
    """A group of lanes of a run that is only in memory: it has no files, and nothing of it can be resumed."""

    lasting = False

    def __init__(self) -> None:
        super().__init__(Path())
        self._tables: dict[str, pl.DataFrame] = {}
        self.policies: dict[int, Any] = {}

    @cached_property
    def stopped(self) -> MemoryGroup:
        return MemoryGroup()

    def forget_stopped(self) -> None:
        pass

    def take(self, other: MemoryGroup) -> None:
        """Adds all lives of another group."""
        self.add(other.tables())
        self.policies |= other.policies

    def make(self) -> None:
        pass

    def writing(self, patience: float = 0.0) -> contextlib.AbstractContextManager[str]:
        del patience
        return contextlib.nullcontext("")

    def add(self, tables: dict[str, pl.DataFrame]) -> None:
        self._tables |= {
            name: joined(name, self._tables.get(name, pl.DataFrame()), one) for name, one in tables.items()
        }

    def lanes(self) -> list[int]:
        return self._tables["lanes"]["lane"].to_list() if "lanes" in self._tables else []

    def tables(self) -> dict[str, pl.DataFrame]:
        return self._tables

    def add_policy(self, lane: int, policy: Savable) -> None:
        self.policies[lane] = policy

    def replace(self, name: str, content: pl.DataFrame | dict[str, Any], lasting: bool = False) -> None:
        pass

    def log(self, event: str, **fields: Any) -> None:
        pass
