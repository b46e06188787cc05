"""Checks the built pages: every link has a target, and pages load nothing from the network."""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"img", "script", "link", "iframe", "source", "video", "audio"}  # elements a browser loads
NOT_FETCHED = {"canonical", "prev", "next", "alternate"}  # kinds of <link> that browsers do not load

UNRESOLVED = re.compile(r"\]\[(remanence[\w.]*)\]")  # as Markdown leaves it


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []  # tag, target
        self.unresolved: list[str] = []  # references to names that no page documents
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {name for name in (attributes.get("id"), attributes.get("name")) if name}
        if tag == "link" and attributes.get("rel") in NOT_FETCHED:
            return
        self.links += [(tag, to) for to in (attributes.get("href"), attributes.get("src")) if to]

    def handle_data(self, data: str) -> None:
        self.unresolved += UNRESOLVED.findall(data)


read = cache(Page)


def mistakes(site: Path) -> list[str]:
    """The mistakes, one line each."""
    pages = [
        path for path in sorted(site.rglob("*.html")) if path.name != "404.html"
    ]  # its links: from a server's root
    return [
        *(
            f"{path.relative_to(site)}: {wrong}"
            for path in pages
            for tag, to in read(path).links
            if (wrong := mistake(path, tag, to))
        ),
        *(f"{path.relative_to(site)}: no page documents {name}" for path in pages for name in read(path).unresolved),
    ]


def mistake(page: Path, tag: str, to: str) -> str | None:
    target = urlsplit(to)
    if target.scheme in ("http", "https") or target.netloc:
        return f"<{tag}> would fetch {to}" if tag in FETCHED else None
    if target.scheme in ("mailto", "data", "javascript"):
        return None
    file = (page.parent / unquote(target.path)).resolve() if target.path else page
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return f"broken link: {to}"
    if target.fragment and file.suffix == ".html" and unquote(target.fragment) not in read(file).anchors:
        return f"no such anchor: {to}"
    return None


def main(site: Path) -> int:
    wrong = mistakes(site) if any(site.rglob("*.html")) else [f"no pages in '{site}'"]
    print("\n".join(wrong) or f"every link of {len(list(site.rglob('*.html')))} pages has a target")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
