"""What is measured of connections: opens, ends, their age, and when clients acknowledge."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, V1
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.settle import settle


def closed(gateway: Gateway) -> dict[tuple[str, ...], int]:
    return gateway.metrics.labelled(catalogue.CONNECTIONS_CLOSED).by_labels


async def test_connections_are_counted_by_their_protocol() -> None:
    gateway = Gateway()
    for protocol in (V1, COMPACT, V1):
        gateway.connect(protocol)
    opened = gateway.metrics.labelled(catalogue.CONNECTIONS_OPENED)
    assert opened.by_labels == {(V1,): 2, (COMPACT,): 1}


@pytest.mark.parametrize(
    ("payload", "label"),
    [
        pytest.param((1001).to_bytes(2, "big"), "1001", id="the page was left"),
        pytest.param(b"", "1005", id="without a code"),
        pytest.param((3999).to_bytes(2, "big"), "other", id="one that it made up"),
    ],
)
async def test_a_client_that_closes_is_counted_by_its_code(payload: bytes, label: str) -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.receive(payload, Opcode.CLOSE)
    client.connection.disconnected()
    assert closed(gateway) == {(label,): 1}
    assert gateway.metrics.ratio(catalogue.RESET_RATE).part == 0


async def test_a_connection_that_ends_without_a_close_frame_was_reset() -> None:
    gateway = Gateway()
    gateway.connect().connection.disconnected()
    assert closed(gateway) == {("1006",): 1}
    reset = gateway.metrics.ratio(catalogue.RESET_RATE)
    assert (reset.part, reset.whole) == (1, 1)


async def test_one_that_we_close_is_counted_once_and_not_as_reset() -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.connection.close(4008, "too slow")
    client.connection.disconnected()
    assert closed(gateway) == {("4008",): 1}
    assert gateway.metrics.ratio(catalogue.RESET_RATE).whole == 0


async def test_a_lost_heartbeat_is_4010() -> None:
    gateway = Gateway(Limits(heartbeat_seconds=1, pong_timeout_seconds=2))
    gateway.connect()
    gateway.clock.turn(10.0)
    assert closed(gateway) == {("4010",): 1}
    assert gateway.metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).part == 1


async def test_how_long_a_connection_lasted() -> None:
    gateway = Gateway()
    client = gateway.connect()
    gateway.clock.now += 20.0
    client.connection.disconnected()
    age = gateway.metrics.distribution(catalogue.CONNECTION_AGE)
    assert age.count == 1
    assert age.total == pytest.approx(20.0)


# -- acknowledgements ------------------------------------------------------------------------------


async def streaming() -> tuple[Gateway, Client, str]:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    return gateway, client, gateway.stream(client).response_id


def push(gateway: Gateway, deltas: int) -> None:
    for _ in range(deltas):
        gateway.call.push("x")
        gateway.clock.turn(0.1)


async def test_an_acknowledgement_is_timed_from_the_one_before_it() -> None:
    gateway, client, response_id = await streaming()
    took = gateway.metrics.distribution(catalogue.ACKNOWLEDGEMENT)
    push(gateway, 3)  # 0, 1, 2
    client.send("response.ack", response_id=response_id, index=0)
    assert took.count == 0, "nothing was awaited yet"
    push(gateway, 2)
    client.send("response.ack", response_id=response_id, index=1)
    assert took.count == 0, "it lacks 2, which it had been given by then"
    push(gateway, 1)
    client.send("response.ack", response_id=response_id, index=3)
    assert took.count == 1
    assert took.total == pytest.approx(300, abs=30)
    await gateway.task.leave()


async def test_a_client_that_has_everything_is_not_timed_until_there_is_more() -> None:
    gateway, client, response_id = await streaming()
    push(gateway, 1)
    client.send("response.ack", response_id=response_id, index=0)
    gateway.clock.turn(60.0)
    push(gateway, 1)
    client.send("response.ack", response_id=response_id, index=1)
    assert gateway.metrics.distribution(catalogue.ACKNOWLEDGEMENT).count == 0
    await gateway.task.leave()
