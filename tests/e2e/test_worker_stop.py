"""The page, a handler, and a worker in a process of its own: Stop in the browser ends the work
there.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import Page

from tests.e2e.conftest import OpenPage
from tests.e2e.conversation import Conversation
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.grpc_workers.conftest import WorkerProcesses
from tests.integration.grpc_workers.workers import WorkerProcess

_STOP_MS = 200.0
_TRIES = 12
_NOTE_CLICKS = """() => addEventListener("click",
    () => { window.clickedAt = Date.now(); }, { capture: true })"""


def test_the_stop_button_ends_the_work_of_the_worker(
    open_page: OpenPage, serve_process: ServeProcess, worker_processes: WorkerProcesses
) -> None:
    worker = worker_processes()
    server = serve_process(model="grpc", workers=worker.address, fallback_text="")
    conversation = Conversation(open_page("about:blank"), server).open()
    conversation.page.evaluate(_NOTE_CLICKS)
    took: list[float] = []
    # The best one: the machine is shared, and a try may wait for its turn.
    with ThreadPoolExecutor(1) as aside:
        while not took or (min(took) >= _STOP_MS and len(took) < _TRIES):
            took.append(_stop(conversation, worker, aside))
    assert min(took) < _STOP_MS, took


def _stop(conversation: Conversation, worker: WorkerProcess, aside: ThreadPoolExecutor) -> float:
    """Ask, stop, and return the milliseconds from the click to the worker's last token."""
    conversation.ask(demo(tokens=5_000, gap_ms=10))
    conversation.wait_for("streaming")
    conversation.wait_for_more(30)
    assert aside.submit(asyncio.run, worker.describe()).result().streams == 1
    ending = aside.submit(asyncio.run, worker.until_streams(0))
    conversation.page.wait_for_timeout(100)
    assert not ending.done(), "it ended before anybody stopped it"
    conversation.stop()
    clicked = _clicked_at(conversation.page)
    took = (ending.result() - clicked) * 1000
    taken = aside.submit(asyncio.run, worker.describe()).result().tokens_taken
    conversation.check_the_end("cancelled")
    conversation.page.wait_for_timeout(300)
    assert aside.submit(asyncio.run, worker.describe()).result().tokens_taken == taken
    return took


def _clicked_at(page: Page) -> float:
    """When the page was clicked, on this process' monotonic clock, in seconds."""
    at: float = page.evaluate("clickedAt")
    return at / 1000 - time.time() + time.monotonic()
