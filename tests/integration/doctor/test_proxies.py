"""Each proxy is set up wrongly in one way: exactly that is found."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from evenflow.doctor.diagnosis import Diagnosis, Examination, diagnose
from evenflow.doctor.report import as_text
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve, ServeProcess
from tests.integration.doctor.proxies import haproxy, nginx, without
from tests.integration.faulty_proxy import Fault, faulty_proxy
from tests.integration.server_process import ServerProcess, free_port

ORIGIN = "http://page.example"
# Two to three seconds of pieces; a limit of 700 ms below is reached, and one of 90 is not.
EXAMINATION = Examination(question=demo(tokens=24, gap_ms=100), idle_seconds=2, origin=ORIGIN)
EVENTS, V1_STREAMED, V1_WHOLE = "server-sent events", "/v1, streamed", "/v1, whole"
HEADS = "heads of streams"
_AT_ONCE = 3
Faults = dict[str, dict[str, set[str]]]
"""By proxy and fault, the checks that show it."""
COMPRESSION = "compression algo gzip\n    compression type text/event-stream application/json"


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess) -> ServerProcess:
    """A server with its page at another address."""
    return serve_module(allowed_origins=ORIGIN)


@pytest.fixture(scope="module")
def upstream(server: ServerProcess) -> int:
    """The port of it, once it is known that nothing is wrong without a proxy."""
    diagnosis = diagnose(server.http_url, EXAMINATION)
    assert {one.check: one.seen for one in diagnosis.observations if one.mark != "✓"} == {}
    return server.port


def found(diagnosis: Diagnosis) -> dict[str, set[str]]:
    """The checks that are not as they should be, by the fault that they show."""
    faults: dict[str, set[str]] = {}
    for one in diagnosis.observations:
        if one.mark != "✓":
            name = one.seen if one.fault is None else one.fault.name
            faults.setdefault(name, set()).add(one.check)
    return faults


NGINX = {
    "right": (without(), {}),
    "held by gzip": (
        without() + "gzip on; gzip_types text/event-stream;proxy_ignore_headers X-Accel-Buffering;",
        {"compression": {HEADS}, "buffering": {EVENTS, V1_STREAMED}},
    ),
    "gzip": (without() + "gzip on; gzip_types text/event-stream;", {"compression": {HEADS}}),
    "no upgrade": (
        without("proxy_set_header Upgrade"),
        {"upgrade": {"WebSocket", "idle WebSocket", "CORS"}},
    ),
    "HTTP 1.0": (
        without("proxy_http_version"),
        {"http-1.0": {"WebSocket", "idle WebSocket", "CORS"}},
    ),
    "read timeout": (
        without() + "proxy_read_timeout 700ms;",
        {"idle": {"idle WebSocket", "idle event stream", "idle poll", V1_WHOLE, "long poll"}},
    ),
    "small bodies": (without("client_max_body_size"), {"body-size": {"request size"}}),
    "no host": (without("proxy_set_header Host"), {"host": {"address"}}),
    "no authorization": (
        without() + 'proxy_set_header Authorization "";',
        {"authorization": {"a message", "Authorization", "idle event stream"}},
    ),
    "no cookies": (without() + 'proxy_set_header Cookie "";', {"cookies": {"cookies"}}),
    "no set-cookie": (without() + "proxy_hide_header Set-Cookie;", {"cookies": {"cookies"}}),
    "no last-event-id": (
        without() + 'proxy_set_header Last-Event-ID "";',
        {"last-event-id": {"Last-Event-ID"}},
    ),
    "no subprotocol": (
        without() + 'proxy_set_header Sec-WebSocket-Protocol "";',
        {"subprotocol": {"WebSocket", "idle WebSocket", "CORS"}},
    ),
    "caching": (
        without() + "proxy_cache answers; proxy_cache_valid 401 1m; "
        "proxy_ignore_headers Cache-Control Vary Set-Cookie;",
        {"caching": {"caching"}},
    ),
    "second CORS": (
        without() + "add_header Access-Control-Allow-Origin * always;",
        {"cors": {"CORS"}},
    ),
    "closing": (without() + "keepalive_timeout 0;", {"closing": {"address"}}),
    "redirect": ("return 301 https://$host$request_uri;", {"redirect": {"address"}}),
    "captive portal": (
        "default_type text/html; return 200 '<html>Log in</html>';",
        {"foreign": {"address"}},
    ),
}

HAPROXY = {
    "right": ("", {}),
    "collecting": (
        "http-response wait-for-body time 3s if { res.hdr(content-type) -m beg text/event-stream }",
        {"buffering": {EVENTS, V1_STREAMED}},
    ),
    # It waits 200 ms for more before it sends.
    "delay": ("no option http-no-delay", {"buffering": {EVENTS, V1_STREAMED}}),
    "server timeout": (
        "timeout server 700ms",
        {"idle": {"idle event stream", "idle poll", V1_WHOLE, "long poll"}},
    ),
    "tunnel timeout": ("timeout tunnel 700ms", {"idle": {"idle WebSocket"}}),
    "no upgrade": (
        "http-request del-header upgrade",
        {"upgrade": {"WebSocket", "idle WebSocket", "CORS"}},
    ),
    "small bodies": (
        "http-request deny deny_status 413 if { req.hdr_val(content-length) gt 1000000 }",
        {"body-size": {"request size"}},
    ),
    "no cookies": ("http-request del-header cookie", {"cookies": {"cookies"}}),
    "no set-cookie": ("http-response del-header set-cookie", {"cookies": {"cookies"}}),
    "no last-event-id": (
        "http-request del-header last-event-id",
        {"last-event-id": {"Last-Event-ID"}},
    ),
    "close": ("option httpclose", {"closing": {"address"}}),
    # What no reader notices.
    "buffered requests": ("option http-buffer-request", {}),
    "client timeout": ("timeout client 700ms", {}),
    # haproxy 2.6 compresses answers with a length, and no streams.
    "compression": (f"{COMPRESSION}\n    http-response del-header cache-control", {}),
}


needs_nginx = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="needs nginx: apt-get install nginx"
)
needs_haproxy = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="needs haproxy: apt-get install haproxy"
)


def batches(cases: Iterable[str]) -> list[list[str]]:
    """A few at a time: they wait more than they work."""
    names = list(cases)
    return [names[place : place + _AT_ONCE] for place in range(0, len(names), _AT_ONCE)]


def differences(
    start: Callable[[str, Path], AbstractContextManager[str]], expected: Faults, folder: Path
) -> Faults:
    """What is found behind each of these proxies, at once, where it is not as expected.

    What differs is looked at again, alone: a machine that stood still looks like a proxy that
    holds pieces back.
    """

    def diagnose_one(name: str) -> dict[str, set[str]]:
        own_folder = Path(mkdtemp(dir=folder))
        with start(name, own_folder) as url:
            return found(diagnose(url, EXAMINATION))

    with ThreadPoolExecutor(len(expected)) as threads:
        diagnoses = dict(zip(expected, threads.map(diagnose_one, expected), strict=True))
    different = [name for name, faults in diagnoses.items() if faults != expected[name]]
    again = {name: diagnose_one(name) for name in different}
    return {name: faults for name, faults in again.items() if faults != expected[name]}


@needs_nginx
@pytest.mark.parametrize("names", batches(NGINX), ids=", ".join)
def test_nginx(names: list[str], upstream: int, tmp_path: Path) -> None:
    def start(name: str, folder: Path) -> AbstractContextManager[str]:
        return nginx(upstream, folder, NGINX[name][0])

    assert differences(start, {name: NGINX[name][1] for name in names}, tmp_path) == {}


@needs_haproxy
@pytest.mark.parametrize("names", batches(HAPROXY), ids=", ".join)
def test_haproxy(names: list[str], upstream: int, tmp_path: Path) -> None:
    def start(name: str, folder: Path) -> AbstractContextManager[str]:
        return haproxy(upstream, folder, HAPROXY[name][0])

    assert differences(start, {name: HAPROXY[name][1] for name in names}, tmp_path) == {}


@needs_nginx
def test_nginx_as_it_is_without_settings_for_streams(upstream: int, tmp_path: Path) -> None:
    """With HTTP/1.0 it collects 4 KB, where it ignores the server's header. WebSockets have a
    location of their own.
    """
    websockets = "".join(
        f"location {path} {{ proxy_pass http://127.0.0.1:{upstream}; {without()} }}"
        for path in ("/ws", "/realtime")
    )
    location = without("proxy_http_version") + "proxy_ignore_headers X-Accel-Buffering;"
    with nginx(upstream, tmp_path, location, websockets) as url:
        diagnosis = diagnose(url, EXAMINATION)
    assert found(diagnosis) == {"buffering": {EVENTS, V1_STREAMED}}
    assert "  nginx: `proxy_buffering off;`" in as_text(diagnosis, None)
    assert "haproxy" not in as_text(diagnosis, None)


@needs_nginx
def test_a_server_that_a_proxy_does_not_reach(tmp_path: Path) -> None:
    with nginx(free_port(), tmp_path, without()) as url:
        assert found(diagnose(url, EXAMINATION)) == {"unreached": {"address"}}


@pytest.mark.parametrize(
    ("fault", "faults"),
    [
        (Fault.CUTS_STREAMS, {"cut": {EVENTS, V1_STREAMED}}),
        (Fault.SPREADS_COOKIES, {"stickiness": {"cookies"}}),
        (Fault.DROPS_UPGRADES, {"no-websockets": {"WebSocket", "idle WebSocket"}}),
        (Fault.TIRES_OF_SILENCE, {"idle": {V1_WHOLE, "request size"}}),
    ],
)
async def test_what_nginx_and_haproxy_have_no_setting_for(
    serve: Serve, fault: Fault, faults: dict[str, set[str]]
) -> None:
    server = await serve()
    examination = replace(EXAMINATION, origin=None)
    async with faulty_proxy(server.port, fault) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        diagnosis = await asyncio.to_thread(diagnose, url, examination)
    # That proxy has one request a connection.
    assert found(diagnosis) == faults | {"closing": {"address"}}
