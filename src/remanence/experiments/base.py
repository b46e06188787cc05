"""What an experiment is: plans by preset, figures, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from remanence.core.errors import unknown
from remanence.core.lazy import alt
from remanence.results.archive import ARCHIVE
from remanence.results.claims import CHANGED, SHORTENED, Claim, withheld
from remanence.results.gains import Gain, gains
from remanence.results.observations import Observation
from remanence.results.published import Agreement, Published, agreements
from remanence.results.store import Results, find_runs, load
from remanence.runs.execution import Execution
from remanence.runs.plan import Plan
from remanence.runs.provenance import Provenance, provenance

PAPER, RELEASED, SMOKE = "paper", "released", "smoke"
NOT_IN_PAPER = "not in the paper"


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or an experiment of ours."""

    name: str
    figure: str
    """figure or section of the paper, or NOT_IN_PAPER"""
    title: str
    plans: Mapping[str, Callable[[], Plan]]
    """functions that make the plan of each preset, the default one first"""
    figures: Callable[[Results], dict[str, alt.TopLevelMixin]]
    claims: Callable[[Results], list[Claim]]
    """what the paper or another publication says, checked on a run as it is; `judge` takes into account how it was changed"""
    expected: str
    """how long the paper preset takes on two cores"""
    primary_metrics: tuple[str, ...] = ()
    """the primary metrics"""
    continual: str = ""
    """the metric for jumpstart, recovery, forgetting and transfer; default: the first primary metric"""
    reference: str = ""
    """the preset that the published panel belongs to; default: the default preset"""
    published: Published | None = None
    """the authors' curves of this panel"""
    remarks: tuple[str, ...] = ()
    """notes for the reader of the results"""
    sweep_of: str = ""
    """for a sensitivity figure: the experiment whose sweep it shows"""
    run_of: str = ""
    """for another figure from the runs of an experiment: its name"""
    paper_values: Mapping[tuple[str, tuple[float, ...]], float] = field(default_factory=dict)
    """for a sensitivity table: the paper's value for (contender, its searched values)"""
    observations: Callable[[Results], list[Observation]] = lambda _: []
    """what a run shows beside the claims of the paper"""
    run_fn: Callable[[Plan, str, int, Path, Console, Execution], Results] | None = None
    """for an experiment with its own way to run: (plan, preset, seeds, out, console, execution) -> its results"""

    @property
    def default_preset(self) -> str:
        return next(iter(self.plans), "")

    @property
    def reference_preset(self) -> str:
        return self.reference or self.default_preset

    def agreements(self, results: Results) -> list[Agreement]:
        """How many points of each published curve lie inside our interval. Only for runs of the reference preset at full length,
        with any number of seeds."""
        how = self.provenance(results)
        comparable = results.preset == self.reference_preset and not how.shortened and not how.changed
        return list(agreements(results, self.published)) if self.published and comparable else []

    def gains(self, results: Results) -> list[Gain]:
        """PT's gain over the learner it is built on, split by the control that never consolidates, where both ran."""
        return gains(results, self.continual_metric(results)) if results.metrics else []

    def continual_metric(self, results: Results) -> str:
        return results.first_metrics((self.continual, *self.primary_metrics))[0]

    def plan(self, preset: str) -> Plan:
        if preset not in self.plans:
            raise unknown(f"preset of {self.name}", preset, self.plans)
        return self.plans[preset]()

    def provenance(self, results: Results) -> Provenance:
        """How a run differs from its preset."""
        if not self.plans:  # the run of an experiment that is not registered
            return Provenance()
        if results.preset not in self.plans:
            return Provenance(changed=(f"preset {results.preset}, which {self.name} does not have",))
        return provenance(results, self.plan(results.preset), trial=results.preset == SMOKE)

    def runs(self, out: Path) -> list[Path]:
        """Its runs in a directory of runs, the newest first."""
        if self.sweep_of:
            return find_runs(out / "sweep", self.sweep_of)
        return find_runs(out, self.run_of or self.name)

    def archived(self) -> list[Results]:
        """Its runs in the archive: the best of each preset, that of the published panel first."""
        best: dict[str, Results] = {}
        for one, _ in self.by_worth([load(path) for path in self.runs(ARCHIVE)]):
            best.setdefault(one.preset, one)
        return sorted(best.values(), key=lambda one: one.preset != self.reference_preset)

    def by_worth(self, found: Sequence[Results]) -> list[tuple[Results, Provenance]]:
        """Runs (the newest first) in the order of their worth: full ones, those with another number of seeds, then all others.

        Among equals the default preset comes first, then more seeds. So a small later try never hides a full run.
        """
        runs = [(one, self.provenance(one)) for one in found]
        return sorted(runs, key=lambda run: (run[1].rank, run[0].preset != self.default_preset, -len(run[0].seeds)))

    def judge(self, results: Results) -> list[Claim]:
        """The claims with their verdicts; without, but with all numbers, where a run is shortened or its agents are changed.

        Where agents are missing, the claims about them are *not run*; the others are judged as in a full run.
        """
        claims, how = self.claims(results), self.provenance(results)
        if how.shortened or how.changed:
            why = ", ".join(filter(None, (*how.shortened, *how.changed, how.agents)))
            return withheld(claims, SHORTENED if how.shortened else CHANGED, why)
        return [replace(one, evidence=f"{how.seeds}: {one.evidence}") for one in claims] if how.seeds else claims
