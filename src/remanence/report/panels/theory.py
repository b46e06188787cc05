"""Checks of the theorems, and derived quantities, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from remanence.theory.checks import Check

COLUMNS = ("theorem", "statement", "computed", "residual", "holds", "remark")


def theorem_table(checks: Sequence[Check]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 1, 0))
    for column in COLUMNS:
        table.add_column(column, no_wrap=column in ("residual", "holds"))
    for check in checks:
        cells = [escape(cell) for cell in _cells(check)]  # rich would read E_τ[v_τ] as a style
        shade = "green" if check.holds else "red"
        table.add_row(*cells[:4], f"[{shade}]{cells[4]}[/{shade}]", cells[5])
    return table


def summary_table(summary: dict[str, Any]) -> Table:
    table = Table("quantity", "value", box=None, header_style="bold")
    for what, value in _lines(summary):
        table.add_row(escape(what), escape(value))
    return table


def in_markdown(about: str, checks: Sequence[Check], summary: dict[str, Any]) -> str:
    """The same tables as Markdown."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(check) for check in checks)]
    theorems = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    follows = "\n".join(f"- {what}: {value}" for what, value in _lines(summary))
    return f"# Theory: {about}\n\n{theorems}\n\n{follows}"


def _cells(check: Check) -> tuple[str, ...]:
    return (
        check.theorem,
        check.statement,
        check.check,
        f"{check.residual:.2g}",
        "yes" if check.holds else "no",
        check.remark,
    )


def _lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    def number(value: float | None) -> str:
        return "never" if value is None else f"{value:.4g}"

    lines = [
        (
            "E_τ[v_τ], the fixed point of V^P",
            " ".join(f"{value:.4g}" for value in summary["permanent_fixed_point"][:12]),
        ),
        ("jumpstart loss at this point", number(summary["jumpstart_loss"])),
        ("forgetting time k_0: bound", number(summary["forgetting_time"])),
        ("forgetting time k_0: exact, along the mean path", number(summary["forgetting_time_exact"])),
    ]
    if "stability_limit" in summary:
        lines.append(("largest stable step size, one sample per round", number(summary["stability_limit"])))
    for name, label in (("from_zero", "starting at zero"), ("from_permanent", "starting at E_τ[v_τ]")):
        best = summary.get(f"best_step_size_{name}")
        if best:
            lines.append(
                (
                    f"best constant step size over {best['rounds']} rounds, {label}",
                    f"{best['step_size']:.4g} (MSE {best['mse']:.4g}; best schedule {best['mse_best_schedule']:.4g})",
                )
            )
    return lines
