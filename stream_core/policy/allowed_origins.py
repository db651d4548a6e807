"""Whose pages may call, and what our own page may do."""

from __future__ import annotations

import re
from collections.abc import Iterable


def page_policy(*connections: str) -> str:
    """The header's value: code, styles and connections of the page's own origin only, and nothing inline.

    Args:
        connections: what else it may connect to, such as the WebSocket's address where that is another origin.
    """
    allowed = " ".join(("'self'", *connections))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {allowed}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


EVERY_ORIGIN = "*"
_HOST = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]"
_ORIGIN = re.compile(rf"([a-z][a-z0-9+.-]*)://({_HOST})(?::([1-9][0-9]{{0,4}}))?")
_AUTHORITY = re.compile(rf"({_HOST})(?::([0-9]{{1,5}}))?", re.IGNORECASE)
_PORT_OF = {"http": "80", "https": "443"}
_HIGHEST_PORT = 65_535

_METHODS = "GET, POST"
# By name what the contract has; `*` is what stock clients add (OpenAI's: x-stainless-…), and never stands for Authorization.
_REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Evenflow-Timeout-Ms, *"
# What ours and OpenAI's clients read.
_ANSWER_HEADERS = "Evenflow-Next-Index, Evenflow-Via, Retry-After, X-Request-Id, X-Should-Retry"
_PREFLIGHT_SECONDS = 7_200  # no browser keeps it for longer than Chromium


def parse_origins(text: str) -> tuple[str, ...]:
    """`https://app.example.com,http://localhost:3000`, or `*` for every origin.

    Raises:
        ValueError: one of them is not as a browser writes it, or is there twice, or `*` is not alone.
    """
    origins = tuple(filter(None, map(str.strip, text.split(","))))
    for origin in origins:
        if origin != EVERY_ORIGIN and not _is_origin(origin):
            raise ValueError(
                "must be origins as browsers write them, https://app.example.com,http://localhost:3000 (small letters, no path, "
                f"no port 443 or 80 where that goes without saying), or * for all; {origin[:100]!r} is none"
            )
    if EVERY_ORIGIN in origins and len(origins) > 1:
        raise ValueError("has * beside others: it stands for all, and alone")
    if len(set(origins)) < len(origins):
        raise ValueError("names an origin twice")
    return origins


class AllowedOrigins:
    """Those whose pages may call; none is the default, and changes no answer.

    Args:
        origins: of `parse_origins`.
    """

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    @property
    def are_named(self) -> bool:
        """Whether there are any: without, nobody thought of other origins' pages."""
        return bool(self._origins)

    def admits(self, origin: str) -> bool:
        """Whether pages of that origin may call."""
        return EVERY_ORIGIN in self._origins or origin in self._origins

    def answer_headers(self, origin: str | None) -> dict[str, str]:
        """What every answer says, errors too, to a request with this `Origin`."""
        if not self._origins:
            return {}
        if EVERY_ORIGIN in self._origins:
            return _readable_by(EVERY_ORIGIN)
        # Also without an origin, or with a wrong one: a cache must not give this answer to somebody else's page.
        vary = {"Vary": "Origin"}
        return vary if origin is None or origin not in self._origins else vary | _readable_by(origin)

    def preflight_headers(self, method: str, origin: str | None, asked_method: str | None) -> dict[str, str] | None:
        """What the answer to a browser's question before a call says beside that; None where the request is no such question,
        or comes from elsewhere: then it is answered as any other.

        Args:
            asked_method: `Access-Control-Request-Method`.
        """
        if method != "OPTIONS" or asked_method is None or origin is None or not self.admits(origin):
            return None
        return {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _REQUEST_HEADERS,
            "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
        }


def is_own_page(origin: str, host: str, http_port: int) -> bool:
    """Whether a page of `origin` is of the server that was called by the name `host`: at that address, or at its HTTP port.

    Args:
        host: the header `Host`.
    """
    page, called = _ORIGIN.fullmatch(origin), _AUTHORITY.fullmatch(host)
    if page is None or called is None or page[2] != called[1].lower():
        return False
    return page[3] == called[2] or (page[3] or _PORT_OF.get(page[1])) == str(http_port)


def _is_origin(text: str) -> bool:
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return False
    scheme, port = found[1], found[3]
    return port is None or (int(port) <= _HIGHEST_PORT and port != _PORT_OF.get(scheme))


def _readable_by(origin: str) -> dict[str, str]:
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _ANSWER_HEADERS}
