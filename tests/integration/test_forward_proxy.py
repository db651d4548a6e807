"""Servers that are reached only through a forward proxy, as HTTP_PROXY and HTTPS_PROXY say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.integration.aws_models.certificate import tls_of_localhost
from tests.integration.chat_client import HttpAnswer, call
from tests.integration.conftest import Serve, ServeProcess
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.server_process import Server

_HOST = "model.internal.test"  # which no resolver knows
_YES = Reply([chunk("Yes."), END])


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@asynccontextmanager
async def _tunnels(port: int, answer: bytes = b"200 OK") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy whose tunnels all lead to a port. Yields its address, and the lines that it got."""
    lines: list[str] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines.append(head.partition(b"\r\n")[0].decode())
        writer.write(b"HTTP/1.1 %b\r\n\r\n" % answer)
        if answer.startswith(b"200"):
            there, out = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, out), _copy(there, writer))
        writer.close()

    proxy = await asyncio.start_server(take, "127.0.0.1", 0)
    async with proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}", lines


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


async def _ask(http: aiohttp.ClientSession, server: Server) -> HttpAnswer:
    body = {"model": "m", "messages": [{"role": "user", "content": "Is it?"}]}
    return await call(http, "POST", f"{server.http_url}/v1/chat/completions", body)


async def test_a_model_is_asked_through_it(
    http: aiohttp.ClientSession, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_model() as proxy:
        proxy.will(_YES)
        at = urlsplit(proxy.url)
        monkeypatch.setenv("HTTP_PROXY", f"http://someone:hidden@{at.hostname}:{at.port}")
        server = await serve(model="openai", model_url=f"http://{_HOST}:8000/v1", model_name="m")
        answer = await _ask(http, server)
        assert answer.json["choices"][0]["message"]["content"] == "Yes."
        (headers,) = proxy.headers
        assert headers["Host"] == f"{_HOST}:8000"
        assert headers["Proxy-Authorization"] == "Basic c29tZW9uZTpoaWRkZW4="
    assert f"through the proxy {at.hostname}:{at.port}" in server.log
    assert "hidden" not in server.log


async def test_a_model_over_tls_is_asked_through_a_tunnel(
    http: aiohttp.ClientSession, serve_process: ServeProcess, tmp_path: Path
) -> None:
    context, trusted = tls_of_localhost(tmp_path, _HOST)
    async with scripted_model(tls=context) as model:
        model.will(_YES)
        async with _tunnels(urlsplit(model.url).port or 0) as (proxy, lines):
            server = serve_process(
                {"HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(trusted)},
                model="openai", model_url=f"https://{_HOST}/v1", model_name="m",
            )  # fmt: skip
            for _ in range(2):
                answer = await _ask(http, server)
                assert answer.json["choices"][0]["message"]["content"] == "Yes."
            # The guarded connection is used again.
            assert lines == [f"CONNECT {_HOST}:443 HTTP/1.1"]


async def test_a_proxy_that_refuses_is_named_in_the_log(
    http: aiohttp.ClientSession, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _tunnels(0, b"403 Forbidden") as (proxy, lines):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        server = await serve(
            model="openai", model_url=f"https://{_HOST}/v1", model_name="m", model_retries=0
        )
        answer = await _ask(http, server)
        assert answer.error["code"] == "upstream_failed"
        assert lines
        assert "HTTPS_PROXY" in server.log


async def test_an_identity_provider_is_asked_through_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _tunnels(0, b"403 Forbidden") as (proxy, lines):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        server = await serve(oidc_issuer="https://login.example.test/", oidc_audience="a")
        await server.until_logged("the identity provider's keys stay as they are")
        assert lines == ["CONNECT login.example.test:443 HTTP/1.1"]


async def test_a_model_on_this_machine_is_asked_directly(
    http: aiohttp.ClientSession, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_model() as model, _tunnels(0, b"403 Forbidden") as (proxy, lines):
        model.will(_YES)
        monkeypatch.setenv("HTTP_PROXY", proxy)
        server = await serve(model="openai", model_url=model.url, model_name="m")
        assert (await _ask(http, server)).status == 200
        assert lines == []
