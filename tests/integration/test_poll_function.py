"""The poll function by itself, on what the handler's own store writes: its parameters, and
responses that changed hands.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from aiobotocore.session import AioSession

from evenflow.stream_aws.dynamodb_response_store import DynamoDBResponseStore
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore
from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_aws.keys import parse_signing_keys
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.log.entries import LogEntry, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.part_objects import part_object
from evenflow.stream_core.stores.response_store import TEXT_FORM, Chunk, Ending, Lease, ResponseHead
from evenflow.stream_core.stores.session_store import LedgerEntry
from evenflow.stream_core.tenants.tenant import Tenant
from tests.integration.answer import Answer, Frame
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import HttpAnswer
from tests.integration.deployment import SIGNING_KEYS, Tables
from tests.integration.dynamodb_emulator import DynamoDBEmulator
from tests.integration.stores.stores import lease_of

Poll = Callable[["StoredResponse", str], HttpAnswer]


class StoredResponse:
    """A response of a session of its own, as its owners write it."""

    def __init__(self, responses: DynamoDBResponseStore, channel: Channel, lease: Lease) -> None:
        self.channel = channel
        self.lease = lease
        self._responses = responses
        self._began_at = time.time()

    async def write(self, first_index: int, *entries: LogEntry) -> None:
        """A chunk of its owner's."""
        chunk = Chunk(
            self.lease.response_id, self.lease.epoch, first_index, entries, self._began_at
        )
        assert list(await self._responses.append([chunk])) == []

    async def take_over(self) -> int:
        """Another task owns it; returns from which index on."""
        lease = lease_of(
            await self._responses.take_over(self.lease.response_id, uuid.uuid4().hex, time.time())
        )
        assert lease is not None
        self.lease = lease
        return (await self.head()).starts[lease.epoch]

    async def head(self) -> ResponseHead:
        """What the store has of it."""
        head = await self._responses.head(self.lease.response_id, time.time())
        assert head is not None
        return head

    async def finish(self, next_index: int) -> None:
        """It is completed."""
        ending = Ending(ResponseState.COMPLETED, next_index, time.time(), "stop")
        await self._responses.finish(self.lease, ending, time.time() + 300)


@pytest.fixture(scope="module")
def tables(emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator) -> Tables:
    """Empty ones."""
    environment = emulated_aws.environment | emulated_dynamodb.environment
    return Tables(environment, emulated_dynamodb.create_tables(f"test{time.monotonic_ns()}"))


@pytest.fixture
async def response(
    tables: Tables, emulated_dynamodb: DynamoDBEmulator
) -> AsyncIterator[StoredResponse]:
    """Accepted by a task that was never heard of again."""
    async with emulated_dynamodb.asynchronous_client(AioSession()) as client:
        responses = DynamoDBResponseStore(client, tables.tables.responses, lambda: None)
        sessions = DynamoDBSessionStore(client, tables.tables, lambda: None)
        channel = Channel("public", "demo", uuid.uuid4().hex)
        message = LedgerEntry("m1", None, "hello", f"rsp_{uuid.uuid4().hex}", "task-a")
        yield StoredResponse(
            responses, channel, await sessions.accept(channel, message, time.time())
        )


@pytest.fixture(scope="module")
def poll(tables: Tables, emulated_aws: AwsEmulator) -> Poll:
    """Polls a response, with a token of its session."""
    function = tables.poll_function()
    secret = emulated_aws.client("secretsmanager").get_secret_value(SecretId=SIGNING_KEYS)
    tokens = SessionTokens(parse_signing_keys(secret["SecretString"]))

    def poll(response: StoredResponse, query: str) -> HttpAnswer:
        token, _ = tokens.issue(response.channel, time.time(), 60)
        path = f"/chat/message/{response.lease.response_id}?{query}"
        return function.call("GET", path, headers={"Authorization": f"Bearer {token}"})

    return poll


