"""What the documentation says is true: links, snippets, the table of results, and where things are in the code."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

from remanence.cli import main
from remanence.experiments import REGISTRY

ROOT = Path(__file__).parents[2]
DOCS, CODE = ROOT / "docs", ROOT / "src" / "remanence"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)
INCLUDE = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
WHERE = re.compile(r"`((?:\w+/)*\w+\.py): ([\w, ]+)`")
RESULT = re.compile(r"^\| [^|]+ \| `remanence run ([^` ]+)[^`]*` \|(?:[^|]*\|){2} \[([^\]]+)\]\(#", re.MULTILINE)

sys.path.insert(0, str(ROOT / "tools"))
import docs_links  # noqa: E402
import docs_results  # noqa: E402


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def included(code: str) -> str:
    """A snippet that is a whole file of the repository, as the site shows it."""
    return INCLUDE.sub(lambda found: text(ROOT / found[1]), code)


SNIPPETS = [(page, included(code)) for page in PAGES for code in SNIPPET.findall(text(page))]


def heading_anchors(page: Path) -> set[str]:
    """Places of a page, as MkDocs names them: `{ #name }` where it is given, else the words of the heading."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text(page), re.MULTILINE):
        given = re.search(r"\{ #([\w-]+) \}", heading)
        plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        found.add(given[1] if given else re.sub(r"[-\s]+", "-", plain))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in heading_anchors(target), link


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {name(page) for page in PAGES}


@pytest.mark.parametrize(
    ("page", "code"), [pytest.param(page, code, id=f"{name(page)}-{n}") for n, (page, code) in enumerate(SNIPPETS)]
)
def test_snippets_import_what_exists(page: Path, code: str) -> None:
    for node in ast.walk(ast.parse(code, str(page))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("remanence"):
            module = importlib.import_module(node.module or "")
            for wanted in node.names:
                assert hasattr(module, wanted.name), f"{node.module}.{wanted.name}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_is_where_the_pages_say(page: Path) -> None:
    """`agents/td.py: td_update`: the file is there, and it defines that name somewhere."""
    for file, names in WHERE.findall(text(page)):
        path = CODE / file
        assert path.is_file(), file
        for wanted in names.split(","):
            defined = rf"^\s*(def|class) {wanted.strip()}\b|^\s*{wanted.strip()}\b[^=\n]*=[^=]"
            assert re.search(defined, text(path), re.MULTILINE), f"{file}: {wanted}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_that_pages_name_exist(page: Path) -> None:
    for file in re.findall(r"`(tests/[\w/]+\.py)`", text(page)):
        assert (ROOT / file).is_file(), file


def test_every_experiment_has_its_row() -> None:
    commands = re.findall(r"`remanence run ([^` ]+)(?: --preset released)?`", text(DOCS / "reproduction.md"))
    assert set(commands) >= set(REGISTRY)


def test_verdicts_agree_with_the_table_of_all_experiments() -> None:
    """Both tell of archived runs. Rows that several experiments share have no counts."""
    said = docs_results.rows_of(text(DOCS / "experiments.md"))
    found = dict(RESULT.findall(text(DOCS / "reproduction.md")))
    found = {experiment: verdict for experiment, verdict in found.items() if said[experiment].time is not None}
    assert len(found) > 5
    for experiment, verdict in found.items():
        assert said[experiment].status.startswith(re.match(r"\d+ of \d+ reproduced", verdict)[0]), experiment  # type: ignore[index]


def test_verdicts_agree_with_the_readme() -> None:
    """The README's short table has every archived experiment that decides something, with the same counts."""
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| \d+ \| \[([^\]]+)\]", text(ROOT / "README.md"), re.MULTILINE)
    assert dict(rows) == dict(RESULT.findall(text(DOCS / "reproduction.md")))


def test_no_table_has_an_empty_header() -> None:
    for page in PAGES:
        for header in re.findall(r"^(\|.*\|)\n\|[-|: ]+\|$", text(page), re.MULTILINE):
            assert all(cell.strip() for cell in header.strip("|").split("|")), f"{name(page)}: {header}"


def test_the_table_is_what_its_claims_say() -> None:
    """The counts of each row are those of the verdicts listed below it."""
    page = text(DOCS / "reproduction.md")
    for experiment, verdict in RESULT.findall(page):
        section = page.split(f"{{ #{docs_results.anchor(experiment)} }}")[1].split("\n### ")[0]
        listed = re.findall(r"\| \*\*([a-z ]+)\*\* \|", section)
        assert verdict.startswith(f"{listed.count('reproduced')} of {len(listed)} reproduced")


def test_the_checker_of_links_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">fine</a><a href="b.html#there">no place</a><a href="c.html">no page</a>'
        '<a href="https://example.org">fine</a><script src="https://example.org/x.js"></script><img src="gone.png">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="here">B</p><a href="a.html#top">fine</a><a href="#here">fine</a>[<code>x</code>][remanence.x]'
    )
    assert docs_links.mistakes(tmp_path) == [
        "a.html: no such anchor: b.html#there",
        "a.html: broken link: c.html",
        "a.html: <script> would fetch https://example.org/x.js",
        "a.html: broken link: gone.png",
        "b.html: no page documents remanence.x",
    ]


@pytest.mark.parametrize("command", ["run", "sweep", "theory", "bench"])
def test_help_names_the_kind_of_an_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "{None}" not in shown
    assert command != "run" or "--seeds INT" in shown
