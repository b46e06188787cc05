"""How and where a run is executed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from remanence.core import backend
from remanence.core.errors import UserError, unknown
from remanence.core.learners import AUTO, LEARNERS

HERE, RAY = "here", "ray"
MAX_PROCESSES, MAX_CORES = 1024, 1024


@dataclass(frozen=True)
class Execution:
    """Options of execution. They do not change results, except that another grouping of lanes or another learner may change
    the last bits."""

    lanes_per_group: int | None = None
    """lanes that run together in one program; default: as many as fit in memory"""
    jobs: int = 1
    """processes on this machine, each running one group at a time"""
    on: str = HERE
    """this machine, or a Ray cluster"""
    address: str | None = None
    """address of the Ray cluster; default: start one on this machine"""
    cores_per_group: int | None = None
    """cores of each process"""
    checkpoint_every: float | None = None
    """seconds between checkpoints; default: 60, or more if checkpoints would take over 2 % of the time"""
    learner: str = AUTO
    """learner of deep agents: xla, native (kernels for binary observations, on CPUs), or auto: native where there is one"""
    restart: bool = False
    """move the results of an earlier run aside and start over"""
    reuse: Path | None = None
    """another directory of runs, whose finished lanes are taken over as those in --out are"""
    tensorboard: bool = False
    """also write curves for TensorBoard"""

    def __post_init__(self) -> None:
        if self.on not in (HERE, RAY):
            raise unknown("place to run", self.on, (HERE, RAY))
        if self.learner not in LEARNERS:
            raise unknown("learner", self.learner, LEARNERS)
        for name, value, most in (
            ("jobs", self.jobs, MAX_PROCESSES),
            ("lanes-per-group", self.lanes_per_group, 2**31 - 1),
            ("cores-per-group", self.cores_per_group, MAX_CORES),
        ):
            if value is not None and not 1 <= value <= most:
                raise UserError(f"--{name} must be at least 1 and at most {most:,}; got {value:,}")
        if self.checkpoint_every is not None and not self.checkpoint_every > 0:
            raise UserError(f"--checkpoint-every must be above 0 seconds; got {self.checkpoint_every:g}")
        if self.on == RAY and self.jobs > 1:
            raise UserError("--jobs is for this machine only: on a Ray cluster, groups are spread over its workers")
        if self.reuse is not None and not self.reuse.is_dir():
            raise UserError(f"--reuse: there is no directory '{self.reuse}'")
        if self.reuse is not None and self.restart:
            raise UserError("--restart takes no lanes over: leave out --reuse")
        if self.address and self.on != RAY:
            raise UserError("--address needs --on ray")

    def prepare(self) -> None:
        """Sets the cores of this process, before jax starts. Other processes get theirs when they start."""
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
