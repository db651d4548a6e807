"""A response has its id, its events and its conversation at every task."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import LocalDeployment
from tests.integration.openai.conftest import openai_client
from tests.integration.server_process import Server

_TEXT = "".join(demo_tokens(31, 120))
_ANSWER = demo(tokens=120, gap_ms=8, seed=31)
_FINE = {"batch_tokens": 1}
_LEASE_SECONDS = 10
_UNTIL = 40
Event = dict[str, Any]
ClientAt = Callable[..., Awaitable[openai.AsyncOpenAI]]


@pytest.fixture
async def client_at() -> AsyncIterator[ClientAt]:
    """Make clients of servers."""
    async with AsyncExitStack() as clients:
        made: dict[tuple[str, str], openai.AsyncOpenAI] = {}

        async def client(server: Server, token: str) -> openai.AsyncOpenAI:
            known = (server.http_url, token)
            if known not in made:
                opened = openai_client(f"{server.http_url}/v1", token)
                made[known] = await clients.enter_async_context(opened)
            return made[known]

        yield client


async def _events(
    client: openai.AsyncOpenAI, name: str, after: int | None = None, until: int | None = None
) -> list[Event]:
    """A response's events, up to the first with a number from `until` on."""
    asked: Any = {} if after is None else {"starting_after": after}
    events: list[Event] = []
    async with await client.responses.retrieve(name, stream=True, **asked) as stream:
        async for event in stream:
            events.append(event.to_dict())
            if until is not None and event.sequence_number >= until:
                break
    return events


def _text(events: list[Event]) -> str:
    return "".join(
        event["delta"] for event in events if event["type"] == "response.output_text.delta"
    )


def _numbers(events: list[Event]) -> list[int]:
    return [event["sequence_number"] for event in events]


async def _begun(client: openai.AsyncOpenAI) -> Response:
    return await client.responses.create(model="demo", input=_ANSWER, background=True)


async def test_a_stream_goes_on_at_another_task_by_its_numbers(
    deployment: LocalDeployment, opened: OpenSession, client_at: ClientAt
) -> None:
    first, second = await deployment.handlers(2, **_FINE)
    token = (await opened(first)).token
    here, there = await client_at(first, token), await client_at(second, token)
    name = (await _begun(here)).id
    begun = await _events(here, name, until=_UNTIL)
    rest = deployment.serve.time_passes_until(
        _events(there, name, after=begun[-1]["sequence_number"])
    )
    every = begun + await rest
    assert _text(every) == _TEXT
    assert every[-1]["type"] == "response.completed"
    assert _numbers(every) == sorted(set(_numbers(every)))
    ended = await _events(here, name), await _events(there, name)
    assert _numbers(ended[0]) == _numbers(ended[1])
    assert [_text(each) for each in ended] == [_TEXT, _TEXT]


async def test_a_lost_task_s_events_go_on_with_larger_numbers(
    deployment: LocalDeployment, opened: OpenSession, client_at: ClientAt
) -> None:
    owner, other = await deployment.handlers(2, lease_seconds=_LEASE_SECONDS, **_FINE)
    token = (await opened(owner)).token
    here, there = await client_at(owner, token), await client_at(other, token)
    name = (await _begun(here)).id
    begun = await _events(here, name, until=_UNTIL)
    await _events(there, name, until=_UNTIL + 200)
    await owner.vanish()
    back = _events(there, name, after=begun[-1]["sequence_number"])
    every = begun + await deployment.serve.time_passes_until(back)
    assert every[-1]["type"] == "response.completed"
    assert _text(every) == _TEXT
    assert _numbers(every) == sorted(set(_numbers(every)))
    whole = await there.responses.retrieve(name)
    assert (whole.status, whole.output_text) == ("completed", _TEXT)


