"""Writes the results of archived runs into the documentation: figures, the tables of docs/reproduction.md, numbers of
docs/findings.md, verdicts of docs/experiments.md, and the short table of the README.

Everything is computed from the archive. The status of experiments that are not archived is taken from docs/experiments.md.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from remanence.experiments import REGISTRY
from remanence.experiments.base import NOT_IN_PAPER, Experiment
from remanence.report.numbers import ABOUT_GAINS, PLUS_MINUS, with_margin
from remanence.report.page import Section, write_report
from remanence.report.terminal import gains_figure, size
from remanence.results.archive import origin
from remanence.results.claims import (
    CHANGED,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    SHORTENED,
    TOO_FEW,
    UNDECIDED,
    Claim,
)
from remanence.results.published import Agreement
from remanence.results.store import Results
from remanence.runs.jobs import settings

ROOT = Path(__file__).parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
PAGE, FINDINGS, EXPERIMENTS = (DOCS / f"{name}.md" for name in ("reproduction", "findings", "experiments"))
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
    "half-life",
)
SHOWN_OF_OTHERS = ("lifetime", "gains")
ABOUT_ARCHIVE = (
    "These runs come with the package: `remanence report --archive` draws them all, and beside them runs of your own; "
    "`remanence show NAME --archive` shows one. Hours are by the clock, of all seeds together, on two cores that other "
    "work may have shared; those of `figure5/jellybean` are of one core, and two lanes ran at a time. Points of published "
    "curves are compared where the preset is that of the published panel."
)
COLUMNS = (
    *("experiment", "preset", "agents", "seeds", "length", "steps in all", "hours", "processor hours", "version"),
    *("claims", "published points inside our 90 % interval"),
)
MARKED = re.compile(r"(<!-- written by tools/docs_results.py -->\n).*(<!-- until here -->)", re.DOTALL)
OF_EXPERIMENT = re.compile(r"(<!-- archive: ([\w/-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    archived = {name: one.archived() for name, one in REGISTRY.items()}
    best = {name: runs[0] for name, runs in archived.items() if runs}
    said = rows_of(EXPERIMENTS.read_text(encoding="utf-8"))
    pictures = {name: list(draw(REGISTRY[name], results)) for name, results in best.items()}
    for name, runs in archived.items():
        for other in runs[1:]:  # of another preset
            list(draw(REGISTRY[name], other, f"{name}/{other.preset}", SHOWN_OF_OTHERS))
    text = "\n".join(
        [
            *overview(best, said, pictures),
            "",
            "## Archived runs { #archive }",
            "",
            ABOUT_ARCHIVE,
            "",
            *table_of_runs(archived),
            "",
            "## Claim by claim",
            "",
            *(line for name, results in best.items() for line in section(REGISTRY[name], results, pictures[name])),
        ]
    )
    rewrite(PAGE, MARKED, lambda marks: f"{marks[1]}\n{text}\n{marks[2]}")
    rewrite(
        FINDINGS, OF_EXPERIMENT, lambda marks: f"{marks[1]}{finding(REGISTRY[marks[2]], archived[marks[2]])}{marks[3]}"
    )
    EXPERIMENTS.write_text(with_results(EXPERIMENTS.read_text(encoding="utf-8"), best), encoding="utf-8")
    short = "\n".join(table_of_claims(best))
    rewrite(README, MARKED, lambda marks: f"{marks[1]}\n{short}\n\n{marks[2]}")
    print(f"{len(best)} experiments of {len(REGISTRY)} are archived")


def rewrite(page: Path, pattern: re.Pattern[str], written: Callable[[re.Match[str]], str]) -> None:
    page.write_text(pattern.sub(written, page.read_text(encoding="utf-8")), encoding="utf-8")


def overview(
    best: Mapping[str, Results], said: Mapping[str, Row], pictures: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """One row per experiment."""
    yield "| in the paper | command | size | time on 2 cores | claims | figure |"
    yield "|---|---|---|---|---|---|"
    for name, one in REGISTRY.items():
        claims = one.judge(best[name]) if name in best else []
        verdict = (counts(claims) if claims else "nothing to decide") if name in best else said[name].status
        link = f"[{verdict}](#{anchor(name)})" if claims else verdict
        thumbnail = picture(pictures[name][0], one.title, "thumbnail") if pictures.get(name) else ""
        time = said[name].time or one.expected
        yield f"| {one.figure} | `{command(one)}` | {extent(one)} | {time} | {link} | {thumbnail} |"


def table_of_claims(best: Mapping[str, Results]) -> Iterator[str]:
    """One row per archived experiment that decides something."""
    yield from ("| in the paper | experiment | seeds | claims |", "|---|---|---|---|")
    for name, results in best.items():
        if verdict := counts(REGISTRY[name].judge(results)):
            where = f"docs/reproduction.md#{anchor(name)}"
            yield f"| {REGISTRY[name].figure} | `{name}` | {len(results.seeds)} | [{verdict}]({where}) |"


def table_of_runs(archived: Mapping[str, Sequence[Results]]) -> Iterator[str]:
    """One row per archived run."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for name, runs in archived.items():
        if not REGISTRY[name].run_of:
            yield from (f"| {' | '.join(row_of_run(REGISTRY[name], results))} |" for results in runs)


