"""The server is lost in mid-answer: one that has nothing on record, and one of two that share a
store.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.e2e.conftest import Converse
from tests.e2e.conversation import Conversation, generations_running, until_no_model_runs
from tests.e2e.rough_network import RoughNetwork
from tests.integration.chat_client import demo
from tests.integration.deployment import Deployment
from tests.integration.server_process import ServerProcess

pytestmark = pytest.mark.timeout(150)

_QUERIES = {"websocket": "", "sse": "?transport=sse", "long-poll": "?transport=poll"}
_TOKENS = 200
_TAKE_OVER_MS = 60_000
"""A lease of 10 s must lapse, and the machine may be busy."""


def begin(conversation: Conversation, seed: int, tokens: int = _TOKENS) -> None:
    conversation.ask(demo(tokens=tokens, gap_ms=40, seed=seed))
    conversation.wait_for("streaming")
    conversation.wait_for_more(30)


def check_that_it_goes_on(conversation: Conversation) -> None:
    """The next question is answered whole, and the one after that is stopped."""
    conversation.ask(demo(tokens=20, gap_ms=20, seed=60))
    conversation.check_the_end(may_restart=True)
    begin(conversation, 61, 5_000)
    conversation.stop()
    until_no_model_runs(conversation.server)
    conversation.check_the_end("cancelled", may_restart=True)


@pytest.mark.parametrize("transport", _QUERIES)
@pytest.mark.parametrize("how", ["killed", "asked to end"])
def test_a_server_that_is_started_again_knows_nothing_of_the_answer(
    converse: Converse, network: RoughNetwork, tmp_path: Path, transport: str, how: str
) -> None:
    variables = {"EVENFLOW_PUBLIC_WS_URL": network.ws_url}
    first = ServerProcess(tmp_path / "first.log", variables).wait_until_serving()
    network.lead_to(first)
    conversation = converse(first, _QUERIES[transport])
    begin(conversation, 62)
    if how == "killed":
        first.kill()
    first.stop()
    conversation.wait_for("connecting" if how == "killed" else "error")
    second = ServerProcess(tmp_path / "second.log", variables, first.port).wait_until_serving()
    try:
        conversation.server = second
        conversation.wait_for("error")
        # What has arrived stays, marked as incomplete, and the reader is told what to do.
        assert "".join(demo_tokens(62, _TOKENS)).startswith(conversation.shown)
        assert conversation.page.get_by_test_id("answer").count() == 1
        expect(conversation.page.locator(".note")).to_have_text("Incomplete")
        problem = conversation.page.get_by_test_id("error")
        if how == "killed":
            expect(problem).to_contain_text("The rest of this answer is lost.")
        expect(problem.get_by_role("button", name="Try again")).to_be_visible()
        expect(conversation.page.get_by_text("No WebSocket could be opened")).to_have_count(0)
        conversation.check_what_was_seen()
        check_that_it_goes_on(conversation)
    finally:
        second.stop()


def test_a_server_that_is_started_again_between_two_questions_is_missed_meanwhile(
    converse: Converse, network: RoughNetwork, tmp_path: Path
) -> None:
    variables = {"EVENFLOW_PUBLIC_WS_URL": network.ws_url}
    first = ServerProcess(tmp_path / "first.log", variables).wait_until_serving()
    network.lead_to(first)
    conversation = converse(first)
    conversation.ask(demo(tokens=10, gap_ms=10, seed=63))
    conversation.check_the_end()
    first.kill()
    first.stop()
    status = conversation.page.get_by_test_id("status")
    expect(status).to_have_text("The server can't be reached. Trying again…", timeout=10_000)
    second = ServerProcess(tmp_path / "second.log", variables, first.port).wait_until_serving()
    try:
        conversation.server = second
        expect(status).to_have_text("Connects when you ask", timeout=30_000)
        check_that_it_goes_on(conversation)
        expect(conversation.page.get_by_test_id("error")).to_have_count(0)
    finally:
        second.stop()


@pytest.mark.parametrize("transport", _QUERIES)
def test_another_task_goes_on_with_the_answer_of_one_that_was_killed(
    converse: Converse, network: RoughNetwork, deployment: Deployment, transport: str
) -> None:
    owner, other = deployment.start(2, public_ws_url=network.ws_url)
    network.lead_to(owner, other)
    conversation = converse(owner, _QUERIES[transport])
    begin(conversation, 64)
    assert (generations_running(owner), generations_running(other)) == (1, 0)
    owner.kill()
    conversation.server = other
    conversation.wait_for("done", _TAKE_OVER_MS)
    conversation.check_the_end(may_restart=True)
    assert conversation.shown == "".join(demo_tokens(64, _TOKENS))
    assert conversation.page.get_by_test_id("answer").count() == 1
    check_that_it_goes_on(conversation)


def test_a_reload_while_nobody_has_the_answer_waits_for_the_next_task(
    converse: Converse, network: RoughNetwork, deployment: Deployment
) -> None:
    owner, other = deployment.start(2, public_ws_url=network.ws_url)
    network.lead_to(owner, other)
    conversation = converse(owner)
    begin(conversation, 65)
    owner.kill()
    conversation.server = other
    conversation.reload()
    conversation.wait_for("done", _TAKE_OVER_MS)
    conversation.check_the_end(may_restart=True)
    assert conversation.shown == "".join(demo_tokens(65, _TOKENS))
