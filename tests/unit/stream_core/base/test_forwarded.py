"""Who sent a request, and by which URL, as the headers of proxies say."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from evenflow.stream_core.base.client_address import CalledUrl, Client, TrustedProxies

_PROXIES = TrustedProxies("10.0.0.0/16")
_NEAREST, _STRANGER = "10.0.0.1", "203.0.113.9"


def _client(*headers: tuple[str, str], peer: str = _NEAREST) -> Client:
    return _PROXIES.client(peer, CIMultiDict(headers))


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({"X-Forwarded-Proto": "https"}, CalledUrl("https")),
        ({"X-Forwarded-Proto": "HTTPS, http"}, CalledUrl("https")),
        ({"X-Forwarded-Proto": "javascript"}, CalledUrl()),
        ({"X-Forwarded-Host": "chat.test:8443"}, CalledUrl(host="chat.test:8443")),
        ({"X-Forwarded-Host": "chat.test, inner"}, CalledUrl(host="chat.test")),
        ({"X-Forwarded-Host": "[::1]:8443"}, CalledUrl(host="[::1]:8443")),
        ({"X-Forwarded-Host": "a b"}, CalledUrl()),
        ({"X-Forwarded-Host": "<script>"}, CalledUrl()),
        ({"X-Forwarded-Prefix": "/ev"}, CalledUrl(prefix="/ev")),
        ({"X-Forwarded-Prefix": "/a/, /b"}, CalledUrl(prefix="/a/b")),
        ({"X-Forwarded-Prefix": "/"}, CalledUrl()),
        ({"X-Forwarded-Prefix": "//evil.test"}, CalledUrl()),
        ({"X-Forwarded-Prefix": "/a/../b"}, CalledUrl()),
        ({"X-Forwarded-Prefix": "/a;x"}, CalledUrl()),
        (
            {"Forwarded": "for=203.0.113.9;proto=https;host=chat.test"},
            CalledUrl("https", "chat.test"),
        ),
        ({"Forwarded": 'Host="chat.test:8443";PROTO=http'}, CalledUrl("http", "chat.test:8443")),
        ({}, CalledUrl()),
    ],
)
def test_a_trusted_proxy_says_which_url_was_called(headers: dict[str, str], url: CalledUrl) -> None:
    assert _client(*headers.items()).url == url
    stranger = _client(*headers.items(), peer=_STRANGER)
    assert (stranger.url, stranger.is_doubtful) == (CalledUrl(), url != CalledUrl())


@pytest.mark.parametrize(
    ("lines", "address", "host"),
    [
        (['for=203.0.113.9;host=a, for="10.0.0.2";host=b'], _STRANGER, "a"),
        (["for=203.0.113.9;host=a", 'for="10.0.0.2";host=b'], _STRANGER, "a"),
        (['for=1.1.1.1;host=evil, for="203.0.113.9:4711";host=a'], _STRANGER, "a"),
        (['for="[2001:db8::9]:4711";host=a'], "2001:db8::/64", "a"),
        (["for=unknown;host=a"], _NEAREST, "a"),
        (["for=_hidden;host=a, for=10.0.0.2;host=b"], "10.0.0.2", "a"),
        # A quotation mark that a client leaves open ends with its line.
        (['x="1', "for=203.0.113.9;host=a"], _STRANGER, "a"),
        (['for="1.1.1.1, for=203.0.113.9;host=a'], _STRANGER, "a"),
        ([r'for="203.0.113\.9";host=a'], _STRANGER, "a"),
        (["for=203.0.113.9;host=a," + " " * 3_000], _NEAREST, ""),
    ],
)
def test_of_several_elements_that_of_the_client_counts(
    lines: list[str], address: str, host: str
) -> None:
    client = _client(*(("Forwarded", line) for line in lines))
    assert (client.address, client.url.host) == (address, host)


def test_what_a_client_adds_beside_the_proxy_s_own_header_does_not_count() -> None:
    client = _client(
        ("Forwarded", "for=1.1.1.1;host=evil;proto=https"), ("X-Forwarded-For", _STRANGER)
    )
    assert (client.address, client.url) == (_STRANGER, CalledUrl())


@pytest.mark.parametrize(
    ("forwarded_for", "peer", "unnamed"),
    [
        (_STRANGER, "10.1.0.5", "10.1.0.5"),
        (f"{_STRANGER}, 10.1.0.5", _NEAREST, "10.1.0.5"),
        (f"{_STRANGER}, 100.64.0.5, 10.0.0.2", _NEAREST, "100.64.0.5"),
        # A client wrote the first of these itself, and is no proxy.
        (f"1.1.1.1, {'8.8.8.8'}", _NEAREST, ""),
        ("192.168.1.7", _NEAREST, ""),
        (f"{_STRANGER}, 10.0.0.2", _NEAREST, ""),
    ],
)
def test_a_proxy_that_is_not_named_is_noticed(forwarded_for: str, peer: str, unnamed: str) -> None:
    client = _client(("X-Forwarded-For", forwarded_for), peer=peer)
    assert client.unnamed_proxy == unnamed


def test_where_the_number_of_proxies_is_known_all_are_named() -> None:
    proxies = TrustedProxies("10.0.0.0/16=2")
    headers = CIMultiDict([("X-Forwarded-For", f"1.1.1.1, {_STRANGER}, 192.168.0.1")])
    assert proxies.client(_NEAREST, headers).unnamed_proxy == ""


@pytest.mark.parametrize(
    ("name", "is_forwarded"),
    [("X-Forwarded-For", True), ("Forwarded", True), ("Via", True), ("Accept", False)],
)
def test_a_proxy_is_known_by_its_headers(name: str, is_forwarded: bool) -> None:
    assert _client((name, "x")).is_forwarded is is_forwarded
