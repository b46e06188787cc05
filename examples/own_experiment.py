"""Your own experiment: agents, seeds, statistics, claims and a figure, like the paper's experiments.

    python examples/own_experiment.py                       # runs it and draws its figure
    remanence run examples/own_experiment.py                # the same with the command line; finished work is not repeated
    remanence run examples/own_experiment.py --seeds 60 --set PT-Q.permanent_lr=0.1
    remanence sweep examples/own_experiment.py              # all values of `search`, then the best ones on other seeds
    remanence report examples/own_experiment.py             # an HTML page with figure, table and claims

The question: one corner of a grid has a reward, another corner in each task, and task boundaries are unknown. Does a permanent
value function help?
"""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np

from remanence.agents.configs import PTQ, Q
from remanence.core.types import Episodes
from remanence.engine.probes import episode_return
from remanence.experiments.base import Experiment
from remanence.report.figures import Line, learning_curves
from remanence.results.claims import Claim, claim, lower
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Contender, Plan, shrink
from remanence.runs.progress import messages
from remanence.runs.run import execute
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid

RETURN = "discounted_return"


def plan() -> Plan:
    """Everything that determines the results, except seeds."""
    world = CornerGrid(size=5)
    return Plan(
        world=world,
        stream=Stream(np.eye(4, dtype=np.float32), cyclic(4, 12), Episodes(50), boundaries_known=False),
        contenders={
            "Q": Contender(Q(lr=0.5), {"lr": (0.1, 0.3, 0.5)}),
            "PT-Q": Contender(
                PTQ(permanent_lr=0.01, transient_lr=0.5, decay=0.5, consolidate_every=Episodes(10)),
                {"permanent_lr": (0.01, 0.1), "transient_lr": (0.3, 0.5)},
            ),
        },
        probe=lambda _: episode_return(),
        seeds=30,
        max_steps=500_000,
    )


def figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    return {"curves": learning_curves(results, [Line(RETURN)], title="A corner that pays", x="episode", smooth=5)}


def claims(results: Results) -> list[Claim]:
    """Your hypotheses, as checks: decided by a confidence interval over seeds."""
    aucs = {name: auc(results, name, RETURN) for name in results.contenders}
    return [
        claim("pt-helps", "PT-Q collects more return than Q", lower(results, "Q", "PT-Q", aucs, "mean return")),
    ]


EXPERIMENT = Experiment(
    name="own/corner-that-pays",
    figure="your own",
    title="A corner that pays",
    plans={"full": plan, "smoke": lambda: shrink(plan(), segments=4, segment_length=10, seeds=3)},
    figures=figures,
    claims=claims,
    expected="10 s",
    primary_metrics=(RETURN,),
)


def main(preset: str = "full", out: Path = Path("runs")) -> Results:
    """Runs the missing lanes, prints the results and draws the figure into the run's directory."""
    chosen = EXPERIMENT.plan(preset)
    results = execute(EXPERIMENT.name, preset, chosen, chosen.seeds, out, messages())
    for name in results.contenders:
        print(f"{name}: {auc(results, name, RETURN).mean():.3f} per episode")
    for one in EXPERIMENT.claims(results):
        print(f"{one.text}: {one.verdict} ({one.evidence})")
    for name, chart in EXPERIMENT.figures(results).items():
        chart.save(results.path / f"{name}.svg")
        print(f"figure: {results.path / name}.svg")
    return results


if __name__ == "__main__":
    main()
