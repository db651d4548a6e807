"""docs/adding-a-transport.md, held to the smallest transport there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.fargate_handler.gateway.transports.test_transports import TRANSPORTS
from tests.unit.test_imports import OURS, imports_of, is_within

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/adding-a-transport.md").read_text("utf-8")
SMALLEST = ROOT / "tests/unit/fargate_handler/gateway/transports"
NEW_FILES = re.findall(r"^\| `(\S*<name>\S*)` \|", PAGE, re.MULTILINE)
MAY_IMPORT = re.findall(
    r"^- `(evenflow\.(?:fargate_handler|stream_core)\.[\w.]+)`$", PAGE, re.MULTILINE
)


def test_three_new_files_are_a_transport() -> None:
    assert len(NEW_FILES) == 3
    assert "line" in TRANSPORTS
    expected = {Path(file.replace("<name>", "line")).name for file in NEW_FILES}
    assert {path.name for path in SMALLEST.glob("line_*")} == expected


def test_the_websocket_has_them_too() -> None:
    assert [
        file for file in NEW_FILES if not (ROOT / file.replace("<name>", "websocket")).is_file()
    ] == []


def test_it_imports_what_the_page_lists_and_nothing_on_the_page_is_left_over() -> None:
    imports = imports_of(str(SMALLEST.relative_to(ROOT)))
    files = [path for path in imports if path.endswith(("/line_transport.py", "/line_endpoint.py"))]
    assert len(files) == 2
    imported = {
        module for path in files for module in imports[path] if module.split(".")[0] in OURS
    }
    of_ours = {module for module in imported if "line_transport" not in module}
    assert {
        module
        for module in of_ours
        if not any(is_within(module, allowed) for allowed in MAY_IMPORT)
    } == set()
    assert [
        allowed
        for allowed in MAY_IMPORT
        if not any(is_within(module, allowed) for module in of_ours)
    ] == []


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:fargate_handler|tests|docs)/[\w/.-]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
