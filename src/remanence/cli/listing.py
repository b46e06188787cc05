"""`remanence list`"""

from __future__ import annotations

from dataclasses import dataclass

from remanence.report.terminal import print_json, print_rich, size


@dataclass(frozen=True)
class List:
    """List all experiments, with figure, size and expected time."""

    json: bool = False
    """print JSON instead of a table"""

    def execute(self) -> None:
        from rich.table import Table

        from remanence.experiments import REGISTRY
        from remanence.experiments.base import NOT_IN_PAPER

        rows = [
            (one.name, one.figure, size(one.plan(one.default_preset)), one.expected, ", ".join(one.plans))
            for one in REGISTRY.values()
        ]
        columns = ("experiment", "in the paper", "size", "expected time", "presets")
        if self.json:
            print_json([dict(zip(columns, row, strict=True)) for row in rows])
            return
        table = Table(box=None, header_style="bold", pad_edge=False)
        narrowest = {"size": 12, "presets": 9}  # else they vanish where the terminal is narrow
        for column in columns:
            table.add_column(column, no_wrap=column == "experiment", min_width=narrowest.get(column))
        for name, figure, *others in rows:
            table.add_row(name, "–" if figure == NOT_IN_PAPER else figure, *others)
        print_rich(table)
