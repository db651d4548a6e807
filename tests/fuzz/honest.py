"""Asks the server honestly, while it is sent inputs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import aiohttp

from tests.fuzz.model_server import honest_text
from tests.fuzz.open_session import OpenSession
from tests.integration.chat_client import open_session
from tests.integration.server_process import ServerProcess

_STARTED, _LASTING = 0, 1
"""The questions that an open session has asked already, of either protocol."""


class HonestReaders:
    """Readers that must be answered, whatever others send."""

    def __init__(self, server: ServerProcess, http: aiohttp.ClientSession) -> None:
        self._server = server
        self._http = http

    async def open_sessions(self) -> OpenSession:
        """A session for inputs to name, and another one that they must not harm."""
        session, others = await asyncio.gather(self._open(), self._open())
        return replace(session, others=others)

    async def ask(self, number: int, others: OpenSession | None) -> None:
        """Ask over several protocols, and read again what the other session has been answered.

        Raises:
            AssertionError: an answer is not what it should be.
        """
        readers = [self.completes(number), self._streams(number + 1)]
        if others is not None:
            readers.append(self._reads_again(others))
        await asyncio.gather(*readers)

    async def completes(self, number: int) -> None:
        """Ask over chat completions."""
        async with self._http.post(
            f"{self._server.http_url}/v1/chat/completions", json=completion(f"honest {number}")
        ) as got:
            said = await got.text()
        assert got.status == 200, said
        text = "".join(
            choice["delta"].get("content") or ""
            for chunk in _events(said)
            for choice in chunk["choices"]
        )
        assert text == honest_text(number), said

    async def _streams(self, number: int) -> None:
        session = await open_session(self._http, self._server.http_url)
        async with session.connect() as connection:
            answer = await connection.ask("m1", None, f"honest {number}")
        assert answer.text == honest_text(number), answer.text

    async def _reads_again(self, others: OpenSession) -> None:
        url = f"{self._server.http_url}/v1/responses/{others.public_id.decode()}?stream=true"
        async with self._http.get(url, headers=_bearer(others)) as got:
            said = await got.text()
        assert got.status == 200, said
        deltas = (
            event["delta"]
            for event in _events(said)
            if event["type"] == "response.output_text.delta"
        )
        assert "".join(deltas) == honest_text(_LASTING), said

    async def _open(self) -> OpenSession:
        session = await open_session(self._http, self._server.http_url)
        start = await session.post("m1", None, f"honest {_STARTED}")
        assert start.status == 202, start
        opened = OpenSession(
            session.token.encode(), start.json["response_id"].encode(), session.session_id.encode()
        )
        body = {"model": "default", "input": f"honest {_LASTING}", "background": True}
        url = f"{self._server.http_url}/v1/responses"
        async with self._http.post(url, json=body, headers=_bearer(opened)) as got:
            response = await got.json()
        assert got.status == 200, response
        return replace(opened, public_id=response["id"].encode())


def completion(text: str) -> dict[str, object]:
    """The body of a question over chat completions."""
    return {"model": "default", "stream": True, "messages": [{"role": "user", "content": text}]}


def _bearer(session: OpenSession) -> dict[str, str]:
    return {"Authorization": f"Bearer {session.token.decode()}"}


def _events(stream: str) -> Iterator[Any]:
    """The JSON of an event stream."""
    for line in stream.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
