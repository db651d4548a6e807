"""The proxies of docs/behind-a-proxy.md: the very files of that page, at other ports."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.integration.doctor.proxies import nginx_command, nginx_file, running
from tests.integration.server_process import ROOT, free_port

_PAGE = (ROOT / "docs/behind-a-proxy.md").read_text("utf-8")
_SERVER = "127.0.0.1:8080"
_CADDY_OPTIONS = "{\n\tadmin off\n}\n"  # its port may be taken

StartProxy = Callable[[int, Path], AbstractContextManager[str]]
"""Starts a proxy in front of a port, with files in a folder. Gives its address."""


def snippet(language: str, number: int = 0) -> str:
    """A block of code of the page."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    return blocks[number]


def _at_ports(text: str, changes: Mapping[str, str]) -> str:
    for documented, here in changes.items():
        assert documented in text, f"the page has no {documented!r} any more"
        text = text.replace(documented, here)
    return text


@contextmanager
def documented_nginx(
    upstream: int, folder: Path, changes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The page's nginx. `changes`: more texts of its file, and what takes their place."""
    port, path = free_port(), folder / "nginx.conf"
    ports = {_SERVER: f"127.0.0.1:{upstream}", "listen 80;": f"listen 127.0.0.1:{port};"}
    path.write_text(nginx_file(folder, _at_ports(snippet("nginx"), {**(changes or {}), **ports})))
    with running(nginx_command(path), port, folder):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def documented_nginx_below_a_path(upstream: int, folder: Path) -> Iterator[str]:
    """The page's nginx with what it says of a path, `/ai`."""
    text, below = snippet("nginx"), snippet("nginx", 1)
    ours = re.search(r"    location / \{.*?(?=    location @restarting)", text, re.DOTALL)
    assert ours is not None
    changes = {ours[0]: below, '    proxy_set_header X-Forwarded-Prefix "";\n': ""}
    with documented_nginx(upstream, folder, changes) as url:
        yield f"{url}/ai"


@contextmanager
def documented_haproxy(upstream: int, folder: Path) -> Iterator[str]:
    """The page's haproxy."""
    port, path = free_port(), folder / "haproxy.cfg"
    ports = {_SERVER: f"127.0.0.1:{upstream}", "bind :80": f"bind 127.0.0.1:{port}"}
    path.write_text(_at_ports(snippet("haproxy"), ports))
    with running(["haproxy", "-db", "-f", str(path)], port, folder):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def documented_caddy(upstream: int, folder: Path) -> Iterator[str]:
    """The page's Caddy, without TLS."""
    port, path = free_port(), folder / "Caddyfile"
    url = f"http://127.0.0.1:{port}"
    ports = {_SERVER: f"127.0.0.1:{upstream}", "chat.example.com": url}
    path.write_text(_CADDY_OPTIONS + _at_ports(snippet("caddyfile"), ports))
    # It leaves nothing in the reader's home.
    home = [f"XDG_CONFIG_HOME={folder}", f"XDG_DATA_HOME={folder}"]
    command = ["env", *home, "caddy", "run", "--adapter", "caddyfile", "--config", str(path)]
    with running(command, port, folder):
        yield url


def _needs(program: str, start: StartProxy, name: str = "") -> object:
    is_missing = shutil.which(program) is None
    reason = f"needs {program}: apt-get install {program}"
    skip = pytest.mark.skipif(is_missing, reason=reason)
    return pytest.param(start, id=name or program, marks=skip)


DOCUMENTED = (
    _needs("nginx", documented_nginx),
    _needs("nginx", documented_nginx_below_a_path, "nginx below a path"),
    _needs("haproxy", documented_haproxy),
    _needs("caddy", documented_caddy),
)
"""One parameter a proxy."""