def row_of_run(experiment: Experiment, results: Results) -> Iterator[str]:
    about = origin(results)
    yield from (f"`{experiment.name}`", results.preset, str(len(results.contenders)), str(len(results.seeds)))
    yield length_of(results)
    steps = float(results.lanes["steps"].sum()) if "steps" in results.lanes.columns else 0.0
    yield f"{steps / 1e6:,.3g}M" if steps else "–"
    yield from ("–" if math.isnan(hours) else f"{hours:.2g}" for hours in (about.hours, about.processor_hours))
    yield f"{about.version} ({about.commit})" if about.commit else about.version
    yield counts(experiment.judge(results)) or "–"
    yield share_inside(experiment.agreements(results))


def finding(experiment: Experiment, runs: Sequence[Results]) -> str:
    """What archived runs found, in a few lines."""
    lines = [line for results in runs for line in of_run(experiment, results)] or [
        "No run at full size is archived yet.",
        "",
    ]
    return "\n".join(["", *lines, ""])


def of_run(experiment: Experiment, results: Results) -> Iterator[str]:
    how, claims, agreements = experiment.provenance(results), experiment.judge(results), experiment.agreements(results)
    parts = (f"preset `{results.preset}`", f"{len(results.seeds)} seeds", length_of(results), how.text)
    verdicts = f" [{counts(claims)}](reproduction.md#{anchor(experiment.name)})." if counts(claims) else ""
    yield from (f"Archived run: {', '.join(part for part in parts if part)}.{verdicts}", "")
    if agreements:
        yield from (f"Published points inside our 90 % interval: {share_inside(agreements)}.", "")
        yield from (
            "| published curve | published mean | our mean | points inside | expected |",
            "|---|---|---|---|---|",
        )
        for one in agreements:
            curve, means = f"{one.contender}, `{one.metric}`", f"{one.published:.4g} | {one.ours:.4g}"
            yield f"| {curve} | {means} | {one.inside:.0%} | {one.expected:.0%} |"
        yield ""
    if gains := experiment.gains(results):
        yield from (f"Not in the paper. {ABOUT_GAINS} {PLUS_MINUS}", "")
        yield f"| gain in `{gains[0].metric}` | over | by forgetting | by remembering | total |"
        yield "|---|---|---|---|---|"
        for gain in gains:
            parts = " | ".join(with_margin(part, 4) for part in (gain.forgetting, gain.remembering, gain.total))
            yield f"| {gain.agent} | {gain.learner} | {parts} |"
        yield ""


def with_results(page: str, best: Mapping[str, Results]) -> str:
    """The page of all experiments with the verdicts of archived runs, in rows that are of one experiment."""

    def rewritten(row: re.Match[str]) -> str:
        cells = row[0].split(" | ")
        names = re.findall(r"`([^`]+)`", cells[0])
        results = best.get(names[0]) if len(names) == 1 else None
        if results is None:
            return row[0]
        claims = REGISTRY[names[0]].judge(results)
        cells[-1] = f"{counts(claims)} (`{results.preset}`, {len(results.seeds)} seeds) |" if claims else cells[-1]
        return " | ".join(cells)

    return re.sub(r"^\| `.*\|$", rewritten, page, flags=re.MULTILINE)


