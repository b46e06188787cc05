"""Pages and charts with hostile names in them: opened in a browser, they run no script but ours."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from remanence import load_results
from remanence.cli import main
from remanence.report.escaping import script_json
from remanence.report.page import _claims_table
from remanence.results.claims import Claim

LIVE = Path(__file__).parents[1] / "data" / "runs" / "format1" / "live"
SET_TITLE = "document.title='owned'"
HOSTILE = f"""</script><script>{SET_TITLE}</script><img src=x onerror="{SET_TITLE}">'"&[/red]"""
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose agent, environment, metric, preset, hyperparameter, task and experiment have hostile names."""
    run = tmp_path_factory.mktemp("hostile") / "run"
    shutil.copytree(LIVE, run)
    file = run / "description.json"
    about = json.loads(file.read_text())
    about |= {"experiment": HOSTILE, "preset": HOSTILE}
    about["world"]["environments"] = [HOSTILE]
    about["stream"]["parameter"] = HOSTILE
    about["contenders"] = {HOSTILE: {**about["contenders"]["a DQN"], "hypers": {HOSTILE: 1.0}}}
    file.write_text(json.dumps(about))
    for name, column, old in (("lanes", "contender", "a DQN"), ("curves", "metric", "return")):
        table = pl.read_parquet(run / f"{name}.parquet")
        table.with_columns(pl.col(column).replace(old, HOSTILE)).write_parquet(run / f"{name}.parquet")
    return run


@pytest.fixture(scope="module")
def report(hostile: Path) -> Path:
    to = hostile.parent / "page"
    assert main(["report", str(hostile), "--to", str(to)]) == 0
    return to


def opened(page: Path, tmp_path: Path) -> str:
    """The page as the browser has it after its scripts ran."""
    options = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--virtual-time-budget=20000"),
    )
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [str(CHROMIUM), *options, profile, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@needs_chromium
def test_a_hostile_report_draws_its_figures_and_runs_nothing_else(report: Path, tmp_path: Path) -> None:
    shown = opened(report / "index.html", tmp_path)
    assert "<title>remanence report</title>" in shown
    assert shown.count('class="marks"') == 4  # every chart is drawn, without `eval`
    assert html.escape(HOSTILE, quote=False) in shown  # and the names are there, as text


@needs_chromium
def test_the_policy_of_the_page_stops_script_that_gets_in(report: Path, tmp_path: Path) -> None:
    """Were a name not escaped, it would still not run."""
    injected = report / "injected.html"
    page = (report / "index.html").read_text()
    injected.write_text(page.replace("<main>", f"<main><script>{SET_TITLE}</script><img src=x onerror={SET_TITLE}>"))
    assert "<title>remanence report</title>" in opened(injected, tmp_path)
    without = report / "without.html"
    without.write_text(injected.read_text().replace("Content-Security-Policy", "X-None"))
    assert "<title>owned</title>" in opened(without, tmp_path)  # this test can fail


@needs_chromium
@pytest.mark.parametrize("suffix", ["html", "svg"])
def test_a_saved_chart_runs_nothing(suffix: str, hostile: Path, tmp_path: Path) -> None:
    file = tmp_path / f"chart.{suffix}"
    load_results(hostile).plot().save(str(file), inline=suffix == "html")
    shown = opened(file, tmp_path)
    assert "<title>owned</title>" not in shown
    assert 'class="marks"' in shown


def test_no_markup_of_a_name_is_in_a_page_or_chart(hostile: Path, report: Path) -> None:
    chart: Any = load_results(hostile).plot()
    notebook, whole = chart._repr_mimebundle_(), load_results(hostile)._repr_html_()
    static = [file.read_text() for file in report.glob("*.svg")]
    assert len(static) == 4
    for text in ((report / "index.html").read_text(), chart.to_html(), notebook["image/svg+xml"], whole, *static):
        assert "<img src=x" not in text
        assert f"<script>{SET_TITLE}" not in text


def test_json_in_a_script_element_means_the_same() -> None:
    value = {HOSTILE: [1.5, None, "ε < 1 & µ > 2\u2028"]}
    assert json.loads(script_json(value)) == value
    assert not set("<>&") & set(script_json(value))


def test_names_are_not_markup_of_the_terminal_either(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(hostile)]) == 0
    assert "[/red]" in "".join(capsys.readouterr().out.split())


def test_each_comparison_of_a_claim_has_a_line() -> None:
    """Escaped characters end in a semicolon too: they are no end of a comparison."""
    table = _claims_table([Claim("id", "text", "reproduced", "A − B = -1, p < 0.001; A − C = -2, p = 0.5")])
    assert "A − B = -1, p &lt; 0.001;<br>A − C = -2, p = 0.5<" in table
