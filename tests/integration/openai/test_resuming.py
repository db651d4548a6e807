"""The same Idempotency-Key is the same answer, and Last-Event-ID goes on where a stream broke
off.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Completions, Streamed, asking, read_stream
from tests.integration.openai.conftest import At
from tests.integration.scripted_model import END, Reply, chunk, scripted_model

_SLOW = demo(tokens=100, gap_ms=10, seed=9)
_TEXT = "".join(demo_tokens(9, 100))


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(response_ttl_seconds=20, grace_seconds=10)


async def test_a_stream_that_broke_off_goes_on_without_gap_or_duplicate(
    at: At, server: LocalServer, serve: Serve
) -> None:
    completions = at(server)
    before = await server.metric("responses_completed_total")
    streamed, connections = Streamed(), 0
    while not streamed.done:
        headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
        async with completions.open(_SLOW, Idempotency_Key="resumed", **headers) as answer:
            assert answer.status == 200
            await read_stream(answer, streamed, streamed.last_index + 4)
        connections += 1
        await serve.time_passes(0.1)
    assert connections > 1
    assert (streamed.text, streamed.finish_reason) == (_TEXT, "stop")
    assert len({part["id"] for part in streamed.chunks}) == 1
    assert await server.metric("responses_completed_total") == before + 1


async def test_a_break_before_the_first_delta_loses_nothing(at: At, server: LocalServer) -> None:
    streamed = Streamed()
    async with at(server).open(_SLOW, Idempotency_Key="early") as answer:
        await read_stream(answer, streamed, -1)
    assert (streamed.text, streamed.last_id) == ("", "-1")
    async with at(server).open(
        _SLOW, Idempotency_Key="early", Last_Event_ID=streamed.last_id
    ) as answer:
        await read_stream(answer, streamed)
    assert streamed.text == _TEXT


async def test_the_same_key_is_the_same_answer(at: At, server: LocalServer) -> None:
    completions = at(server)
    one, other, streamed = await asyncio.gather(
        completions.ask(_SLOW, key="twice"),
        completions.ask(_SLOW, key="twice"),
        completions.stream(_SLOW, Idempotency_Key="twice"),
    )
    assert one.json["id"] == other.json["id"] == streamed.chunks[0]["id"]
    assert one.json["choices"] == other.json["choices"]
    assert streamed.text == one.json["choices"][0]["message"]["content"] == _TEXT


async def test_a_key_is_for_one_request(at: At, server: LocalServer) -> None:
    completions = at(server)
    assert (await completions.ask(demo(tokens=2), key="once")).status == 200
    refused = await completions.ask(demo(tokens=3), key="once")
    assert (refused.status, refused.error["code"]) == (400, "idempotency_key_reused")
    refused = await completions.ask(demo(tokens=2), key="once", temperature=1)
    assert (refused.status, refused.error["code"]) == (400, "idempotency_key_reused")


async def test_the_keys_of_tenants_are_their_own(at: At, serve: Serve) -> None:
    server = await serve(
        tenant_keys='{"acme": "acme-key-0123456789", "zeta": "zeta-key-0123456789"}'
    )
    acme, zeta = at(server, "acme-key-0123456789"), at(server, "zeta-key-0123456789")
    answers = [await client.ask(demo(tokens=2), key="shared") for client in (acme, zeta, acme)]
    assert answers[0].json["id"] == answers[2].json["id"] != answers[1].json["id"]


async def test_a_failed_answer_stays_the_answer_of_its_key(at: At, server: LocalServer) -> None:
    text = demo(tokens=4, fail_after=2, fail_attempts=2)
    for _ in range(2):
        failed = await at(server).ask(text, key="failing")
        assert (failed.status, failed.error["code"]) == (502, "upstream_failed")


async def test_an_answer_that_is_no_longer_held(at: At, server: LocalServer, serve: Serve) -> None:
    assert (await at(server).ask(demo(tokens=2), key="old")).status == 200
    await serve.time_passes(22)
    await server.until_metric("responses_held", 0)
    gone = await at(server).ask(demo(tokens=2), key="old")
    assert (gone.status, gone.error["code"], gone.error["param"]) == (
        410,
        "response_expired",
        "Idempotency-Key",
    )


async def test_an_answer_that_nobody_came_back_for(
    at: At, server: LocalServer, serve: Serve
) -> None:
    text = demo(tokens=5_000, gap_ms=20)
    async with at(server).open(text, Idempotency_Key="left") as answer:
        await read_stream(answer, until_index=2)
    await serve.time_passes(12)
    await server.until_metric("generations_running", 0)
    cancelled = await at(server).ask(text, key="left")
    assert (cancelled.status, cancelled.error["code"]) == (410, "response_cancelled")


@pytest.mark.parametrize("event_id", ["x", "1.2.3", "-2", "1.end", "9" * 16])
async def test_a_wrong_last_event_id(completions: Completions, event_id: str) -> None:
    refused = await completions.post(
        asking(demo(tokens=2), stream=True),
        Idempotency_Key=f"wrong-{event_id}",
        Last_Event_ID=event_id,
    )
    assert (refused.status, refused.error["code"], refused.error["param"]) == (
        400,
        "invalid_field",
        "Last-Event-ID",
    )


async def test_a_last_event_id_needs_a_key(completions: Completions) -> None:
    refused = await completions.post(asking(demo(tokens=2), stream=True), Last_Event_ID="1")
    assert (refused.status, refused.error["param"]) == (400, "Last-Event-ID")


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_wrong_key(completions: Completions, key: str) -> None:
    refused = await completions.post(asking(demo(tokens=2)), Idempotency_Key=key)
    assert (refused.status, refused.error["param"]) == (400, "Idempotency-Key")


async def test_a_model_that_begins_again_with_something_else(at: At, serve: Serve) -> None:
    async with scripted_model() as model:
        first = [chunk("One "), chunk("two "), chunk("three")]
        server = await serve(model="openai", model_url=model.url, model_repeatable=True)
        for again, told in (
            ([chunk("One two "), chunk("three, four.")], None),
            ([chunk("Two "), chunk("one")], "differs"),
        ):
            model.will(Reply(first, gap=0.1, then="break"), Reply([*again, END], gap=0.1))
            streamed = await at(server).stream(f"count {told}", model="openai")
            assert streamed.done
            if told is None:
                assert (streamed.text, streamed.finish_reason) == ("One two three, four.", "stop")
            else:
                assert streamed.error is not None
                assert streamed.error["code"] == "response_restarted"
                assert re.fullmatch("One two (three)?", streamed.text)


async def test_what_was_replaced_is_not_given_to_who_asks_again(at: At, serve: Serve) -> None:
    async with scripted_model() as model:
        first = [chunk("Hello"), chunk(" wor"), chunk("ld one")]
        model.will(Reply(first, gap=0.1, then="break"), Reply([chunk("Hello there"), END], gap=0.1))
        served = await serve(model="openai", model_url=model.url, model_repeatable=True)
        completions = at(served)
        told = await completions.stream("hello", model="openai", Idempotency_Key="again")
        assert told.error is not None
        assert told.error["code"] == "response_restarted"
        again = await completions.stream("hello", model="openai", Idempotency_Key="again")
        assert (again.text, again.finish_reason) == ("Hello there", "stop")
        rest = await completions.stream(
            "hello", model="openai", Idempotency_Key="again", Last_Event_ID="0"
        )
        assert (rest.text, rest.finish_reason) == (" there", "stop")


async def test_a_key_without_a_tenant_s_key_is_its_address_s(at: At, server: LocalServer) -> None:
    """Nobody is given another's answer for guessing the key."""
    completions, text = at(server), demo(tokens=3)
    one, same, other = [
        await completions.post(
            asking(text), Idempotency_Key="order-1", X_Forwarded_For=f"203.0.113.{number}"
        )
        for number in (1, 1, 2)
    ]
    assert one.json["id"] == same.json["id"] != other.json["id"]
    different = await completions.post(
        asking(demo(tokens=4)), Idempotency_Key="order-1", X_Forwarded_For="203.0.113.3"
    )
    assert different.status == 200, "nor learns that it was used"
