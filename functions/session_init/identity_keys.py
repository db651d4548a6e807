"""Fetches the keys of the operator's identity provider before one of its tokens is verified."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit, urlunsplit

from aws_lambda_powertools import Logger

from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.oidc_keys import (
    FETCH_SECONDS,
    LARGEST_DOCUMENT,
    DocumentUnreadable,
    keys_url_in,
    parse_keys,
)

_PIECE = 16_384


class IdentityKeyFetcher:
    """Keeps the keys by which identity tokens are verified. A call waits while they are fetched.

    Args:
        tokens: verifies by what this fetches.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self, tokens: IdentityTokens, logger: Logger, wall_time: Callable[[], float] = time.time
    ) -> None:
        self.tokens = tokens
        self._logger = logger
        self._wall_time = wall_time

    def prepare(self, token: str | None) -> None:
        """Fetch the keys if this is a token that needs them."""
        if not self.tokens.is_due(token, self._wall_time()):
            return
        keys, settings = self.tokens.keys, self.tokens.settings
        keys.begin(self._wall_time())
        try:
            url = settings.keys_url
            if url is None:
                url = keys_url_in(_document(settings.discovery_url), settings)
            keys.replace(parse_keys(_document(url)), self._wall_time())
        except (OSError, HTTPException, DocumentUnreadable) as error:
            self._logger.error(
                "the identity provider's keys stay as they are", extra={"reason": str(error)}
            )


def _document(url: str) -> bytes:
    """Fetch a document. Redirects are not followed: they could lead to another server.

    Raises:
        DocumentUnreadable: it is too large or too slow, or there is none.
    """
    parts, give_up_at = urlsplit(url), time.monotonic() + FETCH_SECONDS
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(connect(str(parts.hostname), parts.port, timeout=FETCH_SECONDS)) as connection:
        connection.request("GET", urlunsplit(("", "", parts.path or "/", parts.query, "")))
        answer = connection.getresponse()
        if answer.status != 200:
            raise DocumentUnreadable(f"{url} answers {answer.status}")
        document = b""
        while piece := answer.read1(_PIECE):
            document += piece
            if len(document) > LARGEST_DOCUMENT:
                raise DocumentUnreadable(f"{url} has more than {LARGEST_DOCUMENT} bytes")
            if time.monotonic() > give_up_at:
                raise DocumentUnreadable(f"{url} answers too slowly")
        return document