async def test_nothing_of_a_removed_tenant_is_read(
    tables: Tables, emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator
) -> None:
    async with emulated_dynamodb.asynchronous_client(AioSession()) as client:
        tenants = DynamoDBTenantStore(client, str(tables.tables.tenants), lambda: None)
        await tenants.put(Tenant(id="acme"), 0)
        await tenants.delete("acme", 1)
    secret = emulated_aws.client("secretsmanager").get_secret_value(SecretId=SIGNING_KEYS)
    tokens = SessionTokens(parse_signing_keys(secret["SecretString"]))
    token, _ = tokens.issue(Channel("acme", "demo", "s"), time.time(), 60)
    headers = {"Authorization": f"Bearer {token}"}
    refused = tables.poll_function().call("GET", "/chat/message/rsp_1", headers=headers)
    assert (refused.status, refused.error["code"]) == (403, "tenant_removed")


MALFORMED = [
    *(("epoch", value) for value in ("", "0", "-1", "1.5", "x", "1,2", "1e3", "ä")),
    *((name, value) for name in ("from_index", "timeout_ms") for value in ("", "-1", "0.5", "x")),
]


@pytest.mark.parametrize(("name", "value"), MALFORMED)
def test_a_parameter_that_is_no_number_is_refused(
    poll: Poll, response: StoredResponse, name: str, value: str
) -> None:
    answer = poll(response, f"{name}={value}")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (
        400,
        "invalid_field",
        name,
    )


@pytest.mark.parametrize("query", ["from_index=999999999", "from_index=10003"])
async def test_an_index_that_the_log_never_had_is_refused_before_the_poll_waits(
    poll: Poll, response: StoredResponse, query: str
) -> None:
    await response.write(0, "Hello", " you")
    began_at = time.monotonic()
    answer = poll(response, f"{query}&timeout_ms=25000")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (
        400,
        "invalid_field",
        "from_index",
    )
    assert "next index is 2" in answer.error["message"]
    assert time.monotonic() - began_at < 3


async def test_polls_of_the_function_are_counted_for_the_session_and_for_shares(
    poll: Poll, response: StoredResponse
) -> None:
    await response.write(0, "Hello")
    poll(response, "from_index=0")
    poll(response, "from_index=0")
    head = await response.head()
    assert (head.polls, head.session_polls, head.share_polls) == (2, 2, 0)


