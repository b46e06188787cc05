"""What lives under way have when a callback stops their run: the curves of their closed windows, and a policy of their weights.

It is kept beside the tables of their group, never in them: these lives are not finished, and the next call goes on from the
checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import polars as pl

from remanence.core.types import Steps
from remanence.engine.lanes import Batch
from remanence.results.directory import GroupDirectory
from remanence.results.stopped import STOPPED_AFTER
from remanence.runs.jobs import Lane
from remanence.runs.plan import Plan
from remanence.runs.policies import policy_of
from remanence.runs.rows import tables


def keep_so_far(directory: GroupDirectory, lanes: Sequence[Lane], batch: Batch, plan: Plan) -> None:
    """Writes what the running lanes of a group have. A life without a closed window has nothing.

    Args: lanes: of the batch.
    """
    apart, of_life = directory.stopped, plan.stream.windows(plan.window)
    unit = "windows" if isinstance(plan.stream.segment_length, Steps) else "episodes"
    apart.make()
    found: list[dict[str, pl.DataFrame]] = []
    for number, outcome in batch.so_far().items():
        lane, windows = lanes[number], len(jax.tree.leaves(outcome.record)[0])
        if not windows:
            continue
        stopped = windows < of_life  # else it is done, and was not collected yet
        if outcome.policy is not None and (policy := policy_of(lane, plan, outcome.policy)):
            about = {**policy.about, STOPPED_AFTER: f"{windows} of {of_life} {unit}"} if stopped else policy.about
            apart.add_policy(lane.number, dataclasses.replace(policy, about=about))
        rows = tables([(lane, outcome)], plan, None)
        after = pl.lit(windows if stopped else None, pl.Int32).alias(STOPPED_AFTER)
        found.append({**rows, "lanes": rows["lanes"].with_columns(after)})
    if found:
        apart.add({name: pl.concat([rows[name] for rows in found]) for name in found[0]})