def length_of(results: Results) -> str:
    stream = results.description.get("before", results.description["stream"])
    unit, length = next(iter(stream["segment_length"].items()))
    return f"{len(stream['order']) * length:,} {unit}"


def share_inside(agreements: Sequence[Agreement]) -> str:
    points = sum(one.points for one in agreements)
    if not points:
        return "–"
    inside, expected = (
        sum(one.points * part for one, part in zip(agreements, parts, strict=True)) / points
        for parts in ([one.inside for one in agreements], [one.expected for one in agreements])
    )
    return f"{inside:.0%} of {points:,} ({expected:.0%} expected)"


def draw(experiment: Experiment, results: Results, name: str = "", shown: Sequence[str] = SHOWN) -> Iterator[str]:
    """Writes the figures to show; returns their file names. `name`: how they begin, if not by the experiment's."""
    drawn = {**experiment.figures(results), **gains_figure(experiment, results)}
    charts = {kind: chart for kind, chart in drawn.items() if kind in shown}
    about = Section(name or experiment.name, experiment.title, experiment.figure, results, charts, (), (), (), "")
    with tempfile.TemporaryDirectory() as report:
        write_report([about], Path(report))
        (ROOT / "docs" / FIGURES).mkdir(parents=True, exist_ok=True)
        for kind in charts:
            file = f"{about.anchor}-{kind}.svg"
            shutil.copy(Path(report) / file, ROOT / "docs" / FIGURES / file)
            yield file


def section(experiment: Experiment, results: Results, pictures: Sequence[str]) -> Iterator[str]:
    claims, agreements = experiment.judge(results), experiment.agreements(results)
    yield from (f"### {experiment.title} {{ #{anchor(experiment.name)} }}", "")
    how = experiment.provenance(results).text
    run = f"Preset `{results.preset}`, {len(results.seeds)} seeds{f'; {how}' if how else ''}."
    yield from (" ".join([_source(experiment), run, *experiment.remarks]), "")
    if claims:
        yield from ("| claim | verdict | evidence |", "|---|---|---|")
        yield from (f"| {one.text} | **{one.verdict}** | {one.evidence} |" for one in claims)
        yield ""
    if agreements:
        yield from ("| published curve | verdict | evidence |", "|---|---|---|")
        yield from (f"| {one.contender}, `{one.metric}` | {one.verdict} | {one.evidence} |" for one in agreements)
        yield ""
    for file in pictures:
        yield from (picture(file, experiment.title, "figure"), "")


def _source(experiment: Experiment) -> str:
    figure = experiment.figure
    return (
        f"`{experiment.name}`, {figure}." if figure == NOT_IN_PAPER else f"`{experiment.name}`; in the paper: {figure}."
    )


def picture(file: str, title: str, kind: str) -> str:
    return f"[![{title}]({(FIGURES / file).as_posix()}){{ .{kind} loading=lazy }}]({(FIGURES / file).as_posix()})"


def counts(claims: Sequence[Claim]) -> str:
    """ "5 of 6 reproduced, 1 not reproduced"; empty without claims."""
    verdicts = [one.verdict for one in claims]
    kinds = (NOT_REPRODUCED, UNDECIDED, TOO_FEW, SHORTENED, CHANGED, NOT_RUN)
    others = [f"{verdicts.count(kind)} {kind}" for kind in kinds if kind in verdicts]
    return ", ".join([f"{verdicts.count(REPRODUCED)} of {len(verdicts)} reproduced", *others]) if verdicts else ""


class Row(NamedTuple):
    """An experiment's row in the table of all experiments."""

    time: str | None  # None if several experiments share a row
    status: str


def rows_of(page: str) -> dict[str, Row]:
    """The table of all experiments, by name; `-name` in it is short for another of the same family."""
    said: dict[str, Row] = {}
    for row in re.findall(r"^\| (`.*) \|$", page, re.MULTILINE):
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
    main()
