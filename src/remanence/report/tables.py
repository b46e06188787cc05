"""Results as tables on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from rich.markup import escape
from rich.table import Table

from remanence.core.describe import typed
from remanence.report.numbers import ABOUT_GAINS, PLUS_MINUS, of_summary, with_margin
from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, Claim
from remanence.results.continual import of_run
from remanence.results.directory import GroupDirectory
from remanence.results.gains import Gain
from remanence.results.observations import Observation
from remanence.results.published import Agreement
from remanence.results.store import Results
from remanence.results.summary import ranked_settings, summarise

SETTINGS_SHOWN = 3  # of each agent of a sweep
BLOCKS, SPARKS = "▁▂▃▄▅▆▇█", 24
COLOUR = {REPRODUCED: "green", NOT_REPRODUCED: "red"}


def configuration_table(configs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Every field of every agent's configuration, as `--set AGENT.FIELD=VALUE` names and reads it."""
    names = list(configs)
    table = Table("field", *names, box=None, header_style="bold")
    for field in dict.fromkeys(field for config in configs.values() for field in config):
        table.add_row(field, *(typed(configs[name][field]) if field in configs[name] else "" for name in names))
    return table


def summary_table(results: Results, primary_metrics: Sequence[str]) -> Table:
    """Area under the curve per contender, for the primary metrics."""
    metrics = results.first_metrics(primary_metrics)
    columns = ("agent", "hyperparameters", *(escape(f"{metric} (AUC)") for metric in metrics))
    table = Table(*columns, box=None, header_style="bold", caption=PLUS_MINUS, caption_justify="left")
    for name, values in summarise(results).items():
        hypers = _hypers(values["hypers"])
        agent = escape(name)
        if why := ", ".join(f"{count} {one}" for one, count in results.left_out(name).items()):
            agent += f" [red]({why})[/red]"
        table.add_row(agent, hypers, *(_auc(values["metrics"][metric]) for metric in metrics))
    return table


def continual_table(results: Results, metric: str) -> Table:
    """Jumpstart, recovery, forgetting and transfer of every contender (docs/metrics.md)."""
    measured = {name: metrics.estimates() for name, metrics in of_run(results, metric).items()}
    columns = ("performance", "jumpstart", "recovery", "forgetting", "transfer")
    table = Table(
        escape(f"agent ({metric})"), *columns, box=None, header_style="bold", caption=PLUS_MINUS, caption_justify="left"
    )
    for name, estimates in measured.items():
        table.add_row(escape(name), *(with_margin(estimates[column], 3) for column in columns))
    return table


def sweep_table(
    results: Results, primary_metrics: Sequence[str], paper_values: Mapping[tuple[str, tuple[float, ...]], float]
) -> Table:
    """The best three settings of each contender of a sweep, with their mean AUC, and the paper's value or which one was chosen."""
    metric = primary_metrics[0]
    columns = ("setting", escape(f"{metric} (AUC)"), "in the paper" if paper_values else "")
    table = Table(*columns, box=None, header_style="bold", caption=PLUS_MINUS, caption_justify="left")
    for name, settings in ranked_settings(results, metric).items():
        for label, values in settings[:SETTINGS_SHOWN]:
            paper_value = paper_values.get((name, tuple(values["hypers"].values())))
            diverged = f" [red]({len(values['diverged'])} diverged)[/red]" if values["diverged"] else ""
            table.add_row(
                escape(label) + diverged,
                _auc(values["metrics"][metric]),
                ("chosen" if values["chosen"] else "") if paper_value is None else f"{paper_value:g}",
            )
        if len(settings) > SETTINGS_SHOWN:
            table.add_row(escape(f"… {len(settings) - SETTINGS_SHOWN} more settings of {name}"), "", "")
    return table


def progress_table(groups: Sequence[GroupDirectory], primary_metrics: Sequence[str]) -> Table:
    """The running groups of lanes: progress, and the mean curve of their lanes up to the last checkpoint."""
    table = Table("running", "done", "steps/s", "last status", "curve so far", box=None, header_style="bold")
    for group in groups:
        status, curves = group.progress(), group.so_far()
        if not status:
            table.add_row(f"group {group.path.name}", "not started", "", "", "")
            continue
        ago = timedelta(seconds=round(time.time() - status["time"]))
        table.add_row(
            escape(f"{status['label']} (group {status['group']})"),
            f"{status['windows'] / status['of']:.0%}",
            f"{status['steps_per_second']:,.0f}",
            f"{ago} ago",
            escape(_mean_curve(curves, primary_metrics)) if len(curves) else "no checkpoint yet",
        )
    return table


