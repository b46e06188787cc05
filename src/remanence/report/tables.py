"""Results as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, Claim
from remanence.results.store import Results
from remanence.results.summary import summarise

COLOUR = {REPRODUCED: "green", NOT_REPRODUCED: "red"}


def summary_table(results: Results, headline: Sequence[str]) -> Table:
    """Area under the curve per contender for the metrics a reader looks at first."""
    metrics = results.first_metrics(headline)
    table = Table(
        "agent", "hyper-parameters", *(f"{metric} (AUC)" for metric in metrics), box=None, header_style="bold"
    )
    for name, facts in summarise(results).items():
        hypers = ", ".join(f"{key} {value:g}" for key, value in facts["hypers"].items())
        agent = f"{name} [red]({len(facts['diverged'])} diverged)[/red]" if facts["diverged"] else name
        table.add_row(agent, hypers, *(_area(facts["metrics"][metric]) for metric in metrics))
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    table = Table("verdict", "what the paper says", "evidence", box=None, header_style="bold", padding=(0, 2, 1, 0))
    for claim in claims:
        colour = COLOUR.get(claim.verdict, "yellow")
        table.add_row(f"[{colour}]{claim.verdict}[/{colour}]", claim.text, claim.evidence.replace("[", r"\["))
    return table


def _area(facts: dict) -> str:
    if facts["auc_mean"] is None:
        return "–"
    error = "" if facts["auc_se"] is None else f" ± {facts['auc_se']:.4f}"
    return f"{facts['auc_mean']:.4f}{error}"
