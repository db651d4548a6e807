"""What every transport does for its clients: one suite, over real sockets, on the hand-turned
clock.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import cast

import pytest

from evenflow.fargate_handler.gateway.connections import listener
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer
from evenflow.fargate_handler.gateway.connections.processes import listening_socket
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.connection_states import ConnectionState
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.transports.contract import (
    ClosedError,
    Frame,
    Listener,
    RefusedError,
    Transport,
    TransportClient,
)
from tests.unit.fargate_handler.gateway.transports.line_client import LineClient
from tests.unit.fargate_handler.gateway.transports.line_endpoint import LineEndpoint
from tests.unit.fargate_handler.gateway.transports.websocket_client import WebSocketClient


def _websockets(context: GatewayContext) -> Listener:
    endpoint = WebSocketEndpoint(context)

    def no_http(transport: asyncio.Transport, received: bytes, timer: ClientTimer) -> None:
        timer.stop()
        endpoint.take(transport, received)

    head_seconds = context.limits.head_seconds
    return listener.Listener(endpoint, no_http, context.accepted, head_seconds)


TRANSPORTS = {
    "websocket": Transport(_websockets, WebSocketClient),
    "line": Transport(LineEndpoint, LineClient),
}
LIMITS = Limits(
    batch_tokens=1, connections_per_session=2, credit_window=1000, model_silence_seconds=1800
)

# Not `asyncio.timeout`: the event loop's time may be turned by hand.
pytestmark = pytest.mark.timeout(60)


async def until(condition: Callable[[], object]) -> None:
    """Let sockets and tasks go on until it holds."""
    while not condition():  # noqa: ASYNC110 - sockets have no event to wait for
        await asyncio.sleep(0)


class Reader:
    """A client that keeps what it was sent."""

    def __init__(self, client: TransportClient) -> None:
        self.client = client
        self.frames: list[Frame] = []

    async def send(self, kind: str, **fields: object) -> None:
        await self.client.send(json.dumps({"type": kind, **fields}).encode())

    async def next_of(self, kind: str) -> Frame:
        """The next frame of a type; others are kept in passing."""
        while True:
            frame = await self.client.receive()
            self.frames.append(frame)
            if frame["type"] == kind:
                return frame

    async def say(self, **fields: object) -> str:
        """The session's first message; the response's id."""
        await self.send("chat.message", message_id="m1", payload={"text": "hi"}, **fields)
        response_id: str = (await self.next_of("chat.response.start"))["response_id"]
        return response_id

    async def text_to(self, length: int) -> str:
        """What the user sees once it is so long; each index comes once, and none is left out."""
        while len(self.text()) < length:
            await self.next_of("chat.response.delta")
        return self.text()

    def text(self) -> str:
        deltas = [frame for frame in self.frames if frame["type"] == "chat.response.delta"]
        for earlier, later in pairwise(deltas):
            assert later.get("from", later["index"]) == earlier["index"] + 1
        return "".join(frame["delta"] for frame in deltas)

    async def end(self) -> Frame:
        """How the response ended."""
        return await self.next_of("chat.response.completed")

    async def closed(self) -> ClosedError:
        """Why the server has closed."""
        with pytest.raises(ClosedError) as closed:
            await self.next_of("no such frame")
        return closed.value


class Node:
    """A gateway with one transport."""

    def __init__(self, transport: Transport) -> None:
        self.gateway = Gateway(LIMITS)
        self.listener: Listener = transport.listener(self.gateway.context)
        self._client = transport.client
        self._port = 0
        self._clients: list[TransportClient] = []

    async def start(self) -> None:
        listening = listening_socket("127.0.0.1", 0, LIMITS)
        self._port = listening.getsockname()[1]
        await self.listener.start([listening])

    async def stop(self) -> None:
        """Nothing is left behind."""
        self.listener.stop_accepting()
        for client in self._clients:
            client.vanish()
        await until(lambda: len(self.gateway.registry) == 0)
        for stream in self.gateway.orchestrator.responses.of(CHANNEL):
            await self.gateway.orchestrator.cancel(stream)

    async def connect(self, *, token: str | None = None, replaces: bool = False) -> Reader:
        if token is None:
            token, _ = self.gateway.context.access.tokens.issue(
                CHANNEL, self.gateway.clock.now, 3600
            )
        client = await self._client.connect(self._port, token, replaces=replaces)
        self._clients.append(client)
        reader = Reader(client)
        await reader.next_of("session.ready")
        return reader

    @property
    def connection(self) -> ClientConnection:
        """The newest one."""
        return cast("ClientConnection", [*self.gateway.registry][-1])

    def push(self, *tokens: str) -> None:
        """Each is an entry, and given in its interval."""
        for token in tokens:
            self.gateway.call.push(token)
            self.gateway.clock.turn(0.2)

    async def ask(self, reader: Reader, **fields: object) -> str:
        """The client asks something, and the model is called; the response's id."""
        response_id = await reader.say(**fields)
        await until(lambda: self.gateway.source.open_calls)
        return response_id

    async def stall(self, reader: Reader) -> int:
        """The client stops reading, and the model writes until the server sees it; how many
        characters came.
        """
        connection, written = self.connection, 0
        reader.client.stop_reading()
        while not connection.session.blocked:
            assert written < 10_000_000, "it is never seen"
            self.push("x" * 4000)
            written += 4000
            await asyncio.sleep(0)
        return written

    def pass_seconds(self, seconds: int) -> None:
        """Turn the clock, and look at slow readers as the handler does."""
        for _ in range(seconds):
            self.gateway.clock.turn(1.0)
            for connection in tuple(self.gateway.registry.slow):
                connection.look_at_readers(self.gateway.clock.now)


