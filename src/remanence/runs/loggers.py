"""Logs: windows of lives as CSV or JSON lines, or in TensorBoard, Weights & Biases or MLflow.

Each is a `Logger` (`runs/watching.py`). Other libraries are imported when a log starts.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from remanence.core.errors import UserError, unknown
from remanence.report.escaping import slug
from remanence.runs.watching import Logger, Window


@dataclass
class _Files:
    """A log in files: one for each group of lanes."""

    directory: str | Path | None = None
    """default: `logs` in the directory of the run"""
    _file: TextIO | None = field(default=None, init=False, repr=False)

    def _place(self, about: Mapping[str, Any], suffix: str) -> Path:
        directory = Path(self.directory or about["directory"])
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{slug(about['agent'])}-{about['group']:04d}{suffix}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass
class CSV(_Files):
    """A table: agent, seed, window, time, and a column for each metric."""

    _table: Any = field(default=None, init=False, repr=False)

    def start(self, about: Mapping[str, Any]) -> None:
        self._file, self._table = self._place(about, ".csv").open("w", newline="", encoding="utf-8"), None

    def write(self, window: Window) -> None:
        assert self._file is not None
        row = _row(window)
        if self._table is None:
            self._table = csv.DictWriter(self._file, list(row))
            self._table.writeheader()
        self._table.writerow(row)
        self._file.flush()


@dataclass
class JSONLines(_Files):
    """One JSON object per window."""

    def start(self, about: Mapping[str, Any]) -> None:
        self._file = self._place(about, ".jsonl").open("w", encoding="utf-8")

    def write(self, window: Window) -> None:
        assert self._file is not None
        self._file.write(json.dumps(_row(window)) + "\n")
        self._file.flush()


@dataclass
class TensorBoard(_Files):
    """Scalars for TensorBoard, a directory for each seed; needs `pip install 'remanence[tensorboard]'`."""

    _writers: dict[int, Any] = field(default_factory=dict, init=False, repr=False)

    def start(self, about: Mapping[str, Any]) -> None:
        summary_writer = _imported("tensorboardX", "tensorboardX").SummaryWriter
        place = self._place(about, "")
        self._writers = {
            seed: summary_writer(str(place / f"seed-{seed}"), purge_step=0) for seed in dict.fromkeys(about["seeds"])
        }

    def write(self, window: Window) -> None:
        for metric, value in window.metrics.items():
            self._writers[window.seed].add_scalar(metric, value, window.time)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


@dataclass
class WeightsAndBiases:
    """A run of Weights & Biases for each group of lanes; a metric of seed 3 is called `return/3`."""

    project: str = "remanence"
    options: Mapping[str, Any] = field(default_factory=dict)
    """for `wandb.init`: entity, mode, dir, tags, …"""
    _run: Any = field(default=None, init=False, repr=False)

    def start(self, about: Mapping[str, Any]) -> None:
        name = f"{about['agent']}-{about['group']:04d}"
        config = {**about["config"], "seeds": about["seeds"], "run": about["run"]}
        arguments = {"project": self.project, "name": name, "group": about["run"] or None, "config": config}
        self._run = _imported("wandb", "wandb").init(**{**arguments, **self.options})

    def write(self, window: Window) -> None:
        metrics = {f"{metric}/{window.seed}": value for metric, value in window.metrics.items()}
        self._run.log({**metrics, "time": window.time})

    def close(self) -> None:
        self._run.finish()


@dataclass
class MLflow:
    """A run of MLflow for each group of lanes; a metric of seed 3 is called `return/3`."""

    experiment: str = "remanence"
    tracking_uri: str | None = None
    _client: Any = field(default=None, init=False, repr=False)
    _run: str = field(default="", init=False, repr=False)

    def start(self, about: Mapping[str, Any]) -> None:
        mlflow = _imported("mlflow", "mlflow")
        self._client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        found = self._client.get_experiment_by_name(self.experiment)
        number = found.experiment_id if found else self._client.create_experiment(self.experiment)
        tags = {"agent": about["agent"], "run": about["run"], "seeds": str(about["seeds"])}
        self._run = self._client.create_run(
            number, tags=tags, run_name=f"{about['agent']}-{about['group']:04d}"
        ).info.run_id
        for name, value in about["config"].items():
            self._client.log_param(self._run, name, value)

    def write(self, window: Window) -> None:
        for metric, value in window.metrics.items():
            self._client.log_metric(self._run, f"{metric}/{window.seed}", value, step=window.time)

    def close(self) -> None:
        self._client.set_terminated(self._run)


LogSpec: TypeAlias = str | Logger | Sequence[str | Logger]
LOGGERS: dict[str, Callable[[], Logger]] = {
    "csv": CSV,
    "jsonl": JSONLines,
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def loggers_of(log: LogSpec, lasting: bool) -> tuple[Logger, ...]:
    """The logs that were asked for. `lasting`: whether the run has a directory for files."""
    found = []
    is_one = isinstance(log, str) or hasattr(log, "write") or not isinstance(log, Iterable)
    for one in [log] if is_one else log:  # type: ignore[union-attr]
        if isinstance(one, str) and one not in LOGGERS:
            raise unknown("log", one, LOGGERS)
        logger = LOGGERS[one]() if isinstance(one, str) else one
        if not all(callable(getattr(logger, name, None)) for name in ("start", "write", "close")):
            raise UserError(f"a log is one of {', '.join(LOGGERS)}, or has start, write and close; got {one!r:.60}")
        if isinstance(logger, _Files) and logger.directory is None and not lasting:
            name = type(logger).__name__
            raise UserError(
                f"a log in files needs a directory: give out=…, or remanence.runs.loggers.{name}(directory)"
            )
        found.append(logger)
    return tuple(found)


def _row(window: Window) -> dict[str, Any]:
    return {
        "agent": window.agent,
        "seed": window.seed,
        "window": window.window,
        "time": window.time,
        **window.metrics,
    }


def _imported(module: str, package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"this log needs {module}: pip install {package}") from None
