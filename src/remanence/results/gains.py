"""What PT gains over the learner it is built on, split into forgetting and remembering. Not in the paper.

The control is PT whose V^P never changes: nothing is consolidated, V^T only decays. So

    forgetting = control − learner          remembering = PT − control
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from remanence.metrics import lower_is_better
from remanence.results.statistics import Estimate, paired_difference
from remanence.results.store import Results
from remanence.results.summary import auc

CONTROL_SUFFIX = " without consolidation"  # ends the name of a control


@dataclass(frozen=True)
class Gain:
    """Paired differences of a metric's mean over all windows, with Student's 90 % intervals; positive is better."""

    agent: str
    learner: str
    """what PT is built on"""
    metric: str
    seeds: int
    forgetting: Estimate
    remembering: Estimate
    total: Estimate

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("forgetting", "remembering", "total")}
        return {**asdict(self), **{name: [_number(value) for value in one] for name, one in parts.items()}}


def gains(results: Results, metric: str) -> list[Gain]:
    """One for each PT agent whose control and learner ran too, with at least one seed in which none of the three diverged."""
    found = []
    for agent in results.contenders:
        names = (agent, control_of(agent, results.contenders), learner_of(agent))
        if agent.endswith(CONTROL_SUFFIX) or not set(names) <= set(results.contenders):
            continue
        ours, control, plain = _shared(results, names, metric)
        if ours.size:
            pairs = ((control, plain), (ours, control), (ours, plain))
            parts = (paired_difference(left, right) for left, right in pairs)
            found.append(Gain(agent, names[2], metric, len(ours), *parts))
    return found


def control_of(agent: str, contenders: Collection[str]) -> str:
    """The control of an agent: its own, or that of the form it varies, if both forget in the same way and so share it."""
    control = agent + CONTROL_SUFFIX
    return control if control in contenders else agent.split(" ")[0] + CONTROL_SUFFIX


def learner_of(agent: str) -> str:
    """The learner without a permanent part: Q for "PT-Q k=1 decay=0.5", DQN for "PT-DQN"; empty for agents that are not PT."""
    return agent.removeprefix("PT-").split(" ")[0].split("-")[0] if agent.startswith("PT-") else ""


def _shared(results: Results, names: Sequence[str], metric: str) -> list[np.ndarray]:
    """For each contender [seeds] the mean over windows, in the seeds in which none diverged; positive is better."""
    seeds = {name: results.sound_seeds(name) for name in names}
    shared = sorted(set.intersection(*map(set, seeds.values())))
    sign = -1.0 if lower_is_better(metric) else 1.0
    return [sign * auc(results, name, metric)[[seeds[name].index(seed) for seed in shared]] for name in names]


def _number(value: float) -> float | None:
    """JSON has no NaN: null for the interval of one seed."""
    return value if np.isfinite(value) else None
