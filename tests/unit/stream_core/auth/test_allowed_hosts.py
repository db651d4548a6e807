"""By which names a server may be called."""

from __future__ import annotations

import pytest

from evenflow.stream_core.auth.allowed_hosts import AllowedHosts, is_loopback, parse_hosts
from evenflow.stream_core.base.errors import HostNotAllowed


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "localhost:8080",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:8080",
        ),
        *("10.0.1.5:8080", "[fe80::1]", "chat.example.com", "Chat.Example.com:443"),
        None,
    ],
)
def test_what_is_named_and_addresses_may_be_called(host: str | None) -> None:
    AllowedHosts(["chat.example.com"]).check(host)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "x.localhost"),
        *("", ":8080", "localhost:8080:1", "localhost@evil.example", "127.0.0.1 ", "[::1", "[x]"),
        *("127.1", "2130706433", "evil.example:localhost"),
    ],
)
def test_another_name_may_not(host: str) -> None:
    with pytest.raises(HostNotAllowed) as refused:
        AllowedHosts([]).check(host)
    assert refused.value.code == "host_not_allowed"


@pytest.mark.parametrize("names", [None, parse_hosts("*")])
def test_where_none_are_restricted_every_name_may(names: tuple[str, ...] | None) -> None:
    AllowedHosts(names).check("evil.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("10.0.1.5", False), ("::", False), ("", False), ("box", False)),  # noqa: S104
    ],
)
def test_who_listens_for_its_own_machine(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_names_are_read() -> None:
    assert parse_hosts(" chat.example.com, intranet ,") == ("chat.example.com", "intranet")


@pytest.mark.parametrize(
    "text", ["https://a.example", "a.example:80", "A.example", "a b", "*,a.example", "*.example"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_hosts(text)