async def test_a_conversation_goes_on_at_another_task_and_ends_at_both(
    deployment: LocalDeployment, opened: OpenSession, client_at: ClientAt
) -> None:
    first, second = await deployment.handlers(2)
    token = (await opened(first)).token
    here, there = await client_at(first, token), await client_at(second, token)
    made = await deployment.serve.time_passes_until(
        here.responses.create(model="demo", input=demo(tokens=3))
    )
    following = await deployment.serve.time_passes_until(
        there.responses.create(model="demo", input=demo(tokens=3), previous_response_id=made.id)
    )
    assert following.previous_response_id == made.id
    assert (await here.responses.retrieve(following.id)).output == following.output
    await there.responses.delete(made.id)
    for client in (here, there):
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)


async def test_nobody_else_finds_a_response(serve: Serve, client_at: ClientAt) -> None:
    keys = {"acme": "acme-key-0123456789", "other": "other-key-0123456789"}
    server = await serve(tenant_keys=json.dumps(keys))
    ours, others = [await client_at(server, key) for key in keys.values()]
    made = await serve.time_passes_until(ours.responses.create(model="demo", input=demo(tokens=3)))
    assert (await ours.responses.retrieve(made.id)).id == made.id
    for asking in (
        others.responses.retrieve(made.id),
        others.responses.cancel(made.id),
        others.responses.delete(made.id),
        others.responses.input_items.list(made.id)._get_page(),
    ):
        with pytest.raises(openai.NotFoundError):
            await asking
    with pytest.raises(openai.BadRequestError, match="not found"):
        await others.responses.create(model="demo", input="hello", previous_response_id=made.id)


@pytest.mark.parametrize(("background", "status"), [(True, "completed"), (False, "cancelled")])
async def test_a_response_without_a_reader_goes_on_in_the_background_only(
    serve: Serve, client_at: ClientAt, background: bool, status: str
) -> None:
    server = await serve(grace_seconds=0.2)
    client, name = await client_at(server, "sk-anything"), ""
    asked: Any = {"model": "demo", "input": _ANSWER, "background": background}
    async with await client.responses.create(stream=True, **asked) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
            if event.type == "response.created":
                name = event.response.id

    async def ended() -> str | None:
        status: str | None = "in_progress"
        while status == "in_progress":
            status = (await client.responses.retrieve(name)).status
        return status

    assert await serve.time_passes_until(ended()) == status


async def test_a_conversation_is_no_larger_than_a_request(
    serve: Serve, client_at: ClientAt
) -> None:
    client = await client_at(await serve(request_bytes=65_536), "sk-anything")
    roles = {"user": "a" * 40_000, "assistant": "b"}
    items = [{"role": role, "content": said} for role, said in roles.items()]
    items.append({"role": "user", "content": demo(tokens=1)})
    asked: Any = {"model": "demo", "input": items}
    made = await serve.time_passes_until(client.responses.create(**asked))
    with pytest.raises(openai.APIStatusError) as refused:
        await client.responses.create(**asked, previous_response_id=made.id)
    assert (refused.value.status_code, refused.value.code) == (413, "message_too_large")


async def test_a_key_s_stream_goes_on_after_a_number(serve: Serve, client_at: ClientAt) -> None:
    client = await client_at(await serve(), "sk-anything")
    asked: Any = {"model": "demo", "input": demo(tokens=5, seed=31), "stream": True}

    async def events(**headers: str) -> list[Event]:
        async with await client.responses.create(**asked, extra_headers=headers) as stream:
            return [event.to_dict() async for event in stream]

    every = await serve.time_passes_until(events(**{"Idempotency-Key": "once"}))
    place = next(place for place, event in enumerate(every) if "delta" in event)
    last = str(every[place]["sequence_number"])
    rest = await events(**{"Idempotency-Key": "once", "Last-Event-ID": last})
    assert _text(every[: place + 1] + rest) == _text(every)
    assert _numbers(rest)[-1] == _numbers(every)[-1]
    with pytest.raises(openai.BadRequestError, match="Idempotency-Key"):
        await events(**{"Last-Event-ID": last})
