"""Runs the paper's long experiments at full size, one after the other, and archives each as soon as it is finished.

`nice python tools/full_size.py [--out DIR] [--archive DIR]`

It takes some days on two cores. The same command goes on where it was stopped: by Ctrl-C, or by SIGTERM to this process. What the
archive has already is not run again. More agents come before more seeds, and seeds before ablations.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from archive import archive, commit_here
from remanence.experiments import get
from remanence.experiments.deep import CONTROL
from remanence.results.archive import ARCHIVE
from remanence.results.store import Results, load
from remanence.runs.plan import Plan
from remanence.runs.provenance import CROSS, provenance

# Lanes on binary observations learn one per core (docs/performance.md).
ONE_LANE_PER_CORE = ("--jobs", "2", "--cores-per-group", "1", "--lanes-per-group", "1")
ONE_AT_A_TIME = "--one-at-a-time"  # rows and columns of the tables through the chosen setting
FIRST, RIVALS = ("PT-DQN", CONTROL), ("DQN", "DQN-multihead", "DQN-large-buffer")
GAMES = ("breakout", "asterix", "freeway", "space_invaders", "seaquest")


class Item(NamedTuple):
    """A run of the queue."""

    experiment: str
    preset: str
    seeds: int
    agents: tuple[str, ...] = ()
    """all, if it names none"""
    options: tuple[str, ...] = ()

    def command(self, out: Path, reuse: Path) -> list[str]:
        only = ["--contenders", *self.agents] if self.agents else []
        places = ["--out", str(out), "--reuse", str(reuse)]
        asked = ["--preset", self.preset, "--seeds", str(self.seeds), *only]
        return ["remanence", "run", self.experiment, *asked, *self.options, *places]

    def run_in(self, out: Path) -> Results | None:
        """A finished run with all of its lanes in a directory of runs, if there is one."""
        experiment = get(self.experiment)
        found, plan = map(load, experiment.runs(out)), experiment.plan(self.preset)
        return next((one for one in found if one.preset == self.preset and self._is_in(one, plan)), None)

    def _is_in(self, results: Results, plan: Plan) -> bool:
        how, agents = provenance(results, plan, trial=False), set(self.agents or plan.contenders)
        as_asked = not how.shortened and how.changed == ((CROSS,) if ONE_AT_A_TIME in self.options else ())
        return as_asked and results.finished and agents <= set(results.contenders) and len(results.seeds) >= self.seeds


def with_more_agents(experiment: str, seeds: int) -> list[Item]:
    """Figure 5: PT-DQN and its control first, then one agent more in each run."""
    steps = [(*FIRST, "Random", *RIVALS[:count]) for count in range(len(RIVALS) + 1)]
    return [Item(experiment, "released", seeds, agents, ONE_LANE_PER_CORE) for agents in steps]


QUEUE = (
    Item("figure2/image", "released", 30),
    Item("figure2/image", "paper", 30),
    *with_more_agents("figure5/jellybean", seeds=5),
    *with_more_agents("figure5/minatar", seeds=3),
    Item("figure3/rooms", "paper", 10),
    Item("figure2/rooms", "released", 10),
    Item("figure2/rooms", "paper", 10),
    *(Item(f"benchmark/minatar/{game}", "full", 5, (), ONE_LANE_PER_CORE) for game in GAMES),
    Item("appendix/jbw-decay", "released", 3, (), ONE_LANE_PER_CORE),
    Item("appendix/capacity", "released", 3, (), ONE_LANE_PER_CORE),
    Item("appendix/sensitivity-jellybean", "released", 3, (), (*ONE_LANE_PER_CORE, ONE_AT_A_TIME)),
    Item("appendix/sensitivity-minatar", "released", 3, (), (*ONE_LANE_PER_CORE, ONE_AT_A_TIME)),
    Item("figure5/minatar", "released", 5, (), ONE_LANE_PER_CORE),
    Item("figure5/jellybean", "released", 10, (), ONE_LANE_PER_CORE),
    Item("figure3/rooms", "paper", 30),
)


def run(command: Sequence[str]) -> int:
    """Runs a command of the package; -> its exit code. Ctrl-C in a terminal reaches it by itself, SIGTERM is passed on."""
    print(f"$ {shlex.join(command)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", *command])
    before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = process.wait()
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, ignored)
    return code


def full_size(queue: Iterable[Item], out: Path, to: Path) -> int:
    """Runs what the archive has not; -> the exit code of the first run that did not finish, else 0."""
    for item in queue:
        if item.run_in(to):
            continue
        if code := run(item.command(out, to)):
            return code
        results = item.run_in(out)
        assert results is not None, item
        print(f"archived: {archive(results.path, to, commit_here())}", flush=True)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="directory of all runs")
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="the archive; default: that of the package")
    asked = parser.parse_args()
    sys.exit(full_size(QUEUE, asked.out, asked.archive))


if __name__ == "__main__":
    main()
