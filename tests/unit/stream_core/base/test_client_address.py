"""Whose address a request came from."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from evenflow.stream_core.base.client_address import TrustedProxies

_PROXIES = TrustedProxies("10.0.0.0/16,fd00::/8")


def _client_address(
    peer: str, forwarded_for: str | None, proxies: TrustedProxies = _PROXIES
) -> str:
    headers = CIMultiDict[str]()
    if forwarded_for is not None:
        headers["X-Forwarded-For"] = forwarded_for
    return proxies.client(peer, headers).address


@pytest.mark.parametrize("peer", ["10.0.3.4", "::ffff:10.0.3.4", "fd12::1", "fd12::1%eth0"])
def test_a_proxy_is_known_by_its_address(peer: str) -> None:
    assert _PROXIES.trusts(peer)


@pytest.mark.parametrize("peer", ["10.1.0.1", "203.0.113.9", "2001:db8::1", "", "/run/socket"])
def test_nobody_else_is_a_proxy(peer: str) -> None:
    assert not _PROXIES.trusts(peer)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
def test_a_proxy_on_this_machine_is_trusted_without_a_setting(peer: str) -> None:
    assert TrustedProxies().trusts(peer)
    assert not TrustedProxies("10.0.0.1").trusts(peer)


def test_an_untrusted_peer_is_itself_whatever_it_claims() -> None:
    assert _client_address("203.0.113.9", "198.51.100.1") == "203.0.113.9"


@pytest.mark.parametrize(
    ("forwarded_for", "client"),
    [
        (None, "10.0.0.1"),
        ("", "10.0.0.1"),
        ("203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9, 10.0.0.2,10.0.0.3", "203.0.113.9"),
        ("10.0.0.2, 10.0.0.3", "10.0.0.2"),
        ("203.0.113.9:50123", "203.0.113.9"),
        ("[2001:db8::9]:50123", "2001:db8::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, unknown", "10.0.0.1"),
        ("198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        (",", "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_who_is_no_proxy(forwarded_for: str | None, client: str) -> None:
    assert _client_address("10.0.0.1", forwarded_for) == client


@pytest.mark.parametrize(
    ("forwarded_for", "client"),
    [
        ("203.0.113.9, 130.176.1.1", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.8", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9, 130.176.1.1", "203.0.113.9"),
        ("130.176.1.1", "130.176.1.1"),
    ],
)
def test_behind_a_number_of_proxies_the_place_says_who_it_is(
    forwarded_for: str, client: str
) -> None:
    """Whether or not the address of the first proxy is known."""
    proxies = TrustedProxies("10.0.0.0/16=2")
    assert _client_address("10.0.0.1", forwarded_for, proxies) == client


def test_of_a_long_list_only_the_end_is_looked_at() -> None:
    """It is the client's to write, and to read all of it would take milliseconds."""
    trusted = ["10.0.0.2"] * 9
    assert _client_address("10.0.0.1", ",".join(["203.0.113.9", *trusted])) == "10.0.0.2"
    assert _client_address("10.0.0.1", ",".join(["203.0.113.9", *trusted[1:]])) == ("203.0.113.9")


def test_all_addresses_of_an_ipv6_customer_are_one() -> None:
    first = _client_address("2001:db8:1:2:3:4:5:6", None)
    assert first == "2001:db8:1:2::/64"
    assert _client_address("2001:db8:1:2::9", None) == first
    assert _client_address("2001:db8:1:3::9", None) != first


@pytest.mark.parametrize(
    "text", ["proxy.example", "10.0.0.0/33", "10.0.0.1/16", "10.0.0.0/16=0", "10.0.0.0/16=x", "*"]
)
def test_what_is_no_address_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"addresses or networks of proxies, 127\.0\.0\.1,"):
        TrustedProxies(f"127.0.0.1,{text}")
