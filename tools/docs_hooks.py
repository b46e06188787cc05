"""Hooks for MkDocs: formulas become MathML, and the help of the command line is inserted.

Both happen when the site is built, so that pages need neither scripts nor the network.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re

from latex2mathml.converter import convert  # pyright: ignore[reportMissingImports]  # of the extra "docs"

from remanence.cli import main

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
HELP = re.compile(r"<!-- help: ?(.*?) ?-->")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replaces `<!-- help: run -->` by the output of `remanence run --help`."""
    return HELP.sub(lambda found: f"```text\n{command_help(found[1].split())}\n```", markdown)


def on_page_content(content: str, **_: object) -> str:
    return FORMULA.sub(as_mathml, content)


def as_mathml(found: re.Match[str]) -> str:
    display = "inline" if found[2] == "(" else "block"
    return convert(html.unescape(found[3]).strip(), display=display)


def command_help(command: list[str]) -> str:
    """The help text of the command line, without styles, in 100 columns."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue()).strip()
