"""A self-contained HTML page: interactive figures, tables, claims and the command of each run. Works offline."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert

from remanence.core.files import remove_leftovers, replacing
from remanence.core.lazy import alt
from remanence.metrics import metric as metric_of
from remanence.report.escaping import content_security_policy, safe_chart, script_json, slug
from remanence.report.numbers import ABOUT_GAINS, PLUS_MINUS, of_summary, with_margin
from remanence.results.claims import MIN_SEEDS, NOT_REPRODUCED, REPRODUCED, Claim
from remanence.results.gains import Gain
from remanence.results.observations import Observation
from remanence.results.published import Agreement
from remanence.results.store import Results
from remanence.results.summary import at_switches, ranked_settings, summarise

STATIC = ("svg", "png", "pdf")
SECONDS_TO_WRITE = 3600.0  # another process may be writing the same report
ABOUT_AGREEMENT = (
    "The authors' curves, measured from their figure files, against our 90 % interval at each point. Neighboring points depend on "
    "each other, so a share varies much between runs of the same program."
)
VERDICT_CLASS = {REPRODUCED: "good", NOT_REPRODUCED: "bad"}


@cache
def figure_style() -> alt.Config:
    return alt.Config(
        font="Helvetica, Arial, sans-serif",
        background="white",
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#eeeeee"),
        title=alt.TitleConfig(fontSize=14, subtitleFontSize=11, subtitleColor="#555555", anchor="start"),
        legend=alt.LegendConfig(labelFontSize=11, titleFontSize=11, titleFontWeight="normal"),
        facet=alt.CompositionConfig(spacing=8),
    )


@dataclass(frozen=True)
class Section:
    """One experiment of the report."""

    name: str
    title: str
    where: str
    """figure or section of the paper"""
    results: Results
    charts: Mapping[str, alt.TopLevelMixin]
    claims: Sequence[Claim]
    primary_metrics: Sequence[str]
    remarks: Sequence[str]
    command: str
    """the command that repeats the run; empty if there is none"""
    changed: str = ""
    """how the run differs from its preset; empty for a full run"""
    others: Sequence[str] = ()
    """other runs of the experiment, which are not shown"""
    agreements: Sequence[Agreement] = ()
    gains: Sequence[Gain] = ()
    observations: Sequence[Observation] = ()
    origin: str = ""
    """whether it is a run of the archive or one of the user's, where both are shown"""

    @property
    def anchor(self) -> str:
        return slug(self.name)


def write_report(sections: Iterable[Section], to: Path) -> Path:
    """Writes `index.html` and a static copy of every figure; returns the page's path.

    Static copies are drawn in threads of their own while the next sections are made: if `sections` is lazy, that overlaps too.
    """
    to.mkdir(parents=True, exist_ok=True)
    remove_leftovers(to, min_age=SECONDS_TO_WRITE)
    links, written, specs, copies, used = [], [], {}, [], Counter()
    pool = ThreadPoolExecutor()
    try:
        for section in sections:
            used[section.anchor] += 1  # two runs of one experiment get two names
            anchor = f"{section.anchor}-{count}" if (count := used[section.anchor]) > 1 else section.anchor
            pictures = []
            for name, chart in section.charts.items():
                stem = f"{anchor}-{name}"
                # checking every row would take most of the time
                specs[stem] = styled(marked(chart, section.changed)).to_dict(validate=False)
                copies.append(pool.submit(_write_static, specs[stem], to, stem))
                pictures.append(stem)
            written.append(_section(section, anchor, pictures))
            links.append(f'<li><a href="#{anchor}">{html.escape(_title(section))}</a>{_changed(section)}</li>')
        for copy in copies:
            copy.result()  # raises what went wrong
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, the rest is not drawn
    path = to / "index.html"
    with replacing(path) as partial:
        partial.write_text(_page("".join(links), written, specs), encoding="utf-8")
    return path


def _write_static(spec: dict[str, Any], to: Path, stem: str) -> None:
    """Writes a figure as files in all static formats."""
    svg = vl_convert.vegalite_to_svg(spec)
    contents = svg.encode(), vl_convert.svg_to_png(svg, ppi=144), vl_convert.svg_to_pdf(svg)
    for suffix, content in zip(STATIC, contents, strict=True):
        with replacing(to / f"{stem}.{suffix}") as partial:
            partial.write_bytes(content)


def styled(chart: Any) -> Any:
    """Applies the style of all our figures."""
    chart = safe_chart(chart)  # a copy; each of Altair's `configure_…` would make one more, of the whole chart
    chart.config = figure_style()
    return chart


def marked(chart: Any, changed: str) -> Any:
    """The same chart with a line below its title that says how the run differs from its preset."""
    if not changed:
        return chart
    title = "" if chart.title is alt.Undefined else chart.title
    described = title.to_dict() if isinstance(title, alt.TitleParams) else {"text": title}
    lines = described.get("subtitle", [])
    subtitle = [changed, *(lines if isinstance(lines, list) else [lines])]
    return chart.properties(title=alt.TitleParams(**{**described, "subtitle": subtitle}))


