"""A page on this machine that follows runs: their progress and curves, read from their directories again and again.

It listens on the loopback interface only, answers one address, runs no script, and loads nothing from elsewhere.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from remanence.core.errors import UserError
from remanence.metrics import metric as metric_of
from remanence.report.figures import colours
from remanence.report.page import STYLE
from remanence.results.aside import OLD
from remanence.results.description import DESCRIPTION
from remanence.results.directory import GroupDirectory, groups_under_way
from remanence.results.store import Results, load

HOST, SECONDS_BETWEEN_LOADS = "127.0.0.1", 3
MAX_RUNS = 12
FIRST = ("return", "reward_rate")  # metrics that people look at first
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
WIDTH, HEIGHT, LEFT, BELOW, POINTS = 640, 200, 64, 24, 300


def serve(out: Path, port: int, ready: Callable[[str], None]) -> None:
    """Answers until Ctrl-C."""
    with server(out, port) as listening:
        ready(f"http://{HOST}:{listening.server_port}/")
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            return


def server(out: Path, port: int) -> ThreadingHTTPServer:
    """Listens already; the caller serves."""
    if out.exists() and not out.is_dir():
        raise UserError(f"'{out}' is not a directory")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}  # type: ignore[attr-defined]
            if self.headers.get("Host") not in allowed:  # another site's name that leads to this machine
                self.send_error(403)
            elif self.path != "/":
                self.send_error(404)
            else:
                self._answer(overview(out).encode())

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on port {port} ({error}): choose another --port, or 0") from error


def overview(out: Path) -> str:
    """The runs below a directory: those under way first, then the newest."""
    files = [file for file in out.glob(f"**/{DESCRIPTION}") if OLD not in file.relative_to(out).parts]
    files.sort(key=lambda file: (bool(groups_under_way(file.parent)), file.stat().st_mtime), reverse=True)
    sections = [_section(file.parent, out) for file in files[:MAX_RUNS]]
    more = f"<p class=note>{len(files) - MAX_RUNS} older runs are not shown.</p>" if len(files) > MAX_RUNS else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="{SECONDS_BETWEEN_LOADS}">
<title>remanence: runs in {html.escape(out.name)}</title>
<style>{STYLE} svg text {{ font: 12px Helvetica, Arial, sans-serif; fill: #555; }}</style>
</head>
<body><main>
<h1>runs in {html.escape(str(out))}</h1>
<p class=note>{time.strftime("%H:%M:%S")}, loads again every {SECONDS_BETWEEN_LOADS} seconds</p>
{"".join(sections) or "<p>no run yet</p>"}{more}
</main></body>
</html>
"""


def _section(run: Path, out: Path) -> str:
    where = html.escape(str(run.relative_to(out)))
    try:
        results = load(run)
        groups = groups_under_way(run)
        lanes = f"{len(results.lanes)} lives done, {'finished' if results.finished else 'not finished'}"
        about = f"<h2>{html.escape(results.environments)}</h2><p class=where>{where}: {lanes}</p>"
        return about + _progress(groups) + _chart(results, groups)
    except UserError as error:
        return f"<h2>{where}</h2><p class=bad>{html.escape(str(error))}</p>"


def _progress(groups: list[GroupDirectory]) -> str:
    rows = []
    for group in groups:
        status = group.progress()
        if not status:
            rows.append(f"<tr><td>group {html.escape(group.path.name)}<td colspan=4>not started</tr>")
            continue
        rate = float(status["steps_per_second"])
        ago = timedelta(seconds=round(max(time.time() - status["time"], 0)))
        share = status["windows"] / max(status["of"], 1)
        left = timedelta(seconds=round(status["step"] * (1 / share - 1) / rate)) if rate and share else "?"
        rows.append(
            f"<tr><td>{html.escape(str(status['label']))}<td>{share:.0%}<td>{rate:,.0f}<td>{left}<td>{ago} ago</tr>"
        )
    head = "<tr><th>running<th>done<th>steps/s<th>time left<th>last status</tr>"
    return f"<table>{head}{''.join(rows)}</table>" if rows else ""


def _chart(results: Results, groups: list[GroupDirectory]) -> str:
    """The mean curve of each agent, up to the window that all its lives have reached."""
    lines, metric = _lines(results, groups)
    if not lines:
        return "<p class=note>no curve yet</p>"
    finite = np.concatenate([line[np.isfinite(line)] for line in lines.values()] + [np.zeros(0)])
    if not finite.size:
        return f"<p class=note>{html.escape(metric)}: no finite value</p>"
    low, high = float(finite.min()), float(finite.max())
    height = (high - low) or 1.0
    paint, drawn, legend = colours(list(lines)), [], []
    for name, line in lines.items():
        chosen = np.unique(np.linspace(0, len(line) - 1, POINTS).astype(int))
        x = LEFT + (chosen + 1) / results.windows * (WIDTH - LEFT)
        y = HEIGHT - (line[chosen] - low) / height * (HEIGHT - 10)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
        drawn.append(f'<polyline fill="none" stroke="{paint[name]}" stroke-width="1.6" points="{points}"/>')
        last = line[np.isfinite(line)][-1:]
        value = f" {float(last[0]):.4g}" if last.size else ""
        legend.append(f'<span style="color:{paint[name]}">&#9644;</span> {html.escape(name)}{value}')
    unit = html.escape(f"{results.windows} {results.unit}s")
    return (
        f"<p class=note>{html.escape(metric_of(metric).label)}: {' &nbsp; '.join(legend)}</p>"
        f'<svg width="{WIDTH}" height="{HEIGHT + BELOW}" role="img">'
        f'<path d="M{LEFT} 0V{HEIGHT}H{WIDTH}" stroke="#bbb" fill="none"/>{"".join(drawn)}'
        f'<text x="{LEFT - 6}" y="14" text-anchor="end">{high:.4g}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT}" text-anchor="end">{low:.4g}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 16}" text-anchor="end">{unit}</text></svg>'
    )


def _lines(results: Results, groups: list[GroupDirectory]) -> tuple[dict[str, np.ndarray], str]:
    """By agent: [windows] its mean; and the metric."""
    found = (
        [_named(results.curves, dict(zip(results.lanes["lane"], results.lanes["contender"], strict=True)))]
        if (len(results.lanes) and len(results.curves))
        else []
    )
    for group in groups:
        curves, label = group.so_far(), str(group.progress().get("label", ""))
        if len(curves):
            found.append(_named(curves, dict.fromkeys(curves["lane"].unique(), label)))
    if not found:
        return {}, ""
    table = pl.concat(found, how="diagonal_relaxed")
    metrics = table["metric"].unique(maintain_order=True).to_list()
    metric = next((one for one in FIRST if one in metrics), metrics[0])
    lines = {}
    for (name,), rows in table.filter(pl.col("metric") == metric).group_by("agent", maintain_order=True):
        reached = rows.group_by("lane").agg(pl.col("window").max())["window"].min()
        means = rows.filter(pl.col("window") <= reached).group_by("window").agg(pl.col("value").mean()).sort("window")
        lines[str(name)] = means["value"].to_numpy()
    return lines, metric


def _named(curves: pl.DataFrame, agents: dict[int, str]) -> pl.DataFrame:
    return curves.with_columns(
        pl.col("lane").replace_strict(agents, default="", return_dtype=pl.String).alias("agent"),
        pl.col("value").cast(pl.Float64),
    )
