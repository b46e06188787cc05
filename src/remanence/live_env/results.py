"""What `live` returns: tables, statistics, a chart, and the learned policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from remanence.agents.base import AgentConfig
from remanence.core.errors import UserError, printable, unknown
from remanence.gym.policy import Policy, load_policy, needs_code
from remanence.results.compare import Comparison, compare
from remanence.results.continual import Continual, continual_table
from remanence.results.directory import save
from remanence.results.manifest import read_checked
from remanence.results.stopped import stopped_remark
from remanence.results.store import POLICIES, Results, load
from remanence.results.summary import frame, summary_table
from remanence.results.table import Table, to_pandas

ALTAIR, MATPLOTLIB = "altair", "matplotlib"


@dataclass(frozen=True, repr=False)
class LiveResults(Results):
    """The results of `live`, or of any run read from disk: tables, statistics, a chart, and the learned policies.

    Statistics are over seeds. Seeds that diverged are left out and counted (docs/metrics.md).
    """

    policies: Mapping[tuple[str, int], Policy] = field(default_factory=dict)
    """by contender and seed, of lives that are only in memory"""
    configs: Mapping[str, AgentConfig] = field(default_factory=dict)
    """by contender, if the run was made in this process: a file holds no code"""

    def summary(self, *metrics: str, last: float = 1.0) -> Table:
        """Mean, 90 % interval (Student's t), interquartile mean and number of seeds, for each agent and metric.

        Args:
            metrics: their names; default: all but those about the two parts of a PT agent.
            last: the share of the life, at its end, that counts: `last=0.1` is the final performance.
        """
        return summary_table(self, metrics, last)

    def compare(self, a: str, b: str, metric: str | None = None, last: float = 1.0) -> Comparison:
        """Whether agent `a` is better than `b`: the paired difference over seeds, its effect sizes, and a verdict.

        Args: metric: default: the one that `plot` shows.  last: the share of the life, at its end, that counts.
        """
        return compare(self, a, b, self._metric(metric), last)

    def continual(self, metric: str | None = None) -> Continual:
        """Jumpstart, recovery, forgetting and transfer of each agent, and `matrix(agent)`, what each task left for the next."""
        return continual_table(self, self._metric(metric))

    def frame(self, diverged: bool = False) -> pl.DataFrame:
        """All values as a Polars frame: agent, seed, step (or episode), task, metric, value.

        Args: diverged: whether to keep seeds that diverged, marked in one more column; what is no number is null.
        """
        return frame(self, diverged)

    def to_pandas(self, diverged: bool = False) -> Any:
        """The same for pandas. PyArrow is not needed."""
        return to_pandas(self.frame(diverged))

    def to_latex(self, *metrics: str, last: float = 1.0) -> str:
        """The summary as a LaTeX table: a row per agent, mean ± half the width of its interval in each column."""
        return self.summary(*metrics, last=last).to_latex()

    def plot(self, metric: str | None = None, smooth: int | None = None, backend: str = ALTAIR) -> Any:
        """A chart of one metric, by default the first: the mean over seeds, with bands of Student's 90 % interval.

        Args:
            smooth: how many windows each point averages, never across a task switch; default: a twentieth of a task.
            backend: altair (a chart: `.save("x.svg")`), or matplotlib (a `Figure`: `.savefig("x.pdf")`).
        """
        from remanence.report.panels.run import chart, matplotlib_figure

        if backend not in (ALTAIR, MATPLOTLIB):
            raise unknown("backend", str(backend), (ALTAIR, MATPLOTLIB))
        return (chart if backend == ALTAIR else matplotlib_figure)(self, metric, smooth)

    def policy(self, contender: str, seed: int | None = None, agent: AgentConfig | type | None = None) -> Policy:
        """The final policy of a contender, by default of the first seed; of a life that the callback stopped, the last one.

        Args: agent: its class or configuration, if it has code of your own and the run was read from disk.
        """
        if contender not in self.contenders:
            raise unknown("agent", contender, self.contenders)
        ran = set(self._lanes_of(contender)["seed"])
        seeds = [one for one in self.seeds if one in ran]
        seed = seeds[0] if seed is None else seed
        if seed not in seeds:
            raise UserError(f"there is no run of '{contender}' with seed {seed}: seeds are {seeds}")
        if self.location is None or (contender, seed) in self.policies:
            return self.policies[contender, seed]
        name = f"{POLICIES}/{self.lane(contender, seed)}.npz"
        read_checked(self.path, name)  # raises if it has changed
        config = self.configs.get(contender)
        return load_policy(self.path / name, config if agent is None and config and needs_code(config) else agent)

    def save(self, path: str | Path) -> Path:
        """Writes the run to a directory, for `remanence.load_results`. Policies are saved with it."""
        if self.stopped:
            raise UserError(
                f"save writes whole lives only ({stopped_remark(self)}): keep policies with policy(agent).save(path), and values "
                "with frame().write_parquet(path)"
            )
        policies = {self.lane(contender, seed): policy for (contender, seed), policy in self.policies.items()}
        return save(self, Path(path), policies)

    def __str__(self) -> str:
        """What ran, and its summary."""
        return (
            f"{self._heading}\n{self.summary()}" if len(self.lanes) and self.description["contenders"] else repr(self)
        )

    def _repr_html_(self) -> str:
        """Notebooks show the chart, as a picture, and the summary: without a network."""
        import html

        from remanence.report.escaping import picture

        if not self.metrics:
            return f"<pre>{html.escape(str(self))}</pre>"
        return f"<p>{html.escape(self._heading)}</p>{picture(self.plot())}{self.summary()._repr_html_()}"

    @property
    def _heading(self) -> str:
        """The environment, the stream, and the seeds, in one line."""
        unit, length = next(iter(self.description["stream"]["segment_length"].items()))
        segments = len(self.description["stream"]["order"])
        stream = f"{segments * length:,} {unit}" + (f" in {segments} tasks" if segments > 1 else "")
        return printable(f"{self.environments}: {stream}, {len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}")

    def _metric(self, metric: str | None) -> str:
        from remanence.report.panels.run import chosen_metric

        return chosen_metric(self, metric)


def load_results(path: str | Path) -> LiveResults:
    """Reads a run of `live` or of an experiment from its directory."""
    found = load(path)
    return LiveResults(found.location, found.description, found.lanes, found.curves, found.maps)
