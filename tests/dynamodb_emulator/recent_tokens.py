"""The ClientRequestTokens of the last ten minutes: who repeats a transaction does nothing again."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson

from tests.dynamodb_emulator.errors import RequestRefused

LIFETIME_SECONDS = 600.0


class RecentTokens:
    """Remembers which transactions were done under which token."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._done: dict[str, tuple[float, bytes]] = {}

    def knows(self, token: str, digest: bytes) -> bool:
        """Whether these actions were done under this token."""
        self._forget()
        if token not in self._done:
            return False
        if self._done[token][1] != digest:
            raise RequestRefused(
                "IdempotentParameterMismatchException",
                "The token was used with other parameters in the last ten minutes",
            )
        return True

    def remember(self, token: str, digest: bytes) -> None:
        """They were done."""
        self._done[token] = self._clock(), digest

    def _forget(self) -> None:
        # In the order in which they came: the first that is young enough ends it.
        while self._done and self._clock() - next(iter(self._done.values()))[0] > LIFETIME_SECONDS:
            del self._done[next(iter(self._done))]


def digest_of(actions: Any) -> bytes:
    """What tells a transaction's actions from others'."""
    return sha256(orjson.dumps(actions, option=orjson.OPT_SORT_KEYS)).digest()
