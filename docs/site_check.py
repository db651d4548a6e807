"""Checks a built site: its links and anchors lead somewhere, and no other host is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it shows a page.
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
_LOADED_BY_LINK = ("stylesheet", "icon", "preload", "modulepreload", "preconnect")
_STYLE_ADDRESS = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")


@dataclass
class _Page(HTMLParser):
    """The ids, links and loaded addresses of one page."""

    text: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names, and where it leads."""
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in _LOADED and values.get(_LOADED[tag]):
            self.loaded.append(values[_LOADED[tag]])
        if tag == "link" and values.get("rel") in _LOADED_BY_LINK:
            self.loaded.append(values.get("href", ""))


def faults_of(site: Path) -> list[str]:
    """Each broken link and each address of another host, with its page."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        name = path.relative_to(site)
        if name.name == "404.html":  # its links begin at the root of a host
            continue
        faults += [f"{name}: loads {it}" for it in page.loaded if _is_elsewhere(it)]
        faults += [
            f"{name}: {link} leads nowhere"
            for link in dict.fromkeys([*page.links, *page.loaded])
            if not _is_elsewhere(link) and not _leads_somewhere(link, path, pages)
        ]
    for path in sorted(site.rglob("*.css")):
        loaded = _STYLE_ADDRESS.findall(path.read_text("utf-8"))
        faults += [f"{path.relative_to(site)}: loads {address}" for address in loaded]
    return faults


def _is_elsewhere(link: str) -> bool:
    address = urlsplit(link)
    return bool(address.netloc) or address.scheme in ("mailto", "data", "javascript")


def _leads_somewhere(link: str, page: Path, pages: dict[Path, _Page]) -> bool:
    address = urlsplit(link)
    target = (page.parent / unquote(address.path)).resolve() if address.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    found = pages.get(target)
    return not address.fragment or found is None or unquote(address.fragment) in found.ids
