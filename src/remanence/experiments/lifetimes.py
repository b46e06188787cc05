"""The cells of a plane of k and λ by the lifetime of their transient part."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from remanence.results.collapse import Cell, Collapse
from remanence.results.statistics import Estimate
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.theory.shares import lifetime


def plane(
    results: Results, metric: str, of_cell: Callable[[float, float], float] = lifetime, max_interval: float = math.inf
) -> tuple[list[Cell], np.ndarray]:
    """The cells of a run up to some k, and [cells, seeds] their performance. `of_cell`: (k, λ) -> the lifetime."""
    cells, samples = [], []
    for name in results.contenders:
        config = results.description["contenders"][name]["config"]
        if not name.startswith("PT-") or " k=" not in name or not config["permanent_lr"] or results.diverged(name):
            continue
        k, decay = config["consolidate_every"]["count"], config["decay"]
        if k <= max_interval:
            cells.append(Cell(k, decay, of_cell(k, decay)))
            samples.append(auc(results, name, metric))
    return cells, np.array(samples)


def described(found: Collapse, unit: str = "episodes") -> str:
    """The numbers of a collapse, for tables."""

    def share(estimate: Estimate) -> str:
        return "{:.0%} [{:.0%}, {:.0%}]".format(*estimate)

    best, low, high = found.best
    return (
        f"explained by a cubic in ln τ {share(found.by_lifetime)}, by one in λ {share(found.by_decay)}, in ln k "
        f"{share(found.by_interval)}; at most {found.ceiling:.0%} is not noise; cells of a k that was left out "
        f"{share(found.held_out)}; best τ {best:.3g} [{low:.3g}, {high:.3g}] {unit}"
    )
