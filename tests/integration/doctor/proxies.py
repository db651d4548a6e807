"""nginx and haproxy in front of a server: set up right, except for what a test changes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.server_process import free_port

_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
_HTTP_1_1 = "proxy_http_version 1.1;"
_UPGRADE = (
    "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
)
_HOST = "proxy_set_header Host $http_host;"
_BODY = "client_max_body_size 5m;"
RIGHT = (_HTTP_1_1, _UPGRADE, _HOST, _BODY)
"""What a location of nginx needs."""


def without(*missing: str) -> str:
    """The directives of a right location, but for those that begin so."""
    return "\n".join(directive for directive in RIGHT if not directive.startswith(missing))


def nginx_configuration(port: int, upstream: int, folder: Path, location: str, server: str) -> str:
    """nginx's configuration file.

    Args:
        location: the directives of the location that passes all on.
        server: more directives of the server.
    """
    site = f"""\
    proxy_cache_path {folder}/cache keys_zone=answers:1m;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    server {{
        listen 127.0.0.1:{port};
        {server}
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            {location}
        }}
    }}
"""
    return nginx_file(folder, site)


def nginx_file(folder: Path, site: str) -> str:
    """nginx's configuration file, of one process that writes into `folder` alone."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"    {kind}_temp_path {folder}/{kind};" for kind in kinds)
    return f"""\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
{temporary}
{site}
}}
"""


def haproxy_configuration(port: int, upstream: int, edge: str) -> str:
    """haproxy's configuration file. `edge`: more lines of the only proxy, over the defaults."""
    return f"""\
global
    nbthread 1

defaults
    mode http
    timeout connect 5s
    timeout http-request 10s
    timeout client 90s
    timeout server 90s
    timeout tunnel 90s

listen edge
    bind 127.0.0.1:{port}
    option http-no-delay
    {edge}
    server evenflow 127.0.0.1:{upstream}
"""


def nginx_command(path: Path) -> list[str]:
    """What starts nginx with this file."""
    return ["nginx", "-p", str(path.parent), "-c", str(path), "-e", "stderr"]


@contextmanager
def nginx(upstream: int, folder: Path, location: str, server: str = "") -> Iterator[str]:
    """Run nginx. Yields its address."""
    port = free_port()
    path = folder / "nginx.conf"
    path.write_text(nginx_configuration(port, upstream, folder, location, server))
    scheme = "https" if " ssl;" in server else "http"
    with running(nginx_command(path), port, folder):
        yield f"{scheme}://127.0.0.1:{port}"


@contextmanager
def haproxy(upstream: int, folder: Path, edge: str) -> Iterator[str]:
    """Run haproxy. Yields its address."""
    port = free_port()
    path = folder / "haproxy.cfg"
    path.write_text(haproxy_configuration(port, upstream, edge))
    with running(["haproxy", "-db", "-f", str(path)], port, folder):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(command: list[str], port: int, folder: Path) -> Iterator[None]:
    """Run a proxy that listens at this port of 127.0.0.1."""
    log = folder / "proxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_until_listening(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, f"the proxy ended at its start:\n{log.read_text()}"
        assert time.monotonic() < give_up_at, f"the proxy did not start:\n{log.read_text()}"
        time.sleep(0.02)
