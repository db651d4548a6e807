"""Chooses the forward proxy of a call, by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

Only addresses from settings are called, and no redirect is followed. So no request decides where
the proxy connects. Other nodes and workers are called directly.
"""

from __future__ import annotations

import os
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment

from evenflow.fargate_handler.settings.environment import trimmed
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.stream_core.auth.allowed_hosts import is_loopback

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = "localhost,127.0.0.1,::1"


def forward_proxy(url: str) -> str | None:
    """The proxy for calls to `url`. None: call it directly.

    Raises:
        ConfigurationError: the variable has no usable proxy address.
    """
    target, proxies = urlsplit(url), getproxies_environment()
    variable = target.scheme if target.scheme in proxies else "all"
    value = trimmed(proxies.get(variable, ""))
    if not value or _is_excepted(target, proxies.get("no", "")):
        return None
    proxy = value if "://" in value else f"http://{value}"
    if not _is_usable(proxy):
        raise ConfigurationError(
            f"{variable.upper()}_PROXY must be the address of an HTTP proxy, such as "
            f"http://proxy.example.com:3128, to reach {target.hostname}; set "
            f"NO_PROXY={target.hostname} to call it directly"
        )
    return proxy


def except_loopback() -> None:
    """Add this machine to NO_PROXY, since some libraries would call it through the proxy."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return
    excepted = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (excepted, _LOOPBACK)))


def _is_usable(proxy: str) -> bool:
    try:
        address = urlsplit(proxy)
        return address.scheme in _PORTS and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def _is_excepted(target: SplitResult, no_proxy: str) -> bool:
    host = target.hostname or ""
    if is_loopback(host) or host.endswith(".localhost"):
        return True
    port = target.port or _PORTS[target.scheme]
    entries = map(str.strip, no_proxy.lower().split(","))
    return any(_excepts(entry, host, port) for entry in entries)


def _excepts(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY matches a host: by name, domain or network."""
    if entry == "*":
        return True
    with suppress(ValueError):
        return ip_address(host) in ip_network(entry, strict=False)
    name = entry.removesuffix(f":{port}").lstrip("*.")
    return bool(name) and f".{host}".endswith(f".{name}")
