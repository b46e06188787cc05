"""Results as tables on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from remanence.metrics import lower_is_better
from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, Claim
from remanence.results.continual import of_run
from remanence.results.directory import GroupDirectory
from remanence.results.statistics import Estimate
from remanence.results.store import Results
from remanence.results.summary import settings_of, summarise, summarise_sweep

BLOCKS, SPARKS = "▁▂▃▄▅▆▇█", 24
COLOUR = {REPRODUCED: "green", NOT_REPRODUCED: "red"}


def summary_table(results: Results, primary_metrics: Sequence[str]) -> Table:
    """Area under the curve per contender for the metrics a reader looks at first."""
    metrics = results.first_metrics(primary_metrics)
    table = Table(
        "agent", "hyper-parameters", *(f"{metric} (AUC)" for metric in metrics), box=None, header_style="bold"
    )
    for name, facts in summarise(results).items():
        hypers = _hypers(facts["hypers"])
        agent = f"{name} [red]({len(facts['diverged'])} diverged)[/red]" if facts["diverged"] else name
        table.add_row(agent, hypers, *(_area(facts["metrics"][metric]) for metric in metrics))
    return table


def continual_table(results: Results, metric: str) -> Table:
    """Jumpstart, recovery, forgetting and transfer of every contender (docs/metrics.md)."""
    measured = {name: metrics.estimates() for name, metrics in of_run(results, metric).items()}
    columns = ("performance", "jumpstart", "recovery", "forgetting", "transfer")
    table = Table(f"agent ({metric})", *columns, box=None, header_style="bold")
    for name, estimates in measured.items():
        table.add_row(name, *(_estimate(estimates[column]) for column in columns))
    return table


def sweep_table(
    results: Results, primary_metrics: Sequence[str], paper_values: Mapping[tuple[str, tuple[float, ...]], float]
) -> Table:
    """The best three settings of every contender of a sweep, with their mean areas, and what the paper prints for them."""
    metric = primary_metrics[0]
    table = Table("setting", f"{metric} (AUC)", "printed" if paper_values else "", box=None, header_style="bold")
    summary = summarise_sweep(results)
    for name, settings in settings_of(results):
        own = [(label, facts) for label, facts in summary.items() if label.startswith(f"{name} ")]
        ranked = sorted(own, key=lambda item: _rank(item[1]["metrics"][metric], metric))
        for label, facts in ranked[:3]:
            in_print = paper_values.get((name, tuple(facts["hypers"].values())))
            table.add_row(label, _area(facts["metrics"][metric]), "" if in_print is None else f"{in_print:g}")
        if len(settings) > 3:
            table.add_row(f"… {len(settings) - 3} more settings of {name}", "", "")
    return table


def progress_table(groups: Sequence[GroupDirectory], primary_metrics: Sequence[str]) -> Table:
    """Groups of lanes under way: how far they are, and the mean curve of their lanes up to the last checkpoint."""
    table = Table("under way", "done", "steps/s", "heard of", "so far", box=None, header_style="bold")
    for group in groups:
        status, curves = group.progress(), group.so_far()
        if not status:
            table.add_row(f"group {group.path.name}", "not begun", "", "", "")
            continue
        ago = timedelta(seconds=round(time.time() - status["time"]))
        table.add_row(
            f"{status['label']} (group {status['group']})",
            f"{status['pages'] / status['of']:.0%}",
            f"{status['steps_per_second']:,.0f}",
            f"{ago} ago",
            _mean_curve(curves, primary_metrics) if len(curves) else "no checkpoint yet",
        )
    return table


def _mean_curve(curves: pl.DataFrame, primary_metrics: Sequence[str]) -> str:
    """The first metric of the headline as far as all lanes have come, drawn with blocks, and its latest value."""
    known = curves["metric"].unique(maintain_order=True).to_list()
    metric = next((one for one in primary_metrics if one in known), known[0])
    own = curves.filter(pl.col("metric") == metric)
    reached = own.group_by("lane").agg(pl.col("window").max())["window"].min()
    mean = (
        own.filter(pl.col("window") <= reached).group_by("window").agg(pl.col("value").mean()).sort("window")["value"]
    )
    parts = [part.mean() for part in np.array_split(mean.to_numpy(), min(SPARKS, len(mean)))]
    low, high = min(parts), max(parts)
    height = [round((part - low) / (high - low or 1.0) * (len(BLOCKS) - 1)) for part in parts]
    return f"{metric} {''.join(BLOCKS[one] for one in height)} {parts[-1]:.4g}"


def selection_table(shares: Mapping[str, list[dict[str, Any]]]) -> Table:
    """The chosen setting of every contender, and how often it and its rivals win when tuning seeds are drawn anew."""
    table = Table("agent", "chosen", "wins", "else", box=None, header_style="bold")
    for name, ranked in shares.items():
        chosen, *rivals = ranked
        others = "; ".join(f"{_hypers(rival['hypers'])} ({rival['wins']:.0%})" for rival in rivals[:2])
        table.add_row(name, _hypers(chosen["hypers"]), f"{chosen['wins']:.0%}", others)
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


def _hypers(hypers: Mapping[str, float]) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in hypers.items())


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    margin = (estimate.high - estimate.low) / 2
    return f"{estimate.mean:.3f} ± {margin:.3f}" if margin == margin else f"{estimate.mean:.3f}"


def _rank(facts: dict, metric: str) -> float:
    if facts["auc_mean"] is None:
        return float("inf")
    return facts["auc_mean"] if lower_is_better(metric) else -facts["auc_mean"]