@pytest.fixture(params=TRANSPORTS)
async def node(request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    node = Node(TRANSPORTS[request.param])
    await node.start()
    yield node
    await node.stop()


# -- coming in -------------------------------------------------------------------------------------


async def test_a_client_is_greeted_and_counted(node: Node) -> None:
    reader = await node.connect()
    ready = reader.frames[0]
    assert (ready["session_id"], ready["protocol"], ready["responses"]) == (
        CHANNEL.session,
        "evenflow.v1",
        [],
    )
    assert len(node.gateway.registry) == 1
    assert node.gateway.metrics.distribution(catalogue.CONNECTION_SETUP).count == 1


async def test_who_has_no_token_is_told_so(node: Node) -> None:
    with pytest.raises(RefusedError) as refused:
        await node.connect(token="none")
    assert refused.value.code == "token_invalid"
    assert len(node.gateway.registry) == 0


async def test_a_leaving_node_lets_nobody_in(node: Node) -> None:
    node.gateway.orchestrator.stop_accepting()
    with pytest.raises(RefusedError) as refused:
        await node.connect()
    assert refused.value.code == "draining"
    assert node.gateway.metrics.counter(catalogue.CONNECTIONS_REFUSED).value == 1


async def test_a_session_has_so_many_connections_and_may_replace_them(node: Node) -> None:
    older = [await node.connect() for _ in range(2)]
    with pytest.raises(RefusedError) as refused:
        await node.connect()
    assert refused.value.code == "session_connections"
    await node.connect(replaces=True)
    assert [(await reader.closed()).code for reader in older] == [4009, 4009]
    assert len(node.gateway.registry) == 1


# -- asking and reading ----------------------------------------------------------------------------


async def test_a_message_is_answered_in_order_to_its_end(node: Node) -> None:
    reader = await node.connect()
    await node.ask(reader)
    node.push("Even", "flow", " läuft 🙂")
    node.gateway.call.finish()
    end = await reader.end()
    assert reader.text() == "Evenflow läuft 🙂"
    assert (end["finish_reason"], end["last_index"]) == ("stop", 2)


async def test_what_is_not_understood_is_refused_and_the_connection_stays(node: Node) -> None:
    reader = await node.connect()
    await reader.client.send(b"nonsense")
    assert (await reader.next_of("error"))["error"]["code"] == "invalid_json"
    await node.ask(reader)


async def test_a_message_that_is_too_large_ends_the_connection(node: Node) -> None:
    reader = await node.connect()
    await reader.client.send(b"x" * (LIMITS.message_bytes + 1))
    assert (await reader.closed()).code == 1009
    await until(lambda: len(node.gateway.registry) == 0)


async def test_a_pause_holds_the_delivery(node: Node) -> None:
    reader = await node.connect()
    response_id = await node.ask(reader)
    node.push("a")
    await reader.text_to(1)
    await reader.send("response.pause", response_id=response_id)
    stream = node.gateway.orchestrator.responses.of(CHANNEL)[0]
    await until(lambda: stream.backpressure.paused_readers)
    node.push("b", "c")
    await reader.send("response.continue", response_id=response_id)
    assert await reader.text_to(3) == "abc"
    assert reader.frames[-1]["from"] == 1, "what waited comes joined"


async def test_a_client_gets_as_much_as_it_has_granted(node: Node) -> None:
    reader = await node.connect()
    response_id = await node.ask(reader, credit=1)
    node.push("a", "b", "c")
    assert await reader.text_to(1) == "a"
    await reader.send("response.credit", response_id=response_id, n=2)
    assert await reader.text_to(3) == "abc"


async def test_a_response_is_resumed_on_another_connection(node: Node) -> None:
    first = await node.connect()
    response_id = await node.ask(first)
    node.push("a", "b")
    await first.text_to(2)
    await first.client.close()
    node.push(*["x" * 4000] * 20)  # more than any frame that is sent in one piece
    second = await node.connect()
    await second.send("response.resume", response_id=response_id, after=0)
    assert await second.text_to(80_001) == "b" + "x" * 80_000
    node.gateway.call.finish()
    assert (await second.end())["last_index"] == 21


async def test_a_cancel_stops_the_model(node: Node) -> None:
    reader = await node.connect()
    response_id = await node.ask(reader)
    node.push("a")
    await reader.send("response.cancel", response_id=response_id)
    assert (await reader.end())["finish_reason"] == "cancelled"
    assert reader.text() == "a"
    assert node.gateway.source.open_calls == 0


# -- clients that don't read -----------------------------------------------------------------------


async def test_a_client_that_reads_again_gets_what_it_missed_once(node: Node) -> None:
    reader = await node.connect()
    await node.ask(reader)
    written = await node.stall(reader)
    node.push(*["y" * 4000] * 10)
    assert node.connection in node.gateway.registry.slow
    reader.client.go_on_reading()
    assert await reader.text_to(written + 40_000) == "x" * written + "y" * 40_000
    node.gateway.call.finish()
    await reader.end()


async def test_a_client_that_does_not_read_is_let_go(node: Node) -> None:
    reader = await node.connect()
    await node.ask(reader)
    await node.stall(reader)
    node.push("y" * 4000)
    node.pass_seconds(31)
    assert node.gateway.metrics.counter(catalogue.READERS_TOO_SLOW).value == 1
    assert len(node.gateway.registry) == 0
    assert node.gateway.source.open_calls == 1, "its answer goes on"


async def test_a_client_that_is_silent_is_given_up(node: Node) -> None:
    reader = await node.connect()
    reader.client.stop_reading()
    node.pass_seconds(75)
    assert len(node.gateway.registry) == 0
    assert node.gateway.metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).part == 1


