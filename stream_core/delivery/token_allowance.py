"""The bounds of a response in tokens and bytes, and the count of its tokens."""

from __future__ import annotations

from collections.abc import Callable
from sys import maxsize
from typing import Literal

from evenflow.stream_core.log.entries import OF_TOKENS, Part

# Characters. A piece longer than the first counts as several tokens. Few tokens are longer than the
# second.
LONGEST_PIECE, _LONGEST_TOKEN = 256, 16


def tokens_in(piece: str) -> int:
    """The tokens for which a model's piece counts: one, unless it is long."""
    return 1 if len(piece) <= LONGEST_PIECE else len(piece) // _LONGEST_TOKEN


class TokenAllowance:
    """Counts the model's tokens, and compares them with the bounds of the response.

    There are three bounds: a size in bytes, a limit of tokens for one call of the model, and a
    reservation that grows. A response has the limit or the reservation, never both.

    Args:
        max_bytes: the most bytes of an answer, without replaced text.
    """

    __slots__ = (
        "_allowed",
        "_call_limit",
        "_kept_tokens",
        "_max_bytes",
        "_on_low",
        "_uncounted",
        "check_at",
        "cut_by",
        "full_at",
        "pauses_at",
        "tokens",
    )

    cut_by: Literal["length", "budget"]
    """The reason with which the response ends once it takes no more tokens."""

    def __init__(self, max_bytes: int) -> None:
        self.tokens = 0
        """The tokens of the model in all attempts, by our own count (`tokens_in`)."""
        self.full_at = max_bytes
        """Bytes of the log at which the response is full. 0: it takes no more tokens."""
        self.check_at = maxsize
        """Tokens at which `check` must be called."""
        self.pauses_at = maxsize
        """Tokens at which the model pauses until more are reserved."""
        self.cut_by = "length"
        self._max_bytes = max_bytes
        # Those that are not of the current answer.
        self._uncounted = 0
        # Counted tokens of the steps that are never replaced.
        self._kept_tokens = 0
        self._allowed = self._call_limit = maxsize
        self._on_low: Callable[[], object] | None = None

    @property
    def counted(self) -> int:
        """The tokens of the current answer, by our own count, for bills and bounds."""
        return self.tokens - self._uncounted

    @property
    def reserved(self) -> int | None:
        """The tokens that `reserve` reserved. None: no bound, or the limit of a call."""
        if self._call_limit < maxsize or self._allowed >= maxsize:
            return None
        return self._allowed - self._uncounted

    def limit_call(self, tokens: int) -> None:
        """End the response with `length` if a call of the model gives more than `tokens`.

        They are counted here, since the model's server may ignore its own limit. Of several limits
        the lowest one counts.
        """
        if tokens < self._call_limit:
            self._call_limit = tokens
            self._start_call()

    def keep_step(self) -> None:
        """Keep the tokens so far: a step has ended. The next call has a limit of its own."""
        self._kept_tokens = self.counted
        self._start_call()

    def _start_call(self) -> None:
        if self._call_limit < maxsize:
            self._allowed = self.tokens + self._call_limit
            # An answer of exactly this length may end by itself: only one more token exceeds it.
            self.check_at = self._allowed + 1

    def set_on_low(self, callback: Callable[[], object] | None) -> None:
        """Set what is called when the reserved tokens are nearly used up. None: nothing.

        The callback replies by `ResponseStream.reserve_tokens` or `stop_reserving`.
        """
        self._on_low = callback

    def reserve(self, tokens: int, low_at: int) -> None:
        """Allow `tokens` in all. At `low_at` tokens the callback requests more, once.

        Without a reply the model pauses when it has given all of them.
        """
        self._allowed = self.pauses_at = tokens + self._uncounted
        self.check_at = low_at + self._uncounted

    def stop_reserving(self) -> None:
        """Allow no more than is reserved. With all of that the response ends with `budget`."""
        self.check_at, self.pauses_at = self._allowed, maxsize

    def check(self) -> bool:
        """React to a token count that has reached `check_at`. Returns whether the model pauses."""
        if self.pauses_at >= maxsize:
            self.full_at = 0
            self.cut_by = "length" if self._call_limit < maxsize else "budget"
            return False
        if self.check_at < self.pauses_at:
            self.check_at = self.pauses_at
            if self._on_low is not None:
                self._on_low()
        return self.tokens >= self.pauses_at

    def count_part(self, part: Part) -> None:
        """Count a part. One that the server adds is no token of the answer."""
        if part.kind in OF_TOKENS:
            self.tokens += tokens_in(part.text)
        else:
            self.tokens += 1
            self._discount(1)

    def count_to(self, counted: int) -> None:
        """Set the counted tokens, with those that filters keep back."""
        self.tokens = counted + self._uncounted

    def discount_attempt(self) -> None:
        """Stop counting the tokens of the attempt before, which are replaced."""
        self._discount(self.counted - self._kept_tokens)

    def _discount(self, tokens: int) -> None:
        """Leave counted `tokens` out of all bounds and bills."""
        self._uncounted += tokens
        self._allowed += tokens
        self.check_at += tokens
        self.pauses_at += tokens

    def replace_text(self, log_bytes: int, kept_bytes: int) -> None:
        """Leave replaced text out of the size: `kept_bytes` of the log's `log_bytes` are kept."""
        self.full_at = log_bytes + self._max_bytes - kept_bytes

    def shorten(self) -> bool:
        """Take no more tokens: the response ends as one that has reached its size limit.

        Returns:
            Whether that changes anything.
        """
        changes, self.full_at = self.full_at > 0, 0
        return changes