def _title(section: Section) -> str:
    preset = f", preset {section.results.preset}" if section.results.preset else ""
    return f"{section.title} ({section.origin}{preset})" if section.origin else section.title


def _changed(section: Section) -> str:
    return f" <span class=changed>{html.escape(section.changed)}</span>" if section.changed else ""


def _section(section: Section, anchor: str, pictures: list[str]) -> str:
    results = section.results
    figures = "".join(
        f'<figure><div class="chart" id="{stem}"></div><figcaption>'
        + " · ".join(f'<a href="{stem}.{suffix}">{suffix.upper()}</a>' for suffix in STATIC)
        + "</figcaption></figure>"
        for stem in pictures
    )
    remarks = "".join(f"<p>{html.escape(remark)}</p>" for remark in section.remarks)
    command = f"<p>Repeat: <code>{html.escape(section.command)}</code></p>" if section.command else ""
    repeat = command + _description(results)
    if section.others:
        others = "".join(f"<li>{html.escape(one)}</li>" for one in section.others)
        repeat += f"<p>Other runs of this experiment, not shown:</p><ul>{others}</ul>"
    return (
        f'<section id="{anchor}"><h2>{html.escape(_title(section))}{_changed(section)}</h2>'
        f"<p class=where>{html.escape(section.where)} · <code>{html.escape(section.name)}</code> · "
        f"preset {html.escape(results.preset)} · "
        f"{len(results.seeds)} seeds</p>"
        f"{figures}{_summary_table(results, section.primary_metrics)}{_claims_table(section.claims)}"
        f"{_agreements_table(section.agreements)}{_gains_table(section.gains)}"
        f"{_observations_table(section.observations)}{remarks}{repeat}</section>"
    )


def _summary_table(results: Results, primary_metrics: Sequence[str]) -> str:
    metrics = results.first_metrics(primary_metrics)
    if not metrics:
        objective = results.objective
        return _settings_table(results, objective) if objective and objective in primary_metrics else ""
    head = "".join(f"<th colspan=3{_meaning(metric)}>{_with_unit(metric)}</th>" for metric in metrics)
    subhead = "<th>AUC, mean ±</th><th>after a switch</th><th>end of a task</th>" * len(metrics)
    rows = []
    for name, summary in summarise(results).items():
        hypers = html.escape(", ".join(f"{key} {value:g}" for key, value in summary["hypers"].items()))
        counts = results.left_out(name).items()
        diverged = "".join(f" <span class=bad>{count} seeds: {why}</span>" for why, count in counts)
        cells = "".join(_summary_cells(results, name, metric, summary["metrics"][metric]) for metric in metrics)
        rows.append(f"<tr><td>{html.escape(name)}{diverged}</td><td>{hypers}</td>{cells}</tr>")
    return _table(
        "",
        f"<tr><th rowspan=2>agent</th><th rowspan=2>hyperparameters</th>{head}</tr><tr>{subhead}</tr>",
        rows,
        f"{PLUS_MINUS} “After a switch”: mean of the first {results.unit} after a switch to another task. "
        f"“End of a task”: mean of the last {results.unit} of every segment.",
    )


def _settings_table(results: Results, metric: str) -> str:
    """Every setting of a sweep of `live`."""
    rows = [
        f"<tr><td>{html.escape(label)}</td><td>{with_margin(of_summary(values['metrics'][metric]), 4)}</td>"
        f"<td>{len(values['diverged']) or ''}</td><td>{'chosen' if values['chosen'] else ''}</td></tr>"
        for settings in ranked_settings(results, metric).values()
        for label, values in settings
    ]
    head = f"<tr><th>setting</th><th{_meaning(metric)}>{_with_unit(metric)}, AUC</th><th>diverged</th><th></th></tr>"
    return _table("", head, rows, PLUS_MINUS)


def _table(kind: str, head: str, rows: Iterable[str], remark: str) -> str:
    """`kind`: its class; empty for none."""
    opening = f"<table class={kind}>" if kind else "<table>"
    return f"{opening}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table><p class=note>{remark}</p>"


def _meaning(metric: str) -> str:
    meaning = metric_of(metric).meaning
    return f' title="{html.escape(meaning)}"' if meaning else ""


def _with_unit(metric: str) -> str:
    unit = metric_of(metric).unit
    return html.escape(f"{metric} ({unit})" if unit else metric)


def _summary_cells(results: Results, name: str, metric: str, summary: dict[str, Any]) -> str:
    if summary["auc_mean"] is None:
        return "<td>–</td><td>–</td><td>–</td>"
    after = at_switches(results, name, metric)[1]
    after = after[np.isfinite(after)]
    first = f"{after.mean():.4f}" if after.size else "–"
    last = f"{sum(summary['last']) / len(summary['last']):.4f}"
    return f"<td>{with_margin(of_summary(summary), 4)}</td><td>{first}</td><td>{last}</td>"


