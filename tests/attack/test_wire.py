"""What the attacker's sockets and the honest readers' answers count."""

from __future__ import annotations

import asyncio

import pytest

from tests.attack import asking
from tests.attack.asking import Answer
from tests.attack.wire import Client
from tests.integration.raw_websocket import RawWebSocket


async def test_every_byte_is_counted_whatever_writes_it() -> None:
    came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set_result(await reader.read())
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    client = Client(server.sockets[0].getsockname()[1])
    connection = await client.connect()
    connection.send(client.request("GET", "/health"))
    websocket = RawWebSocket(connection.reader, connection.writer)
    websocket.write(b"frames")
    websocket.end()
    assert len(await came) == client.sent_bytes > len(b"frames")
    client.close()
    server.close()


@pytest.mark.parametrize("behind_proxy", [False, True])
def test_the_address_of_a_client_behind_a_proxy_is_named(behind_proxy: bool) -> None:
    request = Client(8080, behind_proxy=behind_proxy).request("GET", "/health")
    assert (b"X-Forwarded-For: 203.0.113.66\r\n" in request) is behind_proxy


def test_the_gap_of_an_answer_is_the_longest_between_two_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((1.0, 1.5, 1.75))
    monkeypatch.setattr(asking, "monotonic", lambda: next(times))
    answer = Answer()
    for text in ("a", "", "b", "c"):
        answer.add(text)
    assert (answer.text, answer.first_at, answer.gap) == ("abc", 1.0, 0.5)
