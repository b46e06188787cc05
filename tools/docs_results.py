"""Writes the results of finished runs into the documentation: figures, and the table of docs/reproduction.md.

Verdicts are computed from the runs. The status of experiments that were not run at full size is taken from the README.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remanence.experiments import REGISTRY
from remanence.experiments.base import Experiment
from remanence.report.page import Section, write_report
from remanence.report.terminal import gains_figure, size
from remanence.results.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim
from remanence.results.directory import RunDirectory
from remanence.results.published import Agreement
from remanence.results.store import Results, find_runs, load
from remanence.runs.describe import describe
from remanence.runs.jobs import settings

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "reproduction.md", ROOT / "README.md"
FIGURES = Path("images") / "figures"  # relative to a page
# The figures shown on the page; others are in the report.
SHOWN = (
    "curves",
    "published",
    "plane",
    "heatmap",
    "discrete",
    "continuous",
    "evolution",
    "diameter",
    "policies",
    "sensitivity",
    "lifetime",
    "gains",
    "exact",
)
MARKED = re.compile(r"(<!-- written by tools/docs_results.py -->\n).*(<!-- until here -->)", re.DOTALL)


def main(runs: Path) -> None:
    found = {name: results for name, one in REGISTRY.items() if (results := full_run(one, runs))}
    pictures = {name: list(draw(REGISTRY[name], results)) for name, results in found.items()}
    said = rows_of(README.read_text(encoding="utf-8"))
    lines = [
        "| in the paper | command | size | time on 2 cores | claims of the paper | figure |",
        "|---|---|---|---|---|---|",
    ]
    sections: list[str] = []
    for name, one in REGISTRY.items():
        claims = one.judge(found[name]) if name in found else []
        verdict = (counts(claims) if claims else "nothing to decide") if name in found else said[name].status
        link = f"[{verdict}](#{anchor(name)})" if claims else verdict
        thumbnail = picture(pictures[name][0], one.title, "thumbnail") if pictures.get(name) else ""
        time = said[name].time or one.expected
        lines.append(f"| {one.figure} | `{command(one)}` | {extent(one)} | {time} | {link} | {thumbnail} |")
        if name in found:
            sections += section(one, claims, one.agreements(found[name]), pictures[name])
    text = "\n".join([*lines, "", "## Claim by claim", "", *sections])
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(lambda marks: f"{marks[1]}\n{text}\n{marks[2]}", page), encoding="utf-8")
    print(f"{len(found)} experiments of {len(REGISTRY)} with a finished run at full size")


def full_run(experiment: Experiment, runs: Path) -> Results | None:
    """The finished run of the reference preset at full size; None if there is none."""
    preset = experiment.reference_preset
    plan = experiment.plan(preset)
    if experiment.sweep_of:
        paths = find_runs(runs / "sweep", experiment.sweep_of)
    elif experiment.run_fn:  # it describes itself
        paths = find_runs(runs, experiment.name)
    else:
        asked = describe(experiment.run_of or experiment.name, preset, plan, list(range(plan.seeds)))
        paths = [RunDirectory(runs, asked).path]
    for path in paths:
        if path.exists():
            results = load(path)
            if results.finished and results.preset == preset and len(results.seeds) == plan.seeds:
                return results
    return None


def draw(experiment: Experiment, results: Results) -> Iterator[str]:
    """Writes the figures to show; returns their file names."""
    drawn = {**experiment.figures(results), **gains_figure(experiment, results)}
    charts = {name: chart for name, chart in drawn.items() if name in SHOWN}
    about = Section(experiment.name, experiment.title, experiment.figure, results, charts, (), (), (), "")
    with tempfile.TemporaryDirectory() as report:
        write_report([about], Path(report))
        (ROOT / "docs" / FIGURES).mkdir(parents=True, exist_ok=True)
        for name in charts:
            file = f"{about.anchor}-{name}.svg"
            shutil.copy(Path(report) / file, ROOT / "docs" / FIGURES / file)
            yield file


def section(
    experiment: Experiment, claims: list[Claim], agreements: list[Agreement], pictures: list[str]
) -> Iterator[str]:
    yield from (f"### {experiment.title} {{ #{anchor(experiment.name)} }}", "")
    yield from (" ".join([f"`{experiment.name}`; in the paper: {experiment.figure}.", *experiment.remarks]), "")
    if claims:
        yield from ("| claim of the paper | verdict | evidence |", "|---|---|---|")
        yield from (f"| {one.text} | **{one.verdict}** | {one.evidence} |" for one in claims)
        yield ""
    if agreements:
        yield from ("| published curve | verdict | evidence |", "|---|---|---|")
        yield from (f"| {one.contender}, `{one.metric}` | {one.verdict} | {one.evidence} |" for one in agreements)
        yield ""
    for file in pictures:
        yield from (picture(file, experiment.title, "figure"), "")


def picture(file: str, title: str, kind: str) -> str:
    return f"[![{title}]({(FIGURES / file).as_posix()}){{ .{kind} loading=lazy }}]({(FIGURES / file).as_posix()})"


def counts(claims: list[Claim]) -> str:
    """ "5 of 6 reproduced, 1 not reproduced"."""
    verdicts = [one.verdict for one in claims]
    others = [f"{verdicts.count(kind)} {kind}" for kind in (NOT_REPRODUCED, UNDECIDED) if kind in verdicts]
    return ", ".join([f"{verdicts.count(REPRODUCED)} of {len(claims)} reproduced", *others])


class Row(NamedTuple):
    """An experiment's row in the README."""

    time: str | None  # None if several experiments share a row
    status: str


def rows_of(readme: str) -> dict[str, Row]:
    """The README's table, by experiment; `-name` in it is short for another of the same family."""
    said: dict[str, Row] = {}
    for row in re.findall(r"^\| (`.*) \|$", readme, re.MULTILINE):
        cells = [cell.strip() for cell in row.split(" | ")]
        names = re.findall(r"`([^`]+)`", cells[0])
        family = names[0].rpartition("-")[0]
        status = re.sub(r"\(\[.*?\]\(.*?\)\)", "", cells[-1]).strip()
        for name in names:
            said[family + name if name.startswith("-") else name] = Row(cells[-2] if len(names) == 1 else None, status)
    return said


def extent(experiment: Experiment) -> str:
    """The full size of an experiment."""
    plan = experiment.plan(experiment.reference_preset)
    if not experiment.sweep_of:
        return size(plan)
    count = sum(len(settings(contender)) for contender in plan.contenders.values())
    return size(plan).replace(f"{len(plan.contenders)} agents", f"{count} settings")


def command(experiment: Experiment) -> str:
    """The command that runs the reference preset."""
    preset = experiment.reference_preset
    return f"remanence run {experiment.name}" + ("" if preset == experiment.default_preset else f" --preset {preset}")


def anchor(name: str) -> str:
    return name.replace("/", "-")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
