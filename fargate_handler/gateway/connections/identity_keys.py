"""Fetches the keys of the identity provider, in the background or while a caller waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.settings.forward_proxy import forward_proxy
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.oidc_keys import (
    FETCH_SECONDS,
    LARGEST_DOCUMENT,
    DocumentUnreadable,
    keys_url_in,
    parse_keys,
)

_logger = logging.getLogger(__name__)
_PIECE = 16_384
_UNREADABLE = (
    aiohttp.ClientError, TimeoutError, OSError, DocumentUnreadable, ConfigurationError,
)  # fmt: skip


class IdentityKeys:
    """Keeps the keys by which identity tokens are verified.

    Args:
        tokens: verifies by what this fetches.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self, tokens: IdentityTokens, background: Background, wall_time: Callable[[], float]
    ) -> None:
        self.tokens = tokens
        self._background = background
        self._wall_time = wall_time
        self._fetching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Fetch the keys, unless a fetch is running."""
        if self._fetching is None:
            self.tokens.keys.begin(self._wall_time())
            self._fetching = self._background.run(self._fetch())

    def look_at(self, token: str | None) -> None:
        """Start a fetch if this token needs it. The caller does not wait."""
        if self.tokens.is_due(token, self._wall_time()):
            self.begin()

    async def prepare(self, token: str | None) -> None:
        """Start a fetch if this token needs it, and wait if no key verifies it yet."""
        self.look_at(token)
        if self._fetching is not None and not self.tokens.has_key_of(token):
            await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        keys, settings = self.tokens.keys, self.tokens.settings
        try:
            timeout = aiohttp.ClientTimeout(total=FETCH_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout) as http:
                url = settings.keys_url
                if url is None:
                    url = keys_url_in(await _document(http, settings.discovery_url), settings)
                keys.replace(parse_keys(await _document(http, url)), self._wall_time())
        except _UNREADABLE as error:
            reason = str(error) or type(error).__name__
            _logger.error("the identity provider's keys stay as they are: %s", reason)
        finally:
            self._fetching = None


async def _document(http: aiohttp.ClientSession, url: str) -> bytes:
    """Read the document at a URL. Redirects are not followed: they could lead to any address.

    Raises:
        DocumentUnreadable: it is too large, or there is none.
        ConfigurationError: the forward proxy to it has no usable address.
    """
    async with http.get(url, allow_redirects=False, proxy=forward_proxy(url)) as answer:
        if answer.status != 200:
            raise DocumentUnreadable(f"{url} answers {answer.status}")
        document = bytearray()
        async for piece in answer.content.iter_chunked(_PIECE):
            document += piece
            if len(document) > LARGEST_DOCUMENT:
                raise DocumentUnreadable(f"{url} has more than {LARGEST_DOCUMENT} bytes")
        return bytes(document)
