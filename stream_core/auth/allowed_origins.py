"""The origins with pages that may call (CORS), and the policy for the page that we serve."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from evenflow.stream_core.base.errors import UnsupportedMediaType


def page_policy(*connections: str) -> str:
    """The value of the page's `Content-Security-Policy`: only its own origin, and nothing inline.

    Args:
        connections: other origins it may connect to, for example the WebSocket's.
    """
    sources = " ".join(("'self'", *connections))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


EVERY_ORIGIN = "*"
_HOST = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]"
_ORIGIN = re.compile(rf"([a-z][a-z0-9+.-]*)://({_HOST})(?::([1-9][0-9]{{0,4}}))?")
_AUTHORITY = re.compile(rf"({_HOST})(?::([0-9]{{1,5}}))?", re.IGNORECASE)
_PORT_OF = {"http": "80", "https": "443"}
_HIGHEST_PORT = 65_535

_JSON = "application/json"
_METHODS = "GET, POST, DELETE"
# Our own by name. `*` is for what stock clients add (OpenAI's: x-stainless-…). It never means
# Authorization.
_REQUEST_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Evenflow-Timeout-Ms, *"
)
# The headers that our clients, OpenAI's and those of Durable Streams read.
_ANSWER_HEADERS = (
    "Evenflow-Next-Index, Evenflow-Via, Retry-After, X-Request-Id, X-Should-Retry, ETag, "
    "Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed"
)
_PREFLIGHT_SECONDS = 7_200  # Chromium's maximum; no browser keeps it for longer


def parse_origins(text: str) -> tuple[str, ...]:
    """Read `https://app.example.com,http://localhost:3000`, or `*` for every origin.

    Raises:
        ValueError: an origin is not as browsers write it, or is there twice, or `*` is not alone.
    """
    origins = tuple(filter(None, map(_without_slash, text.split(","))))
    for origin in origins:
        if origin != EVERY_ORIGIN and not _is_origin(origin):
            raise ValueError(
                "must be origins as browsers write them, "
                "https://app.example.com,http://localhost:3000 (small letters, no path, no port "
                f"443 or 80 where that goes without saying), or * for all; {origin[:100]!r} is none"
            )
    if EVERY_ORIGIN in origins and len(origins) > 1:
        raise ValueError("has * beside other origins; it stands for all, so it must be alone")
    if len(set(origins)) < len(origins):
        raise ValueError("names an origin twice")
    return origins


class AllowedOrigins:
    """The other origins with pages that may call. None is the default, and changes no answer.

    Args:
        origins: the result of `parse_origins`.
    """

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    @property
    def are_named(self) -> bool:
        """Whether any origin is allowed."""
        return bool(self._origins)

    def admits(self, origin: str) -> bool:
        """Whether pages of `origin` may call."""
        return EVERY_ORIGIN in self._origins or origin in self._origins

    def answer_headers(self, origin: str | None) -> dict[str, str]:
        """The headers of every answer, errors too, to a request with the header `Origin`."""
        if not self._origins:
            return {}
        if EVERY_ORIGIN in self._origins:
            return _readable_by(EVERY_ORIGIN)
        # Also without an allowed origin: a cache must not return this answer to other origins.
        vary = {"Vary": "Origin"}
        return (
            vary if origin is None or origin not in self._origins else vary | _readable_by(origin)
        )

    def preflight_headers(
        self, method: str, origin: str | None, asked_method: str | None
    ) -> dict[str, str] | None:
        """The headers that only the answer to a CORS preflight has.

        Returns:
            None where the request is no preflight, or its origin is not allowed. It is then
            answered like any other request.

        Args:
            asked_method: the header `Access-Control-Request-Method`.
        """
        if method != "OPTIONS" or asked_method is None or origin is None or not self.admits(origin):
            return None
        return {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _REQUEST_HEADERS,
            "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
        }

    def check_unasked(self, method: str, headers: Mapping[str, str]) -> None:
        """Check a call that a page of another origin may have sent without a preflight.

        Browsers send a form's or a text's content type to every server for any page. They don't
        let it read the answer.

        Args:
            headers: their names in small letters, or in any.

        Raises:
            UnsupportedMediaType: it is one, of a page that may not call.
        """
        origin = headers.get("origin")
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            origin is not None
            and method == "POST"
            and content_type != _JSON
            and "authorization" not in headers
            and not self.admits(origin)
        ):
            raise UnsupportedMediaType(
                f"a page of another origin sends {_JSON}, or a token; nothing was accepted",
                code="unsupported_media_type",
                param="Content-Type",
                expected=_JSON,
            )


def is_own_page(origin: str, host: str, http_port: int) -> bool:
    """Whether a page of `origin` was served by this server, at the called address or `http_port`.

    Args:
        host: the header `Host`.
    """
    page, authority = _ORIGIN.fullmatch(origin), _AUTHORITY.fullmatch(host)
    if page is None or authority is None or page[2] != authority[1].lower():
        return False
    return page[3] == authority[2] or (page[3] or _PORT_OF.get(page[1])) == str(http_port)


def _without_slash(text: str) -> str:
    """Remove the slash at the end of an origin that was copied from a browser."""
    origin = text.strip()
    bare = origin.removesuffix("/")
    return bare if _is_origin(bare) else origin


def _is_origin(text: str) -> bool:
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return False
    scheme, port = match[1], match[3]
    return port is None or (int(port) <= _HIGHEST_PORT and port != _PORT_OF.get(scheme))


def _readable_by(origin: str) -> dict[str, str]:
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _ANSWER_HEADERS}
