"""The handler and the poll function on one emulated DynamoDB, in good weather and in bad."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import ChatSession, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import AwsDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.dynamodb_faults import Fault
from tests.integration.lambda_function import LambdaFunction

# As many polls at once: a thread waits for each, as an execution environment of Lambda would.
_ENVIRONMENTS = ThreadPoolExecutor(32)
# The writes and reads of a response's way through the buffer.
_RESPONSE_CALLS = ("BatchWriteItem", "UpdateItem", "Query", "GetItem", "PutItem")


@pytest.fixture
async def dynamodb(serve: Serve) -> AsyncIterator[DynamoDBEmulator]:
    """Closed before the servers are stopped, which wouldn't be answered by then."""
    async with dynamodb_emulator() as proxy:
        yield proxy
        assert proxy.refused == []


@pytest.fixture
def deployment(
    emulated_aws: AwsEmulator, dynamodb: DynamoDBEmulator, serve: Serve
) -> AwsDeployment:
    tables = dynamodb.create_tables(f"test{time.monotonic_ns()}")
    return AwsDeployment(emulated_aws.environment | dynamodb.environment, tables, serve)


class Poller:
    """Polls one response through the function, as the fallback's client does."""

    def __init__(self, function: LambdaFunction, session: ChatSession, response_id: str) -> None:
        self._function = function
        self._session = session
        self._response_id = response_id
        self.text = ""
        self.next_index = 0
        self.polls = 0

    async def poll(
        self, timeout_ms: int = 10_000, from_index: int | None = None
    ) -> tuple[int, Frame]:
        """One poll: status and body."""
        index = self.next_index if from_index is None else from_index
        path = f"/chat/message/{self._response_id}?from_index={index}&timeout_ms={timeout_ms}"
        headers = {"Authorization": f"Bearer {self._session.token}"}
        call = partial(self._function.call, "GET", path, headers=headers)
        answer = await asyncio.get_running_loop().run_in_executor(_ENVIRONMENTS, call)
        return answer.status, answer.json

    async def whole(self, retry: bool = False) -> Frame:
        """Poll to the end; `retry`: errors of the service are polled through."""
        while True:
            status, body = await self.poll()
            if retry and status == 503:
                assert body["error"]["code"] == "store_unavailable"
                await asyncio.sleep(0.2)
                continue
            assert status == 200, body
            self.polls += 1
            assert body["metadata"]["restarted"] is None
            assert body["chunk_index"] >= self.next_index - 1
            self.text += body["new_text"]
            self.next_index = body["metadata"]["next_index"]
            if body["status"] in ("completed", "error", "cancelled"):
                return body


async def test_what_the_socket_gives_the_function_gives_too(
    deployment: AwsDeployment, opened: OpenSession
) -> None:
    server = await deployment.handler()
    session = await opened(server)
    function = deployment.poll_function()
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=60, gap_ms=25, seed=3))
        poller = Poller(function, session, start["response_id"])
        polled = asyncio.create_task(poller.whole())
        answer = await connection.whole(start["response_id"])
        body = await polled
    whole = "".join(demo_tokens(3, 60))
    assert answer.text == poller.text == body["full_text"] == whole
    assert poller.polls < 5
    assert (body["status"], body["metadata"]["finish_reason"]) == ("completed", "stop")
    assert body["metadata"]["usage"]["completion_tokens"] == 60
    assert body["metadata"]["message_id"] == "m1"
    status, again = await poller.poll(from_index=5)
    assert (status, again["full_text"]) == (200, whole)
    assert whole.endswith(again["new_text"])
    status, refused = await poller.poll(from_index=body["metadata"]["next_index"] + 1)
    assert (status, refused["error"]["param"]) == (400, "from_index")


