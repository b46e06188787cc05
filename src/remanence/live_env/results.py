"""What `live` returns: tables, a chart, and the learned policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remanence.core.errors import UserError, unknown
from remanence.gym.policy import Policy, load_policy
from remanence.results.directory import save
from remanence.results.manifest import read_checked
from remanence.results.store import POLICIES, Results, load

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, repr=False)
class LiveResults(Results):
    """The results of `live`, or of any run read from disk: tables, a chart, and the learned policies."""

    policies: Mapping[tuple[str, int], Policy] = field(default_factory=dict)
    """by contender and seed, if the run is only in memory"""

    def plot(self, metric: str | None = None, smooth: int = 1) -> alt.TopLevelMixin:
        """A chart of one metric, by default the first; each point is the mean of `smooth` windows."""
        from remanence.report.panels.run import chart

        return chart(self, metric, smooth)

    def policy(self, contender: str, seed: int | None = None) -> Policy:
        """The final policy of a contender, by default of the first seed."""
        if contender not in self.contenders:
            raise unknown("agent", contender, self.contenders)
        seed = self.seeds[0] if seed is None else seed
        if seed not in self.seeds:
            raise UserError(f"there is no run of '{contender}' with seed {seed}: seeds are {self.seeds}")
        if self.location is None:
            return self.policies[contender, seed]
        name = f"{POLICIES}/{self.lane(contender, seed)}.npz"
        read_checked(self.path, name)  # raises if it has changed
        return load_policy(self.path / name)

    def save(self, path: str | Path) -> Path:
        """Writes the run to a directory, for `remanence.load_results`. Policies are saved with it."""
        policies = {self.lane(contender, seed): policy for (contender, seed), policy in self.policies.items()}
        return save(self, Path(path), policies)

    def _repr_mimebundle_(self, *options: Any, **more: Any) -> Any:
        """Notebooks show the chart."""
        return self.plot()._repr_mimebundle_(*options, **more)  # type: ignore[attr-defined]


def load_results(path: str | Path) -> LiveResults:
    """Reads a run of `live` or of an experiment from its directory."""
    found = load(path)
    return LiveResults(found.location, found.description, found.lanes, found.curves, found.maps)
