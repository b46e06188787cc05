"""What is written in options: changes of an agent's configuration, grids, and numbers of seeds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from remanence.core.errors import UserError

if TYPE_CHECKING:
    from remanence.runs.plan import Plan

TUNING_FROM = 1000
"""the first tuning seed of a sweep"""


def count_of(option: str, asked: int | None, usual: int) -> int:
    """How many seeds are asked for."""
    if asked is not None and asked < 1:
        raise UserError(f"{option} must be at least 1; got {asked:,}")
    return usual if asked is None else asked


def parse_change(change: str, plan: Plan) -> tuple[str, str, str]:
    target, equals, value = change.rpartition("=")  # an agent's name may contain "=" and "."
    agent, dot, name = target.rpartition(".")
    having = [one for one, contender in plan.contenders.items() if hasattr(contender.config, target)]
    if equals and not dot and having:
        fields = f"{having[-1]}.{change} (it is a field of {', '.join(having)})"
        raise UserError(f"'{change}' does not say of which agent: write {fields}")
    if not dot:
        raise UserError(f"'{change}' is not a change: write AGENT.FIELD=VALUE, as in PT-TD.transient_lr=0.1")
    return agent, name, value


def parse_grid(change: str, plan: Plan) -> tuple[str, str, tuple[float, ...]]:
    try:
        agent, name, texts = parse_change(change, plan)
        values = tuple(ast.literal_eval(value.strip()) for value in texts.split(",") if value.strip())
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            raise ValueError
    except (ValueError, SyntaxError, UserError) as error:
        raise UserError(
            f"'{change}' is not a grid: write AGENT.FIELD=A,B,C, as in PT-Q.transient_lr=0.1,0.5"
        ) from error
    return agent, name, values