async def test_errors_and_refusals_through_the_function(
    deployment: AwsDeployment, opened: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await deployment.handler(fallback_text="", response_ttl_seconds=60)
    session, stranger = await opened(server), await opened(server)
    function = deployment.poll_function()
    posted = (await session.post("m1", None, demo(refuse=1))).json
    poller = Poller(function, session, posted["response_id"])
    body = await poller.whole()
    assert (body["status"], body["metadata"]["error"]["code"]) == ("error", "model_refused")
    assert (await Poller(function, stranger, posted["response_id"]).poll())[0] == 404
    assert (await Poller(function, session, "rsp_nope").poll())[0] == 404
    later = SimpleNamespace(
        time=lambda: time.time() + 61, sleep=time.sleep, monotonic=time.monotonic
    )
    monkeypatch.setattr(function.module, "time", later)
    status, gone = await poller.poll(from_index=0)
    assert (status, gone["error"]["code"]) == (410, "response_expired")
    answer = await asyncio.to_thread(function.call, "GET", f"/chat/message/{posted['response_id']}")
    assert (answer.status, answer.error["code"]) == (401, "token_missing")


async def test_polls_keep_a_response_alive_that_nobody_reads_here(
    deployment: AwsDeployment, opened: OpenSession
) -> None:
    server = await deployment.handler(grace_seconds=1)
    session = await opened(server)
    function = deployment.poll_function()
    text = demo(tokens=100, gap_ms=20, seed=4)  # 2 s
    read = (await session.post("m1", None, text)).json["response_id"]
    other = await opened(server)
    unread = (await other.post("m1", None, text)).json["response_id"]
    poller = Poller(function, session, read)
    deadline = time.monotonic() + 30
    status = ""
    while status not in ("completed", "cancelled", "error"):
        assert time.monotonic() < deadline
        _, body = await poller.poll(timeout_ms=300)
        poller.next_index = body["metadata"]["next_index"]
        status = body["status"]
    assert (status, body["full_text"]) == ("completed", "".join(demo_tokens(4, 100)))
    _, body = await Poller(function, other, unread).poll()
    assert body["status"] == "cancelled"


async def test_a_session_goes_on_at_another_task(
    deployment: AwsDeployment, opened: OpenSession
) -> None:
    first, second = await deployment.handlers(2)
    here = await opened(first)
    function = deployment.poll_function()
    posted = (await here.post("m1", None, demo(tokens=5, gap_ms=1, seed=1))).json
    await Poller(function, here, posted["response_id"]).whole()
    there = here.at(second)
    # The same message is the same response, wherever it is sent; nothing is generated twice.
    again = await there.post("m1", None, demo(tokens=5, gap_ms=1, seed=1))
    assert (again.status, again.json["response_id"]) == (202, posted["response_id"])
    assert again.json["status"] == "completed"
    # Causality holds across tasks, and whoever comes second hears what is expected.
    assert (await there.post("m2", None, "hi")).json["error"]["expected"] == "m1"
    assert (await there.post("m2", "m1", demo(tokens=1))).status == 202
    assert (await here.post("m2b", "m1", demo(tokens=1))).json["error"]["expected"] == "m2"
    assert (await here.post("m3", "m2", demo(tokens=1))).status == 202
    race = await asyncio.gather(
        here.post("a", "m3", demo(tokens=1)), there.post("b", "m3", demo(tokens=1))
    )
    assert sorted(answer.status for answer in race) == [202, 409]


@pytest.mark.timeout(180)
async def test_throttled_and_then_unreachable_no_delta_is_lost_or_out_of_order(
    deployment: AwsDeployment, dynamodb: DynamoDBEmulator, opened: OpenSession
) -> None:
    server = await deployment.handler(grace_seconds=60)
    readers = 4
    sessions = [await opened(server) for _ in range(readers)]
    gap_ms, tokens = 20, 150  # 3 s

    async def over_websocket(session: ChatSession, seed: int) -> tuple[str, str, float]:
        async with session.connect() as connection:
            text = demo(tokens=tokens, gap_ms=gap_ms, seed=seed)
            start = await connection.message("m1", None, text)
            started[seed].set_result(start["response_id"])
            answer = await connection.whole(start["response_id"], 50)
            # Answer.take has checked that each index came once and in order.
            return answer.text, "".join(demo_tokens(seed, tokens)), time.monotonic()

    started = [asyncio.get_running_loop().create_future() for _ in range(readers)]
    sockets = [
        asyncio.create_task(over_websocket(session, seed)) for seed, session in enumerate(sessions)
    ]
    # A function of its own for each: an execution environment has one request at a time.
    pollers = [
        Poller(deployment.poll_function(), session, await started[seed])
        for seed, session in enumerate(sessions)
    ]
    polls = [asyncio.create_task(poller.whole(retry=True)) for poller in pollers]
    await asyncio.sleep(0.2)
    throttling = dynamodb.inject(Fault.THROTTLED, *_RESPONSE_CALLS, share=0.3)
    await asyncio.sleep(1)
    dynamodb.withdraw(throttling)
    await dynamodb.refuse_connections()
    await asyncio.sleep(0.8)
    await dynamodb.accept_connections()
    for got, wanted, _ in await asyncio.gather(*sockets):
        assert got == wanted
    bodies = await asyncio.gather(*polls)
    for seed, (body, poller) in enumerate(zip(bodies, pollers, strict=True)):
        assert body["full_text"] == poller.text == "".join(demo_tokens(seed, tokens))
    assert dynamodb.struck[Fault.THROTTLED] > 0
    metrics = await server.metrics()
    assert metrics["evenflow_store_retries_total"] > 0
    assert metrics["evenflow_store_deltas_lost_total"] == 0
    await server.until_metric("store_backlog_bytes", 0)


async def test_while_the_ledger_cannot_be_written_nothing_is_accepted_and_answers_go_on(
    deployment: AwsDeployment, dynamodb: DynamoDBEmulator, opened: OpenSession
) -> None:
    server = await deployment.handler()
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=50, gap_ms=30, seed=8))
        throttling = dynamodb.inject(Fault.THROTTLED)
        await connection.send("chat.message", **chat_message("m2", "m1", "hi"))
        refused = await connection.next_of("error", "throttle", "system.busy")
        assert refused["error"]["code"] == "store_unavailable"
        assert refused["error"]["retry_after_ms"] > 0
        answer = await connection.whole(start["response_id"])
        assert answer.text == "".join(demo_tokens(8, 50))
        dynamodb.withdraw(throttling)
        assert (await connection.ask("m2", "m1", demo(tokens=3, gap_ms=1, seed=9))).text == "".join(
            demo_tokens(9, 3)
        )
    assert (await server.metrics())["evenflow_store_refused_total"] >= 1


async def test_a_leaving_node_has_written_everything(
    deployment: AwsDeployment, opened: OpenSession
) -> None:
    server = await deployment.handler(drain_seconds=10)
    session = await opened(server)
    function = deployment.poll_function()
    response_id = (await session.post("m1", None, demo(tokens=40, gap_ms=20, seed=5))).json[
        "response_id"
    ]
    server.leave()
    await server.ended()
    body: Any = await Poller(function, session, response_id).whole()
    assert (body["status"], body["full_text"]) == ("completed", "".join(demo_tokens(5, 40)))
