"""What `remanence.live_sweep` searches: numbers are lanes of one agent, any other values are agents of their own."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from remanence.agents.base import AgentConfig
from remanence.agents.shares import with_fields
from remanence.core.describe import to_json, typed
from remanence.core.errors import UserError, of_agent, unknown
from remanence.live_env.arguments import named_configs
from remanence.live_env.plan import AgentSpec
from remanence.runs.jobs import settings
from remanence.runs.plan import Contender

LONGEST_LABEL = 40  # characters of a value in a name


class Search:
    """An agent, and values to search: `Search("DQN", lr=[1e-3, 1e-4], hidden=[(32,), (64, 64)])` has four settings."""

    def __init__(self, agent: AgentSpec, **values: Sequence[Any]) -> None:
        self.agent, self.values = agent, values
        for name, some in values.items():
            if isinstance(some, str | bytes) or not isinstance(some, Sequence) or not some:
                raise UserError(f"give a list of values to search for {name}: {name}=[…]; got {some!r:.60}")

    def __repr__(self) -> str:
        return f"Search({self.agent!r}, {', '.join(f'{name}={some}' for name, some in self.values.items())})"


@dataclass(frozen=True)
class Searched:
    """An agent whose settings are searched. A variant is the agent with one combination of the values that are no numbers."""

    name: str
    config: AgentConfig
    numbers: Mapping[str, tuple[float, ...]]
    others: Mapping[str, Mapping[str, Any]]
    """values that are no numbers, by field and label"""

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.numbers, *self.others)

    def variants(self) -> dict[str, dict[str, str]]:
        """The labels of each variant, by its name; the agent itself if it has no others."""
        chosen = [dict(zip(self.others, labels, strict=True)) for labels in itertools.product(*self.others.values())]
        return {" ".join([self.name, *(f"{one}={label}" for one, label in of.items())]): of for of in chosen}

    def contenders(self) -> dict[str, Contender]:
        """The variants with the numbers to search; every setting is checked."""
        found = {name: Contender(self._variant(labels), self.numbers) for name, labels in self.variants().items()}
        try:
            for contender in found.values():
                settings(contender)
        except UserError as error:
            raise of_agent(self.name, error) from None
        return found

    def chosen(self, row: Mapping[str, Any]) -> AgentConfig:
        """The agent with a setting of the table."""
        numbers = {one: self._number(one, row[one]) for one in self.numbers}
        return with_fields(self._variant({one: row[one] for one in self.others}), **numbers)

    def variant(self, row: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
        """The name of the variant with a setting of the table, and the numbers of the setting."""
        labels = {one: row[one] for one in self.others}
        name = next(name for name, of in self.variants().items() if of == labels)
        return name, {one: row[one] for one in self.numbers}

    def values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The searched values of a setting of the table."""
        others = {one: labels[row[one]] for one, labels in self.others.items()}
        return {**{one: row[one] for one in self.numbers}, **others}

    def _variant(self, labels: Mapping[str, str]) -> AgentConfig:
        try:
            return with_fields(self.config, **{one: self.others[one][label] for one, label in labels.items()})
        except UserError as error:
            raise of_agent(self.name, error) from None

    def _number(self, name: str, value: float) -> float:
        """The value that was asked for, which a table holds as a float."""
        asked = next(one for one in self.numbers[name] if one == value)
        return float(asked) if isinstance(getattr(self.config, name), float) else asked


def searched_agents(agents: Any, boundaries_known: bool) -> list[Searched]:
    """Agents with what is searched of each."""
    if isinstance(agents, Mapping):
        pairs = list(agents.items())
    else:
        pairs = [(None, one) for one in (agents if isinstance(agents, list) else [agents])]
    found: dict[str, tuple[AgentConfig, dict[str, list[Any]]]] = {}
    for label, one in pairs:
        agent = one.agent if isinstance(one, Search) else one
        for name, config in named_configs({label: agent} if label is not None else agent, boundaries_known).items():
            if name in found:
                raise UserError(f"two agents are called '{name}': give them different names, {{name: agent, …}}")
            asked = one.values if isinstance(one, Search) else {}
            found[name] = config, {field: [_plain(value) for value in some] for field, some in asked.items()}
            names = [item.name for item in dataclasses.fields(config)] if asked else []  # type: ignore[arg-type]
            for field_name in asked:
                if field_name not in names:
                    raise unknown(f"field of {name}", field_name, names)
    if not any(asked for _, asked in found.values()):
        raise UserError("nothing to search: give Search('DQN', lr=[1e-3, 1e-4]) instead of 'DQN'")
    # a column of the table has numbers or labels, for all agents
    labelled = {one for _, asked in found.values() for one, some in asked.items() if not all(map(_is_number, some))}
    return [
        Searched(
            name,
            config,
            {one: tuple(some) for one, some in asked.items() if one not in labelled},
            {one: _labels(some) for one, some in asked.items() if one in labelled},
        )
        for name, (config, asked) in found.items()
    ]


def by_agent(table: pl.DataFrame, agents: Sequence[Searched]) -> pl.DataFrame:
    """The table of a sweep with agents instead of variants, whose labels become columns."""
    of_variant = {name: (one.name, labels) for one in agents for name, labels in one.variants().items()}
    for column in dict.fromkeys(one for agent in agents for one in agent.others):
        labels = [of_variant[name][1].get(column) for name in table["contender"]]
        series = pl.Series(column, labels, dtype=pl.String)
        if column in table.columns:  # of agents of which it is not searched
            table = table.with_columns(series.fill_null(table[column].cast(pl.String)))
        else:
            table = table.insert_column(table.columns.index("seed") + 1, series)
    names = [of_variant[name][0] for name in table["contender"]]
    return table.with_columns(pl.Series("contender", names, dtype=pl.String))


def spoken(values: Mapping[str, Any]) -> str:
    """A setting in words."""
    return ", ".join(
        f"{name}={value:g}" if _is_number(value) else f"{name}={_label(value)}" for name, value in values.items()
    )


def _labels(values: Sequence[Any]) -> dict[str, Any]:
    """Values by what they are called; equal values once."""
    found: dict[str, Any] = {}
    for value in {json.dumps(to_json(one), sort_keys=True): one for one in values}.values():
        label = _label(value)
        same = sum(other.split(" #")[0] == label for other in found)
        found[f"{label} #{same + 1}" if same else label] = value
    return found


def _label(value: Any) -> str:
    label = typed(to_json(value))
    return label if len(label) <= LONGEST_LABEL else type(value).__name__


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
