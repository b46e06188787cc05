"""How and where a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass

from remanence.core import backend
from remanence.core.errors import UserError, unknown

HERE, RAY = "here", "ray"


@dataclass(frozen=True)
class Execution:
    """None of this changes results, except that other groups of lanes may differ in the last bits."""

    lanes_per_group: int | None = None
    """lanes that live together; as many as fit memory if not given"""
    jobs: int = 1
    """processes on this machine, each living one group at a time"""
    on: str = HERE
    """here, or on a Ray cluster"""
    address: str | None = None
    """the address of the Ray cluster; a new one on this machine if not given"""
    cores_per_group: int | None = None
    """cores of each process"""
    checkpoint_every: float | None = None
    """seconds between checkpoints; if not given 60, and more where they would take over 2 % of the time"""
    restart: bool = False
    """throw away what an earlier run left and begin anew"""
    tensorboard: bool = False
    """write curves for TensorBoard as well"""

    def __post_init__(self) -> None:
        if self.on not in (HERE, RAY):
            raise unknown("place to run", self.on, (HERE, RAY))
        for name, value in (
            ("jobs", self.jobs),
            ("lanes-per-group", self.lanes_per_group),
            ("cores-per-group", self.cores_per_group),
        ):
            if value is not None and value < 1:
                raise UserError(f"--{name} must be at least 1; got {value}")
        if self.checkpoint_every is not None and not self.checkpoint_every > 0:
            raise UserError(f"--checkpoint-every must be above 0 seconds; got {self.checkpoint_every:g}")
        if self.on == RAY and self.jobs > 1:
            raise UserError("--jobs is for this machine alone: on a Ray cluster, groups are spread over its workers")
        if self.address and self.on != RAY:
            raise UserError("--address needs --on ray")

    def prepare(self) -> None:
        """Gives this process the cores that were asked for, before jax starts; other processes get theirs when they begin."""
        if self.cores_per_group and not self.spread:
            backend.use_cores(self.cores_per_group)

    @property
    def spread(self) -> bool:
        """Whether other processes do the work."""
        return self.on == RAY or self.jobs > 1

    @property
    def cores(self) -> int:
        """Cores, and hence devices, of each process."""
        if self.on == RAY:
            return self.cores_per_group or 1
        return self.cores_per_group or max(1, backend.cores() // self.jobs)
