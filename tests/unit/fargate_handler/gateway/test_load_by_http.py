"""Event streams and polls are counted while they are open, and `/health` says the node's load."""

from __future__ import annotations

import asyncio

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.node_load import NodeUse
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, EventStream, body_of
from tests.unit.settle import settle


async def test_open_event_streams_and_waiting_polls_are_counted_until_they_end() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    calls = Calls(gateway.context, CHANNEL)
    path = f"/chat/message/{gateway.stream(client).response_id}"

    def levels() -> list[float]:
        metrics = (catalogue.EVENT_STREAMS, catalogue.WAITING_POLLS)
        return [gateway.metrics._gauges[metric.name]() for metric in metrics]

    streams = [EventStream(calls, f"{path}/events") for _ in range(2)]
    polls = [
        asyncio.create_task(calls.call("GET", path))
        for path in (path, f"/streams{path.removeprefix('/chat/message')}?offset=-1&live=long-poll")
    ]
    await settle()
    assert levels() == [2, 2]
    gateway.call.finish()
    await settle()
    assert all(stream.answering.done() for stream in streams)
    assert [poll.result().status for poll in polls] == [200, 200]
    assert levels() == [0, 0]


async def test_health_says_the_load_and_what_it_is_by() -> None:
    gateway = Gateway()
    calls = Calls(gateway.context, CHANNEL)
    calls.load.sample(
        NodeUse(
            connections=0,
            event_streams=0,
            answers=gateway.limits.generations_per_node // 4,
            queue=0,
            cpu_share=0.1,
            lateness_seconds=0.0,
        ),
        now=1.0,
    )
    assert await calls.json("GET", "/health") == {
        "status": "serving",
        "connections": 0,
        "lease_in_force": True,
        "load_percent": 25.0,
        "loaded_by": "answers",
    }


async def test_a_request_without_a_place_is_counted_as_refused() -> None:
    gateway = Gateway(Limits(requests_per_node=4))
    client = gateway.connect()
    await client.say()
    await settle()
    calls = Calls(gateway.context, CHANNEL)
    path = f"/chat/message/{gateway.stream(client).response_id}"
    streams = [EventStream(calls, f"{path}/events") for _ in range(4)]
    await settle()
    answer = await calls.call("GET", "/v1/models")
    assert (answer.status, body_of(answer)["error"]["code"]) == (503, "node_full")
    assert gateway.metrics.labelled(catalogue.MESSAGES_REFUSED).by_labels == {("node_full",): 1}
    rate = gateway.metrics.ratio(catalogue.REFUSAL_RATE)
    assert (rate.part, rate.whole) == (1, 2), "of one message and this request"
    gateway.call.finish()
    await settle()
    assert all(stream.answering.done() for stream in streams)
