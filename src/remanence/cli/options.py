"""What is written in options: changes of an agent's configuration, and grids."""

from __future__ import annotations

import ast

from remanence.core.errors import UserError

TUNING_FROM = 1000
"""the first tuning seed of a sweep"""


def parse_change(change: str) -> tuple[str, str, str]:
    target, _, value = change.rpartition("=")  # an agent's name may contain "=" and "."
    agent, dot, name = target.rpartition(".")
    if not dot:
        raise UserError(f"'{change}' is not a change: write AGENT.FIELD=VALUE, as in PT-TD.transient_lr=0.1")
    return agent, name, value


def parse_grid(change: str) -> tuple[str, str, tuple[float, ...]]:
    try:
        agent, name, texts = parse_change(change)
        values = tuple(ast.literal_eval(value.strip()) for value in texts.split(",") if value.strip())
        if not all(isinstance(value, int | float) for value in values):
            raise ValueError
    except (ValueError, SyntaxError, UserError) as error:
        raise UserError(
            f"'{change}' is not a grid: write AGENT.FIELD=A,B,C, as in PT-Q.transient_lr=0.1,0.5"
        ) from error
    return agent, name, values
