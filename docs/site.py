"""Builds the site of these pages, or serves it: `python -m docs.site [--serve] [--port 8000]`.

The pages are laid out in a folder of their own, with those that they link to elsewhere in the
repository, since a site has no links out of its folder. Zensical then builds it strictly, and the
result is checked: each link and anchor leads somewhere, and nothing is loaded from another host.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from docs.site_check import faults_of

_DOCS = Path(__file__).parent.resolve()
_ROOT = _DOCS.parent
_BUILD = _ROOT / ".build"
_HOST = "127.0.0.1"
_ELSEWHERE = "about"
_COPIED = (".css", ".json", ".svg", ".png", ".webp")

_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]+)?\))")
_LINKED = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(?:#[^)\s]+)?\)")
_STATES = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRANSITION = re.compile(r"^ *(\S+) --> ([^\s:]+)(?:: (.+))?$", re.MULTILINE)
# In GitHub's Markdown what is within a list stands two or three columns in, in Python's four.
_IN_LIST = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_FENCE_IN_LIST = re.compile(r"^( {2,3})```.*?^\1```$", re.MULTILINE | re.DOTALL)
# A number in brackets is a decision, as docs/design.md says.
_DECISION = re.compile(r"(?<=[( ])(\d{4})(?=[,)])")
_DECISIONS = {path.name[:4]: path for path in (_DOCS / "decisions").glob("[0-9]*.md")}
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Layout:
    """The pages as the generator reads them. Those from outside docs/ are in a folder of their own.

    Args:
        folder: where they are laid, with the generator's settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pages = folder / "pages"
        self._pending = sorted([*_ROOT.glob("*.md"), *_DOCS.rglob("*.md")])
        self._known = set(self._pending)
        self.pages: dict[str, str] = {}
        self.settings = _settings((_DOCS / "zensical.toml").read_text("utf-8"))

    def write(self) -> None:
        """Lay out all pages, the files that they link to, and the generator's settings."""
        shutil.rmtree(self._pages, ignore_errors=True)
        for path in _DOCS.rglob("*"):
            if path.suffix in _COPIED:
                self._copy(path)
        while self._pending:
            path = self._pending.pop()
            self.pages[_place(path)] = text = self._text(path)
            target = self._pages / _place(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        (self.folder / "zensical.toml").write_text(self.settings, "utf-8")

    @property
    def left_out(self) -> list[str]:
        """Pages of docs/ that the navigation does not name."""
        named = set(re.findall(r'"([^"\n]+\.md)"', self.settings))
        ours = {place for place in self.pages if not place.startswith(_ELSEWHERE)}
        return sorted(ours - named)

    def _text(self, path: Path) -> str:
        text = _FENCE_IN_LIST.sub(_indented, path.read_text("utf-8"))
        text = _STATES.sub(_table_of_states, text)
        parts = _FENCE.split(text)
        parts[::2] = [self._with_links(_IN_LIST.sub("    ", part), path) for part in parts[::2]]
        return "".join(parts)

    def _with_links(self, text: str, page: Path) -> str:
        def replace(match: re.Match[str]) -> str:
            if ":" in match[2]:  # an address of another host
                return match[0]
            place = self._target(match[2], page)
            return match[1] + os.path.relpath(place, Path(_place(page)).parent) + match[3]

        def keep_words(match: re.Match[str]) -> str:
            return match[1] if (page.parent / match[2]).is_dir() else match[0]

        def link_decision(match: re.Match[str]) -> str:
            path = _DECISIONS.get(match[1])
            target = path and os.path.relpath(path, page.parent)
            return f"[{match[1]}]({target})" if target else match[0]

        if page.is_relative_to(_DOCS):
            text = _DECISION.sub(link_decision, text)
        return _LINK.sub(replace, _LINKED.sub(keep_words, text))

    def _target(self, link: str, page: Path) -> str:
        """Where a linked file is laid, relative to the pages."""
        path = (page.parent / link).resolve()
        if not path.is_file():
            return str(Path(_place(page)).parent / link)
        if path.suffix == ".md":
            if path not in self._known:
                self._known.add(path)
                self._pending.append(path)
        elif not path.is_relative_to(_DOCS):
            self._copy(path)
        return _place(path)

    def _copy(self, path: Path) -> None:
        target = self._pages / _place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _place(path: Path) -> str:
    """A file's place among the pages. Code is text, so that a browser shows it."""
    if path == _DOCS / "README.md":
        return "index.md"
    if path.is_relative_to(_DOCS):
        return str(path.relative_to(_DOCS))
    name = str(path.relative_to(_ROOT)).lstrip(".")  # the generator leaves out hidden folders
    return f"{_ELSEWHERE}/{name}" + ("" if path.suffix in (".md", *_COPIED) else ".txt")


def _indented(match: re.Match[str]) -> str:
    return _IN_LIST.sub("    ", match[0])


def _table_of_states(match: re.Match[str]) -> str:
    """A diagram as a table: the library that draws it would be loaded from another host."""
    rows = [
        f"| {start.replace('[*]', '')} | {event} | {end.replace('[*]', '(end)')} |"
        for start, end, event in _TRANSITION.findall(match[1])
    ]
    return "\n".join(["| from | event | to |", "|---|---|---|", *rows])


def _settings(text: str) -> str:
    """The settings, with the decisions and the runbooks in the order of their indexes."""
    for word, folder in (("DECISIONS", "decisions"), ("RUNBOOKS", "runbooks")):
        index = _DOCS / folder / "README.md"
        linked = [name for _, name in _LINKED.findall(index.read_text("utf-8")) if "/" not in name]
        present = sorted(path.name for path in index.parent.glob("*.md"))
        names = dict.fromkeys(["README.md", *linked, *present])
        entries = (_entry(index.parent / name) for name in names if name.endswith(".md"))
        text = text.replace(f'"{word}"', f"[{', '.join(entries)}]")
    return text


def _entry(page: Path) -> str:
    """A page in the navigation, with its own title. Decisions have their number before it."""
    title = _title(page.read_text("utf-8"))
    if page in _DECISIONS.values():
        title = f"{int(page.name[:4])}. {title}"
    # A string in JSON is one in TOML.
    return f"{{{json.dumps(title)} = {json.dumps(_place(page))}}}"


def llms_txt(pages: dict[str, str], settings: str) -> str:
    """An index of all pages for language models, by the sections of the navigation."""
    project = tomllib.loads(settings)["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for section in project["nav"]:
        ((title, entries),) = section.items()
        lines += ["", f"## {title}", ""]
        for place in _pages_of(entries):
            lines.append(f"- [{_title(pages[place])}]({place}){_summary(pages[place])}")
    return "\n".join([*lines, ""])


def _pages_of(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from _pages_of(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from _pages_of(value)


def _title(text: str) -> str:
    found = _TITLE.search(_COMMENT.sub("", text))
    return found[1].replace("`", "") if found else ""


def _summary(text: str) -> str:
    """The first sentence below the title, if it is prose."""
    below = _TITLE.split(_COMMENT.sub("", text), maxsplit=1)[-1]
    for block in below.split("\n\n"):
        words = " ".join(_LINKED.sub(r"\1", block).replace("**", "").split())
        if words and words[0] not in "#|`<!-[":
            return f": {re.split(r'(?<=[.:?]) ', words)[0]}"
    return ""


def build(folder: Path, generator: Path) -> list[str]:
    """Build the site in `folder`/site. Returns what is wrong with it."""
    layout = Layout(folder)
    layout.write()
    built = subprocess.run(  # noqa: S603 - a program that the caller names
        [generator, "build", "--strict", "--clean"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    faults = [f"no section of docs/zensical.toml has {place}" for place in layout.left_out]
    if built.returncode:
        output = built.stdout + built.stderr
        return [*faults, output.split("Traceback", 1)[0]]
    site = folder / "site"
    for place, text in layout.pages.items():
        (site / place).write_text(text, "utf-8")
    (site / "llms.txt").write_text(llms_txt(layout.pages, layout.settings), "utf-8")
    return [*faults, *faults_of(site)]


def _serve(site: Path, port: int, rebuild: Callable[[], object]) -> None:
    """Serve the site on this machine, and build it again when a page changes."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    server = ThreadingHTTPServer((_HOST, port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://{_HOST}:{port}", flush=True)
    written = _last_written()
    while True:
        time.sleep(1)
        if (newest := _last_written()) != written:
            written = newest
            rebuild()


def _last_written() -> float:
    """When a page, or the navigation, was last written."""
    files = (*_DOCS.rglob("*.md"), *_ROOT.glob("*.md"), _DOCS / "zensical.toml")
    return max(path.stat().st_mtime for path in files)


def main() -> int:
    """Build, and serve if that is asked for. Exit status 1: something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve the site on this machine")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--output", type=Path, default=_BUILD / "docs")
    parser.add_argument("--generator", type=Path, default=_BUILD / "site" / "bin" / "zensical")
    options = parser.parse_args()

    def rebuild() -> int:
        faults = build(options.output, options.generator)
        print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
        return 1 if faults else 0

    status = rebuild()
    if options.serve:
        _serve(options.output / "site", options.port, rebuild)
    return status


if __name__ == "__main__":
    sys.exit(main())
