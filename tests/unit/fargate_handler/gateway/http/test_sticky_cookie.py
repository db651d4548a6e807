from __future__ import annotations

from email.utils import parsedate_to_datetime
from http.cookies import Morsel, SimpleCookie

import pytest

from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.http.cookies import released_cookie, sticky_cookie

NOW = 1_800_000_000.4


def read(header: str) -> Morsel[str]:
    """The header's only cookie, as a browser reads it."""
    cookies = SimpleCookie(header)
    (name,) = cookies
    assert name == "WSID"
    return cookies[name]


@pytest.mark.parametrize("secure", [False, True])
def test_the_cookie_names_this_node_for_an_hour(secure: bool) -> None:
    header = sticky_cookie(Site(8080, node_id="0123456789abcdef", cookie_secure=secure), NOW)
    cookie = read(header)
    assert cookie.value == "0123456789abcdef"
    # An ALB reads Expires and not Max-Age.
    assert parsedate_to_datetime(cookie["expires"]).timestamp() == int(NOW) + 3600
    assert cookie["expires"].endswith(" GMT")
    assert not cookie["max-age"]
    assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == ("/", "Lax", True)
    assert bool(cookie["secure"]) is secure
    assert ("Secure" in header) is secure


@pytest.mark.parametrize("secure", [False, True])
def test_a_released_cookie_is_over(secure: bool) -> None:
    cookie = read(released_cookie(Site(8080, cookie_secure=secure)))
    assert cookie.value == ""
    assert parsedate_to_datetime(cookie["expires"]).timestamp() == 0
    # Only a cookie of the same path, and one as secure, replaces the one before.
    assert (cookie["path"], bool(cookie["secure"])) == ("/", secure)
