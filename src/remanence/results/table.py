"""Numbers per agent for people and programs: text, HTML, LaTeX, Polars, pandas."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from remanence.core.errors import UserError, printable
from remanence.results.statistics import Estimate

NOTHING = "–"  # where there is no number
DIGITS = 4
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_LATEX_WORDS = {"λ": r"$\lambda$", "α": r"$\alpha$", "γ": r"$\gamma$", "ε": r"$\varepsilon$", NOTHING: "--"}


@dataclass(frozen=True, repr=False)
class Table:
    """One row per agent and number: columns agent, `what`, mean, low, high and others. null where there is no number."""

    frame: pl.DataFrame
    what: str
    """the column that says which number it is: metric or measure"""
    remark: str = ""

    def __repr__(self) -> str:
        """Aligned text."""
        cells = [self._header, *self._cells()]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self._header))]
        left = {"agent", self.what, "unit"}
        lines = [
            "  ".join(
                cell.ljust(width) if name in left else cell.rjust(width)
                for name, cell, width in zip(self._header, row, widths, strict=True)
            ).rstrip()
            for row in cells
        ]
        return "\n".join([*lines, *([self.remark] if self.remark else [])])

    def _repr_html_(self) -> str:
        """For notebooks."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._header)
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self._cells())
        remark = f"<p>{html.escape(self.remark)}</p>" if self.remark else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{remark}"

    def rows(self) -> list[dict[str, Any]]:
        """One dict per row; None where there is no number."""
        return self.frame.to_dicts()

    def to_pandas(self) -> Any:
        return to_pandas(self.frame)

    def to_latex(self) -> str:
        """A `tabular` (with booktabs): one row per agent, mean ± half the width of its interval in each column."""
        kinds = self.frame[self.what].unique(maintain_order=True).to_list()
        rows = {(row["agent"], row[self.what]): row for row in self.rows()}
        agents = self.frame["agent"].unique(maintain_order=True).to_list()
        body = [[_latex(agent), *(_latex_number(rows.get((agent, kind), {})) for kind in kinds)] for agent in agents]
        head = ["agent", *map(_latex, kinds)]
        lines = [r"\toprule", _latex_row(head), r"\midrule", *map(_latex_row, body), r"\bottomrule"]
        remark = [f"% {self.remark}"] if self.remark else []
        return "\n".join([*remark, rf"\begin{{tabular}}{{l{'r' * len(kinds)}}}", *lines, r"\end{tabular}"])

    @property
    def _header(self) -> list[str]:
        others = [name for name in self.frame.columns if name not in ("agent", self.what, "mean", "low", "high")]
        return ["agent", self.what, "mean", "90 % interval", *others]

    def _cells(self) -> list[list[str]]:
        return [
            [
                f"[{_text(row['low'])}, {_text(row['high'])}]"
                if name == "90 % interval" and row["low"] is not None
                else _text(row.get(name))
                for name in self._header
            ]
            for row in self.rows()
        ]


def row(agent: str, what: str, kind: str, estimate: Estimate | None, **others: Any) -> dict[str, Any]:
    """A row of a table. Without an estimate, or without an interval (one seed), there is no number."""
    numbers = {name: None if estimate is None else _finite(getattr(estimate, name)) for name in ("mean", "low", "high")}
    return {"agent": agent, what: kind, **numbers, **others}


def table(rows: Sequence[Mapping[str, Any]], what: str, remark: str = "") -> Table:
    """Rows as a table; numbers are floats even where all are missing."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    floats = [name for name in ("mean", "low", "high", "iqm") if name in frame.columns]
    return Table(frame.with_columns(pl.col(floats).cast(pl.Float64)), what, remark)


def to_pandas(frame: pl.DataFrame) -> Any:
    """The same as a pandas DataFrame; PyArrow is not needed."""
    try:
        import pandas as pd
    except ImportError:
        raise UserError("to_pandas needs pandas: pip install pandas; or use the Polars frame, frame()") from None
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else printable(str(value))


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in printable(text))
    for character, word in _LATEX_WORDS.items():
        escaped = escaped.replace(character, word)
    return escaped


def _latex_number(found: Mapping[str, Any]) -> str:
    if found.get("mean") is None:
        return "--"
    mean, low, high = found["mean"], found["low"], found["high"]
    if low is None:
        return f"${mean:.{DIGITS}g}$"
    margin = max(high - mean, mean - low)  # an end that was clipped to what is possible is not used
    return rf"${mean:.{DIGITS}g} \pm {margin:.2g}$"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
