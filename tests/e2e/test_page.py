"""What a person sees: the answer flows, falls back to polling, and stops."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.conversation import Conversation, generations_running
from tests.integration.server_process import ServerProcess

OpenPage = Callable[[str], Page]
_QUESTION = "How does Evenflow treat slow readers?"
_ANSWER_MS = 30_000


def test_an_answer_flows_over_the_websocket_and_is_the_log_s_text(
    open_page: OpenPage, server: ServerProcess
) -> None:
    conversation = Conversation(open_page("about:blank"), server).open()
    conversation.ask(_QUESTION)
    conversation.wait_for("streaming")
    conversation.wait_for("done")
    log = conversation.logged()
    assert "A reader that falls behind" in log["full_text"]
    assert conversation.shown == log["full_text"]
    assert conversation.steps >= 20
    expect(conversation.page.get_by_test_id("transport")).to_have_attribute(
        "data-value", "websocket"
    )


def test_without_a_websocket_the_same_answer_comes_as_an_event_stream(
    open_page: OpenPage, server_without_websocket: ServerProcess
) -> None:
    conversation = Conversation(open_page("about:blank"), server_without_websocket).open()
    conversation.ask(_QUESTION)
    conversation.wait_for("done")
    assert conversation.shown == conversation.logged()["full_text"]
    expect(conversation.page.get_by_test_id("transport")).to_have_attribute("data-value", "sse")


def test_by_polling_the_same_answer_takes_fewer_than_five_polls(
    open_page: OpenPage, server: ServerProcess
) -> None:
    conversation = Conversation(open_page("about:blank"), server).open("?transport=poll")
    conversation.ask(_QUESTION)
    conversation.wait_for("done")
    assert conversation.shown == conversation.logged()["full_text"]
    page = conversation.page
    expect(page.get_by_test_id("transport")).to_have_attribute("data-value", "long-poll")
    assert 1 <= int(page.get_by_test_id("polls").get_attribute("data-value") or 0) < 5


def test_a_reload_in_mid_answer_goes_on_with_it(open_page: OpenPage, server: ServerProcess) -> None:
    conversation = Conversation(open_page("about:blank"), server).open()
    conversation.ask("#demo tokens=100 gap_ms=40 seed=8")
    conversation.wait_for("streaming")
    conversation.page.wait_for_timeout(500)
    conversation.page.reload()
    conversation.wait_for("done")
    assert conversation.shown == conversation.logged()["full_text"]
    assert conversation.page.get_by_test_id("answer").count() == 1


def test_retry_replaces_the_answer_and_the_model_sees_one_question(
    open_page: OpenPage, server: ServerProcess
) -> None:
    conversation = Conversation(open_page("about:blank"), server).open()
    page = conversation.page
    sent: list[dict[str, Any]] = []
    page.on(
        "websocket",
        lambda socket: socket.on("framesent", lambda frame: sent.append(json.loads(frame))),
    )
    page.reload()
    conversation.ask("#demo tokens=20 gap_ms=20 seed=9")
    conversation.wait_for("done")
    first = conversation.logged()
    page.get_by_test_id("retry").click()
    expect(page.get_by_test_id("answer").last).not_to_have_attribute(
        "data-response-id", first["response_id"]
    )
    conversation.wait_for("done")
    assert page.get_by_test_id("answer").count() == 1
    assert page.get_by_role("article", name="Your question").count() == 1
    messages = [frame for frame in sent if frame["type"] == "chat.message"]
    assert [message.get("replaces") for message in messages] == [None, messages[0]["message_id"]]
    assert conversation.shown == conversation.logged()["full_text"]


def test_stop_ends_the_model_within_200_ms(open_page: OpenPage, server: ServerProcess) -> None:
    conversation = Conversation(open_page("about:blank"), server).open()
    page = conversation.page
    looked: list[float] = []
    took: list[float] = []
    # The machine is shared: the best of a few says what the system does, beside what a click that
    # stops nothing takes, with the look at whether the model runs.
    while len(took) < 3 or (min(took) - min(looked) >= 0.2 and len(took) < 15):
        conversation.ask("#demo tokens=2000 gap_ms=30")
        conversation.wait_for("streaming")
        page.get_by_test_id("stop").wait_for()
        began = time.monotonic()
        page.get_by_test_id("question").click()
        assert generations_running(server) == 1
        looked.append(time.monotonic() - began)
        clicked = time.monotonic()
        page.get_by_test_id("stop").click()
        while generations_running(server):
            assert time.monotonic() < clicked + 20
        took.append(time.monotonic() - clicked)
        conversation.wait_for("cancelled")
        assert conversation.logged()["status"] == "cancelled"
        assert conversation.shown == conversation.logged()["full_text"]
    assert min(took) - min(looked) < 0.2, (took, looked)


def test_stop_works_over_polling_too(open_page: OpenPage, server: ServerProcess) -> None:
    conversation = Conversation(open_page("about:blank"), server).open("?transport=poll")
    conversation.ask("#demo tokens=2000 gap_ms=30")
    conversation.wait_for("streaming")
    conversation.page.get_by_test_id("stop").click()
    conversation.wait_for("cancelled")
    assert generations_running(server) == 0


def test_a_socket_that_is_cut_in_mid_answer_leaves_no_gap(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page("about:blank")
    sockets = []

    def cut_in(socket: Any) -> None:
        upstream = socket.connect_to_server()
        sockets.append((socket, upstream))

    page.route_web_socket("**/ws", cut_in)
    conversation = Conversation(page, server).open()
    conversation.ask("#demo tokens=120 gap_ms=30 seed=5")
    conversation.wait_for("streaming")
    page.wait_for_timeout(800)
    client_side, server_side = sockets[0]
    server_side.close()
    client_side.close(code=1011)
    conversation.wait_for("done")
    assert len(sockets) >= 2
    assert conversation.shown == conversation.logged()["full_text"]


def test_a_server_that_is_leaving_is_left_without_anything_to_see(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page("about:blank")
    sockets: list[Any] = []
    closed: set[int] = set()

    def pass_through(socket: Any) -> None:
        number = len(sockets)
        upstream = socket.connect_to_server()

        def close(code: int | None, reason: str | None) -> None:
            closed.add(number)
            upstream.close(code=code, reason=reason)

        socket.on_close(close)
        sockets.append(socket)

    page.route_web_socket("**/ws", pass_through)
    conversation = Conversation(page, server).open()
    conversation.ask("#demo tokens=120 gap_ms=30 seed=6")
    conversation.wait_for("streaming")
    page.evaluate(
        """() => {
            window.states = [];
            const { shadowRoot } = document.querySelector("evenflow-chat");
            const status = shadowRoot.querySelector('[data-testid="status"]');
            const note = () => window.states.push(status.dataset.state);
            new MutationObserver(note).observe(status, { attributes: true });
        }"""
    )
    sockets[0].send(json.dumps({"type": "reconnect", "reason": "drain", "after_ms": 300}))
    conversation.wait_for("done")
    assert (len(sockets), closed) == (2, {0})
    assert conversation.shown == conversation.logged()["full_text"]
    assert set(page.evaluate("window.states")) == {"streaming", "done"}


def test_the_page_keeps_a_policy_without_inline_code(
    open_page: OpenPage, server: ServerProcess
) -> None:
    with urllib.request.urlopen(server.http_url) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    page = open_page(server.http_url)
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None


def test_the_page_fits_a_phone_and_works_by_keyboard(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_test_id("question").focus()
    page.keyboard.type("What is Evenflow?")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("status")).to_have_attribute(
        "data-state", "done", timeout=_ANSWER_MS
    )
    assert "a streaming server between a language model and its readers" in (
        page.get_by_test_id("answer").last.text_content() or ""
    )
