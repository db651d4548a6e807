"""The main path of the page in a real Firefox: ask, stream, stop, reload, ask again.

Playwright can not drive Debian's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.e2e.conversation import generations_running
from tests.integration.server_process import ServerProcess

pytestmark = pytest.mark.timeout(240)

_SCRIPT = Path(__file__).parent / "firefox_page.mjs"
_LONGEST_SECONDS = 200
_WORD = re.compile(r"\w+")


@pytest.fixture(scope="module")
def firefox() -> str:
    """The path of the browser."""
    found = os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")
    assert found, "no Firefox: `apt-get install firefox-esr`, or FIREFOX=/path"
    return found


def _text(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


def test_the_main_path_through_the_page(
    firefox: str, server: ServerProcess, tmp_path: Path
) -> None:
    driven = subprocess.run(
        ["node", str(_SCRIPT), firefox, server.http_url, str(tmp_path / "profile")],
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        # Firefox asks for a home that is its user's own.
        env={**os.environ, "HOME": str(tmp_path)},
        check=False,
    )
    assert driven.returncode == 0, driven.stderr[-4000:]
    seen: dict[str, Any] = json.loads(driven.stdout)
    assert "firefox" in seen["version"].lower()
    assert seen["focused"], "the text box has the focus at the start"
    assert seen["errors"] == []
    _check_whole(seen["first"], _text(21, 60), answers=1)
    stopped = seen["stopped"]
    assert len(stopped["text"]) >= 200
    assert _text(22, 3000).startswith(stopped["text"])
    assert generations_running(server) == 0
    # The conversation is on the screen again: the whole answer, the stopped one and this one.
    _check_whole(seen["reloaded"], _text(23, 120), answers=3)
    _check_whole(seen["last"], _text(24, 30), answers=4)
    states = [seen[name] for name in ("first", "stopped", "reloaded", "last")]
    assert [(state["transport"], state["figure"]) for state in states] == [
        ("websocket", "websocket")
    ] * 4
    assert max(state["toEnd"] for state in states) < 2, "the end is in view, also after a reload"


def _check_whole(state: dict[str, Any], text: str, answers: int) -> None:
    assert state["text"] == text
    assert _WORD.findall(state["shown"]) == _WORD.findall(text)
    assert (state["answers"], state["error"]) == (answers, None)