def _claims_table(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    rows = (
        f'<tr><td class="{VERDICT_CLASS.get(one.verdict, "open")}">{html.escape(one.verdict)}</td>'
        f"<td>{html.escape(one.text)}</td><td>{';<br>'.join(map(html.escape, one.evidence.split('; ')))}</td></tr>"
        for one in claims
    )
    return _table(
        "claims",
        "<tr><th>verdict</th><th>claim</th><th>evidence</th></tr>",
        rows,
        "[low, high] is Student's 90 % interval of the paired differences over "
        f"n seeds. A claim is decided if p ≤ 0.1 in Student's test, after Holm's correction where it makes several comparisons; "
        f"never below {MIN_SEEDS} seeds, nor in a shortened or changed run. Relative difference: of the means, by the second one. "
        "Probability of improvement: the share of seeds in which the difference is negative, as the claim says; ties count "
        "half.",
    )


def _agreements_table(agreements: Sequence[Agreement]) -> str:
    if not agreements:
        return ""
    rows = (
        f"<tr><td>{html.escape(one.contender)}, {html.escape(metric_of(one.metric).label)}</td>"
        f"<td>{html.escape(one.verdict)}</td><td>{html.escape(one.evidence)}</td></tr>"
        for one in agreements
    )
    head = "<tr><th>published curve</th><th>verdict</th><th>evidence</th></tr>"
    return _table("published", head, rows, ABOUT_AGREEMENT)


def _gains_table(gains: Sequence[Gain]) -> str:
    if not gains:
        return ""
    rows = (
        f"<tr><td>{html.escape(one.agent)}</td><td>{html.escape(one.learner)}</td>"
        + "".join(f"<td>{with_margin(part, 4)}</td>" for part in (one.forgetting, one.remembering, one.total))
        + "</tr>"
        for one in gains
    )
    head = f"<tr><th>gain in {html.escape(gains[0].metric)}</th><th>over</th>"
    head += "<th>by forgetting</th><th>by remembering</th><th>total</th></tr>"
    return _table("", head, rows, f"{ABOUT_GAINS} {PLUS_MINUS}")


def _observations_table(observations: Sequence[Observation]) -> str:
    if not observations:
        return ""
    rows = (f"<tr><td>{html.escape(one.text)}</td><td>{html.escape(one.evidence)}</td></tr>" for one in observations)
    return _table("", "<tr><th>found here</th><th>evidence</th></tr>", rows, "These are not claims of the paper.")


def _description(results: Results) -> str:
    text = html.escape(json.dumps(results.description, indent=2))
    return f"<details><summary>Description of this run ({html.escape(results.path.name)})</summary><pre>{text}</pre></details>"


@cache
def _bundle() -> str:
    """Vega, for pages that need no network. It takes two seconds: a page that is written again and again has it once."""
    return vl_convert.javascript_bundle("window.embedChart = vegaEmbed;").replace("</script", "<\\/script")


def _page(links: str, sections: list[str], specs: dict[str, Any]) -> str:
    script = _bundle() + _DRAW
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{content_security_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>remanence report</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>remanence report</h1>
<p>Continual reinforcement learning with a permanent and a transient value function. Hover over a curve for its numbers.</p>
<nav><ol>{links}</ol></nav>
{"".join(sections)}
</main>
<script type="application/json" id="specs">{script_json(specs)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


# `ast`: expressions are interpreted, so that the page needs no `eval`.
_DRAW = """
const specs = JSON.parse(document.getElementById("specs").textContent);
for (const [id, spec] of Object.entries(specs))
  window.embedChart(document.getElementById(id), spec, {actions: false, renderer: "svg", ast: true});
"""
STYLE = """
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: #222; margin: 0; background: #fff; }
main { max-width: 1080px; margin: 0 auto; padding: 1.5rem 1.2rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .1rem; border-top: 1px solid #ddd; padding-top: 1.3rem; }
.where, .note, figcaption { color: #666; font-size: .85rem; margin: .1rem 0 .8rem; }
figure { margin: .6rem 0 1rem; overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .6rem 0 .2rem; }
th, td { text-align: left; padding: .28rem .7rem .28rem 0; vertical-align: top; border-bottom: 1px solid #eee; }
th { font-weight: 600; }
.claims td:first-child { white-space: nowrap; }
.good { color: #00704f; font-weight: 600; } .bad { color: #b03a00; font-weight: 600; } .open { color: #666; }
.changed { color: #b03a00; font-size: .85rem; font-weight: 600; }
code, pre { font-size: .85em; background: #f5f5f5; padding: .1em .3em; }
pre { padding: .8em; overflow-x: auto; max-height: 24rem; }
"""
