"""Checks the pages that were built: every link leads somewhere, and nothing is fetched from the network when a page is read."""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"img", "script", "link", "iframe", "source", "video", "audio"}  # what a browser loads by itself
KEPT_FOR_MACHINES = {"canonical", "prev", "next", "alternate"}  # links that nobody loads


class Page(HTMLParser):
    """The places of a page that can be linked to, and the links of the page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []  # tag, where to
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag == "link" and given.get("rel") in KEPT_FOR_MACHINES:
            return
        self.links += [(tag, to) for to in (given.get("href"), given.get("src")) if to]


read = cache(Page)


def mistakes(site: Path) -> list[str]:
    """What is wrong, one line each."""
    return [
        f"{path.relative_to(site)}: {wrong}"
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"  # its links are for a server's root
        for tag, to in read(path).links
        if (wrong := mistake(path, tag, to))
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
        return f"leads nowhere: {to}"
    if target.fragment and file.suffix == ".html" and unquote(target.fragment) not in read(file).anchors:
        return f"no such place: {to}"
    return None


def main(site: Path) -> int:
    wrong = mistakes(site) if any(site.rglob("*.html")) else [f"no pages in '{site}'"]
    print("\n".join(wrong) or f"every link of {len(list(site.rglob('*.html')))} pages leads somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
