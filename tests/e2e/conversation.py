"""One page of a conversation: what a person does there, what is seen at any time, and the log to
compare it with.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.integration.server_process import ServerProcess

_WATCH = Path(__file__).parent / "watch.js"
_ANSWER_MS = 30_000
_TOKEN = "JSON.parse(Object.values(sessionStorage)[0]).credentials.token"
_WORD = re.compile(r"\w+")


def generations_running(server: ServerProcess) -> int:
    """How many models the server runs at the moment."""
    with urllib.request.urlopen(f"{server.http_url}/metrics") as answer:
        page: str = answer.read().decode()
    return int(float(page.split("\nevenflow_generations_running ")[1].split(maxsplit=1)[0]))


def until_no_model_runs(server: ServerProcess, seconds: float = 8.0) -> None:
    """Wait for it."""
    give_up_at = time.monotonic() + seconds
    while generations_running(server):
        assert time.monotonic() < give_up_at, "the model runs on"
        time.sleep(0.05)  # each look is a whole page of metrics


class Conversation:
    """Asks, and compares what the page shows with the log.

    Args:
        page: an empty one.
        server: whose page it is, and who has the log.
    """

    def __init__(self, page: Page, server: ServerProcess) -> None:
        self.page = page
        self.server = server
        page.add_init_script(path=_WATCH)

    def open(self, query: str = "", url: str | None = None) -> Conversation:
        """Open the server's page, or the one at another address."""
        self.page.goto(f"{url or self.server.http_url}/{query}")
        return self

    def ask(self, question: str) -> None:
        """Type a question and press Enter, as a person would."""
        self.page.get_by_test_id("question").fill(question)
        self.page.keyboard.press("Enter")

    def stop(self) -> None:
        """Press the stop button."""
        self.page.get_by_test_id("stop").click()

    def reload(self) -> None:
        """Load the page again; what was seen before it must have been right."""
        self.check_what_was_seen()
        self.page.reload()

    def wait_for(self, state: str, milliseconds: int = _ANSWER_MS) -> None:
        """Wait until the page says so; of an end, that it has said so of the last answer."""
        self.page.wait_for_function(
            "state => watched.end === state || watched.state === state",
            arg=state,
            polling=50,
            timeout=milliseconds,
        )

    def wait_for_more(self, characters: int = 1, seconds: float = _ANSWER_MS / 1000) -> None:
        """Wait until the answer has grown by so many characters."""
        give_up_at = time.monotonic() + seconds
        wanted = len(self.text) + characters
        while len(self.text) < wanted:
            assert time.monotonic() < give_up_at, (
                f"it stands still: {self.page.get_by_test_id('status').inner_text()}"
            )
            self.page.wait_for_timeout(20)

    @property
    def text(self) -> str:
        """The source of the last answer, as far as it has come."""
        source: str = self.page.locator("evenflow-chat").evaluate("it => it.lastText")
        return source

    @property
    def shown(self) -> str:
        """The same; its words must be on the screen, once each and in order."""
        source = self.text
        rendered = self.page.get_by_test_id("answer").last.inner_text()
        assert _WORD.findall(rendered) == _WORD.findall(source)
        return source

    @property
    def transport(self) -> str | None:
        """How the answer travels."""
        return self.page.get_by_test_id("transport").get_attribute("data-value")

    @property
    def steps(self) -> int:
        """How often its text grew."""
        return int(self.page.get_by_test_id("answer").last.get_attribute("data-steps") or 0)

    def logged(self) -> dict[str, Any]:
        """The response as the server's log has it."""
        return self._called("GET", "?from_index=0")

    def cancel_elsewhere(self) -> None:
        """End the answer at the server, as another client of the session may."""
        assert self._called("POST", "/cancel")["status"] == "cancelled"

    def _called(self, method: str, path: str) -> dict[str, Any]:
        response_id = self.page.get_by_test_id("answer").last.get_attribute("data-response-id")
        request = urllib.request.Request(
            f"{self.server.http_url}/chat/message/{response_id}{path}",
            headers={"Authorization": f"Bearer {self.page.evaluate(_TOKEN)}"},
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            body: dict[str, Any] = json.load(answer)
            return body

    def check_what_was_seen(self, *, may_restart: bool = False) -> None:
        """Since the page was loaded, each state of the answer went on from the one before it,
        but where a restart was stated.
        """
        looked, wrong, restarts = self.page.evaluate(
            "[watched.looks > 0, watched.wrong, watched.restarts]"
        )
        assert looked, "nothing was seen at all"
        assert wrong == [], wrong
        assert may_restart or restarts == 0, f"{restarts} restarts"

    def check_the_end(self, state: str = "done", *, may_restart: bool = False) -> None:
        """Wait for the end: all of the log is shown, and nothing was shown twice at any time."""
        self.wait_for(state)
        log = self.logged()
        assert log["status"] == {"done": "completed"}.get(state, state)
        shown = self.shown
        assert shown == log["full_text"], f"{len(shown)} characters of {len(log['full_text'])}"
        self.check_what_was_seen(may_restart=may_restart)
