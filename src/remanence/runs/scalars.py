"""Curves of a group for TensorBoard, while it runs: `remanence run --tensorboard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from remanence.core.errors import UserError

if TYPE_CHECKING:
    from remanence.runs.worker import GroupJob


def summary_writer() -> Any:
    """The class that writes for TensorBoard; raises if it is not installed."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise UserError("--tensorboard needs tensorboardX: pip install 'remanence[tensorboard]'") from error
    return SummaryWriter


class Scalars:
    """Curves for TensorBoard: the mean over the lanes of the group, up to the window that all have reached."""

    def __init__(self, job: GroupJob) -> None:
        place = job.path.parent.parent / "tensorboard" / f"{job.group.label}-{job.group.number:04d}"
        # A resumed run writes its curve again from the start.
        self.writer = summary_writer()(str(place), purge_step=0)
        self.written = 0

    def write(self, curves: pl.DataFrame) -> None:
        """Appends new values, up to the window that all lanes have reached."""
        if not len(curves):
            return
        reached = curves.group_by("lane").agg(pl.col("window").max())["window"].min()
        new = curves.filter((pl.col("window") > self.written) & (pl.col("window") <= reached))
        for metric, window, value in (
            new.group_by("metric", "window").agg(pl.col("value").mean()).sort("window").iter_rows()
        ):
            self.writer.add_scalar(metric, value, window)
        self.written = max(self.written, int(reached))  # type: ignore[arg-type]
        self.writer.flush()