async def test_a_form_that_the_function_does_not_know_is_refused_until_it_does(
    poll: Poll, response: StoredResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasoning = Part(PartKind.REASONING, "They ask", name="reasoning_content")
    await response.write(0, reasoning, "Hello")
    with monkeypatch.context() as version_before:
        version_before.setattr("evenflow.stream_core.stores.response_store.NEWEST_FORM", TEXT_FORM)
        refused = poll(response, "from_index=0")
        assert (refused.status, refused.error["code"]) == (503, "newer_form")
        assert refused.headers["Retry-After"] == "1"
    body = poll(response, "from_index=0").json
    assert (body["new_text"], body["chunk_index"]) == ("Hello", 1)
    assert body["events"] == [{"index": 0, "at": 0, **part_object(reasoning)}]


async def test_each_poll_and_refusal_has_its_line_and_the_first_call_counts_as_a_cold_start(
    tables: Tables,
    poll: Poll,
    response: StoredResponse,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await response.write(0, "Hello", "!")
    poll(response, "from_index=0")
    await response.finish(2)
    poll(response, "from_index=1")
    poll(response, "from_index=x")
    told = [made.__dict__ for made in caplog.records if "event" in made.__dict__]
    assert [line["event"] for line in told] == ["reader", "reader", "refusal"]
    before_the_end, reader, refusal = told
    assert before_the_end["left"] == "answered"
    assert (reader["transport"], reader["via"], reader["left"]) == ("poll", "store", "ended")
    assert (reader["first_index"], reader["entries_delivered"]) == (1, 1)
    assert reader["session"] == response.channel.session_digest
    assert (refusal["code"], refusal["what"]) == (
        "invalid_field",
        "GET /chat/message/{response_id}",
    )
    capsys.readouterr()
    function = tables.poll_function()
    for _ in range(2):
        function.call("GET", "/chat/message/rsp_1")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (cold,) = [line for line in lines if "ColdStart" in line]
    assert (cold["ColdStart"], cold["function_name"]) == ([1.0], "poll_response")


def test_a_page_of_another_origin_may_poll_where_it_is_named(tables: Tables) -> None:
    page = "https://app.example.com"
    function = tables.poll_function(EVENFLOW_ALLOWED_ORIGINS=page)
    asked = {
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization",
    }
    for origin, allowed in ((page, page), ("https://other.example.com", None)):
        preflight = function.call(
            "OPTIONS", "/chat/message/rsp_1?from_index=4", headers={"Origin": origin} | asked
        )
        assert preflight.status == (204 if allowed else 405)
        refused = function.call("GET", "/chat/message/rsp_1", headers={"Origin": origin})
        assert (refused.status, refused.error["code"]) == (401, "token_missing")
        for answer in (preflight, refused):
            assert answer.headers.get("Access-Control-Allow-Origin") == allowed
            assert answer.headers["Vary"] == "Origin"


async def test_a_response_that_changed_hands(poll: Poll, response: StoredResponse) -> None:
    await response.write(0, "a", "b", "c")
    assert await response.take_over() == 3
    await response.write(3, Restart(2, 2, 2), "d")
    await response.finish(5)
    told = partial(_told, poll, response)
    everything: Frame = {"from_index": -1, "attempt": 2}
    assert told("from_index=0") == ("abcd", 5, None, 2)
    assert told("from_index=3") == ("d", 5, None, 2)
    assert told("from_index=5") == ("abcd", 5, everything, 2)
    assert told("from_index=5&epoch=1") == ("abcd", 5, everything, 2)
    assert told("from_index=5&epoch=2") == ("", 5, None, 2)
    assert told("from_index=50") == ("abcd", 5, everything, 2)
    refused = poll(response, "from_index=50&epoch=2")
    assert (refused.status, refused.error["param"]) == (400, "from_index")


def _told(poll: Poll, response: StoredResponse, query: str) -> tuple[str, int, Frame | None, int]:
    answer = poll(response, query)
    assert answer.status == 200, answer.body
    assert answer.json["full_text"] == "abcd"
    metadata = answer.json["metadata"]
    return answer.json["new_text"], metadata["next_index"], metadata["restarted"], metadata["epoch"]


async def test_a_reader_through_three_owners(poll: Poll, response: StoredResponse) -> None:
    """The second one was lost with two entries that only this reader has had, the third begins
    the text again.
    """
    answer = Answer()

    def poll_on() -> Frame:
        body = poll(
            response, f"from_index={answer.last + 1}&timeout_ms=300&epoch={answer.epoch}"
        ).json
        answer.take_poll(body)
        return body

    await response.write(0, "a", "b")
    poll_on()
    await response.take_over()
    await response.write(2, Restart(1, 2, 2), "c")
    assert poll_on()["new_text"] == "c"
    for index, text in ((4, "lost "), (5, "too")):
        answer.take({"type": "chat.response.delta", "delta": text, "index": index})
    assert (answer.text, poll_on()["new_text"]) == ("abclost too", "")
    await response.take_over()
    assert poll_on()["new_text"] == ""  # nothing is on record of the new owner
    assert answer.text == "abclost too"
    await response.write(4, Restart(-1, 3, 3), "x", "y")
    assert poll_on()["metadata"]["restarted"] == {"from_index": -1, "attempt": 3}
    await response.write(7, "z")
    await response.finish(8)
    assert poll_on()["new_text"] == "z"
    assert (answer.text, answer.end is not None, answer.epoch) == ("xyz", True, 3)
