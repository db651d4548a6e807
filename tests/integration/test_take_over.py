"""A task is lost, or thought lost: its answers go on at another task, and nobody reads anything
but the right text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from aiobotocore.session import get_session

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_aws.redriving import Redriven, RedriveOutcome, Redriving
from evenflow.stream_aws.response_items import is_chunk, is_head, read_chunk, read_head
from evenflow.stream_core.stores.response_store import Chunk, ResponseHead
from tests.integration.answer import Answer
from tests.integration.aws_emulator import SIGNED_BY, AwsEmulator
from tests.integration.chat_client import V1, ChatSession, checked_error, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.counting_model import CountingModel, counting_model, word_of, words, words_of
from tests.integration.deployment import AwsDeployment, Deployment, LocalDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.local_server import LocalServer
from tests.integration.server_process import STATE_SECONDS, free_port
from tests.integration.transports import (
    AT_HANDLERS,
    WITHOUT_EPOCHS,
    Transport,
    over_events,
    over_function,
    over_polls,
    over_websocket,
    read_whole,
)

pytestmark = pytest.mark.timeout(180)

_WORDS = 60


@pytest.fixture
async def model() -> AsyncIterator[CountingModel]:
    async with counting_model() as running:
        yield running


@pytest.fixture
async def slow_line(serve_process: ServeProcess, serve: Serve) -> AsyncIterator[DynamoDBEmulator]:
    """One task's way to the tables, on which a write can be held.

    It is closed before the task is stopped.
    """
    async with dynamodb_emulator() as proxy:
        yield proxy


@pytest.fixture
def behind_the_line(
    aws_deployment: AwsDeployment, slow_line: DynamoDBEmulator, serve_process: ServeProcess
) -> Deployment:
    """Processes on the same tables, by way of the line."""
    environment = {**aws_deployment.environment, **slow_line.environment}
    return Deployment(environment, aws_deployment.tables, serve_process)


async def _ask(session: ChatSession, text: str) -> str:
    posted = await session.post("m1", None, text)
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]
    return response_id


async def _taken_over(deployment: AwsDeployment, tasks: Sequence[LocalServer]) -> None:
    """Let the lease run out, and wait until one of these tasks has taken the response over."""
    await deployment.lease_runs_out()
    async with asyncio.timeout(STATE_SECONDS):
        while not any([await task.metric("lease_take_overs_total") for task in tasks]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


# -- lost ------------------------------------------------------------------------------------------


async def test_a_lost_owner_is_missed_by_nobody(
    aws_deployment: AwsDeployment, slow_line: DynamoDBEmulator, opened: OpenSession
) -> None:
    by_the_line = {**aws_deployment.environment, **slow_line.environment}
    owner = await replace(aws_deployment, environment=by_the_line).handler()
    others = await aws_deployment.handlers(2)
    session = await opened(owner)
    first, second = (session.at(task) for task in others)
    function: Transport = partial(over_function, aws_deployment.poll_function())
    whole = "".join(demo_tokens(31, 150))
    response_id = await _ask(session, demo(tokens=150, gap_ms=30, seed=31))

    async def stays(transport: Transport, there: ChatSession) -> Answer:
        answer = Answer()
        await transport(there, response_id, answer, None)
        return answer

    async def comes_back(transport: Transport) -> Answer:
        return await read_whole(transport, (session, first, second), response_id)

    staying = [
        stays(transport, there) for transport in AT_HANDLERS.values() for there in (first, second)
    ]
    returning = [
        comes_back(transport) for transport in (*AT_HANDLERS.values(), *WITHOUT_EPOCHS.values())
    ]
    reading = [
        asyncio.create_task(each) for each in (*staying, *returning, stays(function, session))
    ]
    ahead = Answer()
    await over_websocket(V1, session, response_id, ahead, 10)
    last_write = slow_line.hold("BatchWriteItem", response_id)
    await last_write.reached.wait()
    # What comes from now on is not on record when the owner is lost.
    await over_websocket(V1, session, response_id, ahead, ahead.last + 10)
    await owner.vanish()
    await _taken_over(aws_deployment, others)
    last_write.released.set()
    reading.append(asyncio.create_task(read_whole(over_events, [second], response_id, ahead)))
    for answer in await asyncio.gather(*reading):
        assert (answer.text, answer.finish_reason) == (whole, "stop")
        assert answer.epoch == 2
    assert (ahead.restarts[0]["from_index"], ahead.restarts[0]["index"]) == (-1, -1)
    # One of the two has taken it over, once.
    assert sum([await task.metric("lease_take_overs_total") for task in others]) == 1
    # Whoever reads it now, and whatever epoch it claims to know, gets the same.
    for transport in (*AT_HANDLERS.values(), *WITHOUT_EPOCHS.values(), function):
        for there in (first, second):
            answer = Answer()
            await transport(there, response_id, answer, None)
            assert answer.text == whole


async def test_messages_and_cancels_for_a_dead_owner(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    owner, other = await deployment.handlers(2)
    session, second = await opened(owner), await opened(owner)
    text = demo(tokens=100, gap_ms=10, seed=32)
    response_id = await _ask(session, text)
    unwanted_id = await _ask(second, demo(tokens=5_000, gap_ms=20, seed=33))
    await owner.vanish()
    # The message again is the same response, and whoever comes back for it waits for its next
    # owner.
    there = session.at(other)
    again = await there.post("m1", None, text)
    assert (again.status, again.json["response_id"]) == (202, response_id)
    # Nobody can be told to cancel, and the client hears that; later there is somebody.
    cancelled = await second.at(other).call("POST", f"/chat/message/{unwanted_id}/cancel")
    assert (cancelled.status, cancelled.error["code"]) == (503, "owner_unreachable")
    reading = asyncio.create_task(read_whole(over_polls, [there], response_id))
    await deployment.lease_runs_out()
    answer = await reading
    assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(32, 100)), "stop")
    assert (await there.post("m2", "m1", demo(tokens=1))).status == 202
    await other.until_metric("lease_take_overs_total", 2)
    cancelled = await second.at(other).call("POST", f"/chat/message/{unwanted_id}/cancel")
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    await other.until_metric("generations_running", 0)


# -- what the model makes of it --------------------------------------------------------------------


async def test_what_another_owner_makes_of_the_beginning(
    serve: Serve, model: CountingModel, opened: OpenSession
) -> None:
    """It goes on where the text on record ends, which no reader sees, if its model can do that;
    else it begins again.
    """
    beginning_again = await _reader_of_two_owners(
        LocalDeployment(serve), model, opened, continues=False
    )
    continuing = await _reader_of_two_owners(LocalDeployment(serve), model, opened, continues=True)
    assert set(model.calls.values()) == {1}
    kept, restart = beginning_again.restarts
    # The text stands until the new one comes.
    assert (kept["from_index"], kept["epoch"], kept["attempt"]) == (kept["index"] - 1, 2, 2)
    assert (restart["from_index"], restart["epoch"], restart["attempt"]) == (-1, 2, 2)
    assert words_of(beginning_again.text) == [(2, 2, number) for number in range(_WORDS)]

    (restart,) = continuing.restarts
    assert (restart["from_index"], restart["epoch"], restart["attempt"]) == (
        restart["index"] - 1,
        2,
        2,
    )
    (prefix,) = filter(None, model.prefixes.values())
    first = [(1, 1, number) for number in range(len(words_of(prefix)))]
    assert len(first) >= 5
    assert words_of(continuing.text) == first + [
        (2, 2, number) for number in range(len(first), _WORDS)
    ]


async def _reader_of_two_owners(
    deployment: LocalDeployment, model: CountingModel, opened: OpenSession, *, continues: bool
) -> Answer:
    """What one has who reads what is on record, and whose owner is killed in the middle."""
    settings: dict[str, Any] = {
        "model": "openai",
        "model_url": model.url,
        "model_continues": continues,
    }
    # It can't be reached, so that nobody there has more than is on record.
    owner = await deployment.handler(peer_url=f"http://127.0.0.1:{free_port()}", **settings)
    other = await deployment.handler(**settings)
    session = await opened(owner)
    response_id = await _ask(session, words(_WORDS, 80))
    there = session.at(other)
    reading = asyncio.create_task(read_whole(partial(over_websocket, V1), [there], response_id))
    await over_websocket(V1, there, response_id, Answer(), 8)
    await owner.vanish()
    await deployment.lease_runs_out()
    answer = await reading
    assert model.calls_for(response_id) == ["1:1", "2:2"]
    return answer


# -- not dead, only asleep -------------------------------------------------------------------------


async def test_what_a_stale_owner_writes_is_read_by_nobody(
    aws_deployment: AwsDeployment,
    behind_the_line: Deployment,
    emulated_dynamodb: DynamoDBEmulator,
    slow_line: DynamoDBEmulator,
    model: CountingModel,
    opened: OpenSession,
) -> None:
    settings = {"model": "openai", "model_url": model.url}
    # Written seldom, so that the late write covers much of what the next owner writes.
    owner = await behind_the_line.handler(
        store_interval_ms=600, polled_store_interval_ms=600, **settings
    )
    first, second = await aws_deployment.handlers(2, **settings)
    session = await opened(owner)
    model.allow(5)
    response_id = await _ask(session, words(_WORDS, 20))
    function: Transport = partial(over_function, aws_deployment.poll_function())
    at_owner = [
        asyncio.create_task(read_whole(transport, [session] * 3 + [session.at(first)], response_id))
        for transport in AT_HANDLERS.values()
    ]
    elsewhere = [
        asyncio.create_task(read_whole(transport, [session.at(task)], response_id))
        for transport in AT_HANDLERS.values()
        for task in (first, second)
    ]
    elsewhere.append(asyncio.create_task(read_whole(function, [session], response_id)))
    await over_websocket(V1, session, response_id, Answer(), 0)
    await owner.until_metric("store_backlog_bytes", 0)
    late_write = slow_line.hold("BatchWriteItem", response_id)
    # Not all of them: by its own clock it has its lease when it wakes up, and may end what it can.
    model.allow(_WORDS - 10)
    await late_write.reached.wait()
    with owner.suspended():
        await _taken_over(aws_deployment, (first, second))
        # Behind the marker, which is the next owner's first entry, there is text of its own.
        head, _ = await _stored(aws_deployment, emulated_dynamodb, response_id)
        await over_websocket(V1, session.at(first), response_id, Answer(), head.starts[2] + 10)
        late_write.released.set()
        await _until_on_record(
            aws_deployment, emulated_dynamodb, response_id, epoch=1, index=head.starts[2]
        )
    # It finds more of its answer in its sockets, and doesn't know yet what has happened: its clock
    # wasn't turned.
    answers = [*await asyncio.gather(*at_owner), *await asyncio.gather(*elsewhere)]
    for transport in (*AT_HANDLERS.values(), *WITHOUT_EPOCHS.values(), function):
        for task in (owner, first, second):
            answers.append(Answer())
            await transport(session.at(task), response_id, answers[-1], None)
    right = "".join(word_of(2, 2, number) for number in range(_WORDS))
    for answer in answers:
        assert (answer.text, answer.finish_reason) == (right, "stop")
    assert model.calls_for(response_id) == ["1:1", "2:2"]
    # The one that slept serves on, under another name.
    assert "the lease of this node was lost" in owner.log
    again = await session.post("m2", "m1", words(5, 1))
    assert (
        await read_whole(over_polls, [session], again.json["response_id"])
    ).finish_reason == "stop"


async def _stored(
    deployment: AwsDeployment, dynamodb: DynamoDBEmulator, response_id: str
) -> tuple[ResponseHead, list[Chunk]]:
    """What stands in the table, whether or not it counts."""
    client = dynamodb.client()
    answer: Any = await asyncio.to_thread(
        client.query,
        TableName=deployment.tables.responses,
        KeyConditionExpression="response_id = :id",
        ExpressionAttributeValues={":id": {"S": response_id}},
        ConsistentRead=True,
    )
    (head,) = [read_head(item) for item in answer["Items"] if is_head(item)]
    return head, [read_chunk(item) for item in answer["Items"] if is_chunk(item)]


async def _until_on_record(
    deployment: AwsDeployment,
    dynamodb: DynamoDBEmulator,
    response_id: str,
    *,
    epoch: int,
    index: int,
) -> None:
    """Wait until something that was written under this epoch stands in the table at this index
    or behind it.
    """
    async with asyncio.timeout(30):
        while True:
            _, chunks = await _stored(deployment, dynamodb, response_id)
            if any(chunk.epoch == epoch and chunk.last_index >= index for chunk in chunks):
                return
            await asyncio.sleep(0.05)


# -- lost again and again --------------------------------------------------------------------------


async def test_a_message_that_loses_three_tasks_is_put_aside_and_can_be_redriven(
    aws_deployment: AwsDeployment,
    emulated_aws: AwsEmulator,
    emulated_dynamodb: DynamoDBEmulator,
    opened: OpenSession,
) -> None:
    sqs = emulated_aws.client("sqs")
    queue = sqs.create_queue(QueueName=f"{aws_deployment.tables.responses}-dead-letters")[
        "QueueUrl"
    ]
    task = await aws_deployment.handler(dead_letters_queue=queue)
    session = await opened(task)
    text = demo(tokens=400, gap_ms=50, seed=33)
    response_id = await _ask(session, text)
    function: Transport = partial(over_function, aws_deployment.poll_function())
    polling = asyncio.create_task(read_whole(function, [session], response_id))
    for epoch in (1, 2, 3):
        await task.until_metric("generations_running", 1)
        # Behind where its owner began, a marker from the second on: text, which is what readers are
        # left with.
        head, _ = await _stored(aws_deployment, emulated_dynamodb, response_id)
        await _until_on_record(
            aws_deployment,
            emulated_dynamodb,
            response_id,
            epoch=epoch,
            index=head.starts[epoch] + 1,
        )
        await task.vanish()
        task = await aws_deployment.handler(dead_letters_queue=queue)
        await aws_deployment.lease_runs_out()
    there = session.at(task)
    answers = [await polling]
    for transport in AT_HANDLERS.values():
        answers.append(Answer())
        await transport(there, response_id, answers[-1], None)
    for answer in answers:
        assert answer.end is not None
        assert checked_error(answer.end)["code"] == "attempts_exhausted"
        assert answer.text
        assert "".join(demo_tokens(33, 400)).startswith(answer.text)
    assert await task.metric("lease_dead_letters_total") == 1
    assert await task.metric("lease_take_overs_total") == 0
    again = await there.post("m1", None, text)
    assert (again.status, again.json) == (
        202,
        {"response_id": response_id, "message_id": "m1", "status": "error"},
    )
    attributes = sqs.get_queue_attributes(
        QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert attributes["Attributes"]["ApproximateNumberOfMessages"] == "1"

    (letter,) = await _redriven(aws_deployment, queue)
    assert letter.outcome is RedriveOutcome.REDRIVEN
    redriven = await there.post("m1", None, text)
    assert redriven.status == 202
    assert redriven.json["response_id"] != response_id
    redriven_id = redriven.json["response_id"]
    reading = asyncio.create_task(read_whole(AT_HANDLERS["websocket"], [there], redriven_id))
    await over_websocket(V1, there, redriven_id, Answer(), 5)
    await aws_deployment.serve.time_passes(20)
    answer = await reading
    assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(33, 400)), "stop")


async def _redriven(deployment: AwsDeployment, queue: str) -> list[Redriven]:
    """What `make redrive` does with these letters."""
    sdk, where = get_session(), deployment.environment
    async with (
        sdk.create_client(
            "dynamodb", endpoint_url=where["AWS_ENDPOINT_URL_DYNAMODB"], **SIGNED_BY
        ) as dynamodb,
        sdk.create_client("sqs", endpoint_url=where["AWS_ENDPOINT_URL"], **SIGNED_BY) as sqs,
    ):
        tables = deployment.tables
        names = {"ledger": tables.ledger, "responses": tables.responses}
        redriving = Redriving(
            dynamodb, sqs, queue_url=queue, wall_time=deployment.serve.time.wall, **names
        )
        return [redriven async for redriven in redriving.redrive(100)]
