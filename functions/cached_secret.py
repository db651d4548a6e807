"""A secret of Secrets Manager, read again every few minutes, so that a rotation is noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from evenflow.stream_aws.keys import KeysUnreadable
from evenflow.stream_core.base.errors import Overloaded

MAX_AGE_SECONDS = 300.0
_PAUSE_SECONDS = 10.0
# Calls are refused while there is no value, so the first retries come sooner.
_FIRST_PAUSE_SECONDS = 1.0
_RETRY_AFTER_MS = 2_000

T = TypeVar("T")


class CachedSecret(Generic[T]):
    """One secret, as a value that `parse` makes.

    If Secrets Manager fails or the secret is wrong, the last good value stays in use. The next
    attempt is ten seconds later. Without any value it is one, two, four, eight, and then ten
    seconds later. So requests do not wait one after another for the same failure.

    Args:
        client: a boto3 client of Secrets Manager.
        parse: turns the secret's text into the value, or raises `KeysUnreadable`.
        wall_time: seconds since the epoch. The monotonic clock may stop while Lambda freezes
            the environment, and the secret would grow old unnoticed.
    """

    def __init__(
        self,
        client: Any,
        secret_id: str,
        parse: Callable[[str], T],
        logger: Logger,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._secret_id = secret_id
        self._parse = parse
        self._logger = logger
        self._wall_time = wall_time
        self._value: T | None = None
        self._refresh_at = 0.0
        self._pause = _FIRST_PAUSE_SECONDS

    def get(self) -> T:
        """The value, at most a few minutes old unless Secrets Manager fails.

        Raises:
            Overloaded: `keys_unavailable`: Secrets Manager fails, and there is no earlier value.
        """
        now = self._wall_time()
        if now >= self._refresh_at:
            self._refresh(now)
        if self._value is None:
            raise Overloaded(
                "the keys cannot be read at the moment; nothing was changed, try again in some "
                "seconds",
                code="keys_unavailable",
                retry_after_ms=max(_RETRY_AFTER_MS, int((self._refresh_at - now) * 1000)),
            )
        return self._value

    def _refresh(self, now: float) -> None:
        try:
            answer = self._client.get_secret_value(
                SecretId=self._secret_id, VersionStage="AWSCURRENT"
            )
            self._value = self._parse(answer["SecretString"])
        except (BotoCoreError, ClientError, KeysUnreadable, KeyError) as error:
            self._refresh_at = now + (self._pause if self._value is None else _PAUSE_SECONDS)
            self._pause = min(2 * self._pause, _PAUSE_SECONDS)
            kept = (
                "there is none, so calls are refused"
                if self._value is None
                else "the last good one stays in use"
            )
            self._logger.error(
                f"a secret could not be read; {kept}",
                extra={"secret_id": self._secret_id, "reason": _reason(error)},
            )
        else:
            self._refresh_at = now + MAX_AGE_SECONDS


def _reason(error: Exception) -> str:
    return "it has no SecretString" if isinstance(error, KeyError) else str(error)