async def test_a_client_that_answers_pings_stays(node: Node) -> None:
    reader = await node.connect()
    reading = asyncio.create_task(reader.next_of("reconnect"))
    clock, session = node.gateway.clock, node.connection.session
    for _ in range(4):
        clock.turn(31.0)
        await until(lambda: session._heard_at == clock.now)
    node.connection.ask_to_reconnect("done", 0)
    await reading


# -- ends ------------------------------------------------------------------------------------------


async def test_who_is_sent_away_hears_why_and_answers(node: Node) -> None:
    reader = await node.connect()
    connection = node.connection
    connection.close(1001, "this node is leaving")
    closed = await reader.closed()
    assert (closed.code, closed.reason) == (1001, "this node is leaving")
    await until(lambda: connection.session.state is ConnectionState.CLOSED)


async def test_who_does_not_answer_a_close_is_cut_off(node: Node) -> None:
    reader = await node.connect()
    connection = node.connection
    reader.client.stop_reading()
    connection.close(1001, "this node is leaving")
    states = []
    for seconds in (int(CLOSE_SECONDS) - 1, 2):
        node.pass_seconds(seconds)
        states.append(connection.session.state)
    assert states == [ConnectionState.CLOSING, ConnectionState.CLOSED]
    reader.client.go_on_reading()
    await reader.closed()


@pytest.mark.parametrize("how", ["close", "vanish"])
async def test_a_client_that_goes_is_no_cancel(node: Node, how: str) -> None:
    reader = await node.connect()
    await node.ask(reader)
    if how == "close":
        await reader.client.close()
    else:
        reader.client.vanish()
    await until(lambda: len(node.gateway.registry) == 0)
    (stream,) = node.gateway.orchestrator.responses.of(CHANNEL)
    assert not stream.readers
    assert node.gateway.source.open_calls == 1


async def test_a_draining_node_tells_its_clients_and_their_answers_go_on(node: Node) -> None:
    reader = await node.connect()
    await node.ask(reader)
    node.connection.ask_to_reconnect("this node is leaving", 1234)
    assert (await reader.next_of("reconnect"))["after_ms"] == 1234
    await reader.send(
        "chat.message", message_id="m2", previous_message_id="m1", payload={"text": "hi"}
    )
    assert (await reader.next_of("system.busy"))["error"]["code"] == "draining"
    node.push("goes on")
    node.gateway.call.finish()
    await reader.end()
    assert reader.text() == "goes on"
