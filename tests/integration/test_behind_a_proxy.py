"""docs/behind-a-proxy.md: each of its proxies runs as it stands there, with a server behind it."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from evenflow.functions.canary.front_door import FrontDoor
from evenflow.functions.canary.smoke import CanaryCaller, smoke
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.doctor.proxies import nginx
from tests.integration.documented_proxies import DOCUMENTED, StartProxy, snippet
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model
from tests.integration.server_process import ROOT
from tests.integration.test_smoke import wrong

_QUESTION = demo(tokens=20, gap_ms=20)
_HEARTBEAT, _IMPATIENCE, _SILENCE = 0.1, 0.8, 2.0
"""Of the server, of a hop before the proxies, and of the model, in seconds."""
_MESSAGES = [{"role": "user", "content": "x"}]

needs_nginx = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="needs nginx: apt-get install nginx"
)


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as model:
        model.will(Reply([b": \n\n", chunk("Hello") + END], gap=_SILENCE))
        yield model


@pytest.fixture
async def silent_server(serve: Serve, model: ScriptedModel) -> LocalServer:
    """A server whose model says nothing for long."""
    return await serve(
        model="openai", model_url=model.url, model_name="m", sse_heartbeat_seconds=_HEARTBEAT
    )


@pytest.mark.parametrize("start", DOCUMENTED)
async def test_everything_works_through_it(serve: Serve, start: StartProxy, tmp_path: Path) -> None:
    """All that `make smoke` asks for: every transport and protocol, cookies, a cut, the page."""
    server = await serve()
    with start(server.port, tmp_path) as url:
        front_door = FrontDoor(url, silence_seconds=10)
        findings = await asyncio.to_thread(smoke, CanaryCaller(front_door, _QUESTION))
    assert wrong(findings) == {}
    assert "EVENFLOW_TRUSTED_PROXIES" not in server.log


@pytest.mark.parametrize(("length", "status"), [(16_374, 200), (17_000, 431)])
@pytest.mark.parametrize("start", DOCUMENTED)
async def test_it_takes_a_header_of_an_identity_provider_s_length(
    serve: Serve, start: StartProxy, tmp_path: Path, length: int, status: int
) -> None:
    server = await serve()
    headers = {"Authorization": f"Bearer {'t' * (length - len('Bearer '))}"}
    with start(server.port, tmp_path) as url:
        answer = await asyncio.to_thread(FrontDoor(url).call, "GET", "/health", None, headers)
    assert answer.status == status


@pytest.mark.parametrize("start", DOCUMENTED)
async def test_a_whole_answer_s_signs_of_life_pass_it(
    silent_server: LocalServer, start: StartProxy, tmp_path: Path
) -> None:
    with start(silent_server.port, tmp_path) as url:
        body = await asyncio.to_thread(_asked_impatiently, url, stream=False)
    assert json.loads(body)["choices"][0]["message"]["content"] == "Hello"


# nginx speaks HTTP/1.0 where nothing else is set.
_PLAIN, _HTTP_1_1 = "", 'proxy_http_version 1.1; proxy_set_header Connection "";'
_GZIP = "gzip on; gzip_types application/json text/event-stream; gzip_proxied any;"


@needs_nginx
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "locations",
    [(_PLAIN,), (_GZIP,), (_HTTP_1_1 + _GZIP,), (_PLAIN, _PLAIN), (_HTTP_1_1, _HTTP_1_1)],
    ids=["HTTP/1.0", "HTTP/1.0, gzip", "HTTP/1.1, gzip", "two of HTTP/1.0", "two of HTTP/1.1"],
)
async def test_an_answer_passes_nginx_without_settings_for_it(
    silent_server: LocalServer, tmp_path: Path, locations: tuple[str, ...], stream: bool
) -> None:
    """Neither buffering nor compression keeps its signs of life back."""
    port = silent_server.port
    with ExitStack() as hops:
        for number, location in enumerate(locations):
            folder = tmp_path / str(number)
            folder.mkdir()
            url = hops.enter_context(nginx(port, folder, location))
            port = int(url.rpartition(":")[2])
        body = await asyncio.to_thread(_asked_impatiently, url, stream=stream)
    assert b"Hello" in body


def _asked_impatiently(url: str, *, stream: bool) -> bytes:
    """An answer of /v1, unpacked. No part of it may come later than `_IMPATIENCE` after another."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=_IMPATIENCE)
    body = json.dumps({"model": "m", "messages": _MESSAGES, "stream": stream})
    headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
    try:
        connection.request("POST", f"{address.path}/v1/chat/completions", body, headers)
        with connection.getresponse() as answer:
            received = b"".join(iter(lambda: answer.read1(65_536), b""))
        assert answer.status == 200
        is_packed = answer.headers.get("Content-Encoding") == "gzip"
        return gzip.decompress(received) if is_packed else received
    finally:
        connection.close()


# -- Docker Compose --------------------------------------------------------------------------------


async def test_the_compose_file_fits_the_other_files_and_the_server(serve: Serve) -> None:
    compose: dict[str, Any] = yaml.safe_load(snippet("yaml"))
    evenflow, proxy = compose["services"]["evenflow"], compose["services"]["nginx"]
    (network,) = compose["networks"]["default"]["ipam"]["config"]
    address = proxy["networks"]["default"]["ipv4_address"]
    assert ip_address(address) in ip_network(network["subnet"])
    # The gateway of the network is in it, too, and may bring visitors.
    assert evenflow["environment"] == {"EVENFLOW_TRUSTED_PROXIES": address}
    server = await serve(trusted_proxies=address)
    check = shlex.split(evenflow["healthcheck"]["test"].replace("8080", str(server.port)))
    assert check[0] == "python"
    checking = await asyncio.create_subprocess_exec(sys.executable, *check[1:])
    assert await checking.wait() == 0
    build = evenflow["build"]
    dockerfile = (ROOT / build["context"] / build["dockerfile"]).read_text("utf-8")
    (volume,) = evenflow["volumes"]
    name, _, folder = volume.partition(":")
    assert name in compose["volumes"]
    assert f"EVENFLOW_STORE_PATH={folder}/" in dockerfile
    (mounted,) = proxy["volumes"]
    source, target, _ = mounted.split(":")
    # The image's own site is at this path, so it is replaced.
    assert target == "/etc/nginx/conf.d/default.conf"
    commands = snippet("sh")
    assert f"sed s/127.0.0.1:8080/evenflow:8080/ evenflow.conf > {source[2:]}" in commands
    assert "127.0.0.1:8080" in snippet("nginx")
    (published,) = proxy["ports"]
    assert f"URL=http://127.0.0.1:{published.partition(':')[0]}" in commands
    assert "listen 80;" in snippet("nginx")