def _mean_curve(curves: pl.DataFrame, primary_metrics: Sequence[str]) -> str:
    """The first primary metric, up to the window all lanes have reached: drawn with blocks, and its last value."""
    measured = curves["metric"].unique(maintain_order=True).to_list()
    metric = next((one for one in primary_metrics if one in measured), measured[0])
    rows = curves.filter((pl.col("metric") == metric) & pl.col("value").is_finite())
    if not len(rows):
        return f"{metric}: no finite value yet"
    reached = rows.group_by("lane").agg(pl.col("window").max())["window"].min()
    mean = (
        rows.filter(pl.col("window") <= reached).group_by("window").agg(pl.col("value").mean()).sort("window")["value"]
    )
    parts = [part.mean() for part in np.array_split(mean.to_numpy(), min(SPARKS, len(mean)))]
    low, high = min(parts), max(parts)
    height = [round((part - low) / (high - low or 1.0) * (len(BLOCKS) - 1)) for part in parts]
    return f"{metric} {''.join(BLOCKS[one] for one in height)} {parts[-1]:.4g}"


def selection_table(chosen: Mapping[str, dict[str, float]], shares: Mapping[str, list[dict[str, Any]]]) -> Table:
    """The chosen setting of each contender, and how often it and two others win when tuning seeds are resampled.

    The chosen one has the best mean. Others may win more often.
    """
    table = Table("agent", "chosen", "wins", "else", box=None, header_style="bold")
    for name, ranked in shares.items():
        wins = sum(one["wins"] for one in ranked if one["hypers"] == chosen[name])
        rivals = [one for one in ranked if one["hypers"] != chosen[name]]
        others = "; ".join(f"{_hypers(rival['hypers'])} ({rival['wins']:.0%})" for rival in rivals[:2])
        table.add_row(escape(name), _hypers(chosen[name]), f"{wins:.0%}", others)
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    table = Table("verdict", "claim", "evidence", box=None, header_style="bold", padding=(0, 2, 1, 0))
    for claim in claims:
        colour = COLOUR.get(claim.verdict, "yellow")
        table.add_row(f"[{colour}]{claim.verdict}[/{colour}]", claim.text, claim.evidence.replace("[", r"\["))
    return table


def gains_table(gains: Sequence[Gain]) -> Table:
    """PT's gain over the learner it is built on, split by the control that never consolidates."""
    metric = gains[0].metric
    columns = ("by forgetting", "by remembering", "total")
    table = Table(
        escape(f"gain in {metric} (not in the paper)"),
        "over",
        *columns,
        box=None,
        header_style="bold",
        caption=ABOUT_GAINS,
    )
    table.caption_justify = "left"
    for one in gains:
        parts = (one.forgetting, one.remembering, one.total)
        table.add_row(escape(one.agent), escape(one.learner), *(with_margin(part, 4) for part in parts))
    return table


def observations_table(observations: Sequence[Observation]) -> Table:
    columns = ("found here (not in the paper)", "evidence")
    table = Table(*columns, box=None, header_style="bold", padding=(0, 2, 1, 0))
    for one in observations:
        table.add_row(escape(one.text), escape(one.evidence))
    return table


def agreements_table(agreements: Sequence[Agreement]) -> Table:
    """How many points of each published curve lie inside our interval."""
    columns = ("inside our interval", "expected", "mean, published", "mean, here")
    remark = next((one.remark for one in agreements if one.remark), None)
    table = Table("published curve", "", *columns, box=None, header_style="bold", caption=remark)
    for one in agreements:
        shares = (f"{one.inside:.0%} of {one.points} points", f"{one.expected:.0%}")
        table.add_row(one.contender, one.metric, *shares, f"{one.published:.4g}", f"{one.ours:.4g}")
    return table


def _auc(values: dict) -> str:
    return with_margin(of_summary(values), 4)


def _hypers(hypers: Mapping[str, float]) -> str:
    return escape(", ".join(f"{key} {value:g}" for key, value in hypers.items()))
