"""The batch: tokens or parts of one response that wait for the end of their interval."""

from __future__ import annotations

from evenflow.stream_core.delivery.token_allowance import LONGEST_PIECE
from evenflow.stream_core.log.entries import Part, differ_only_in_text
from evenflow.stream_core.log.response_log import ResponseLog

# Characters. Longer pieces are cut: a delta must fit into a frame and an item of any store.
_LONGEST_DELTA = 4_096
_NO_PARTS: tuple[Part, ...] = ()


class Batch:
    """Joins what waits into one entry of the log: either text, or parts of one place.

    A piece that is too long for a batch becomes entries of its own.

    Args:
        max_tokens: the most tokens or parts in an entry.
    """

    __slots__ = ("_log", "_longest", "_max_tokens", "_parts", "_tokens", "longest_text")

    def __init__(self, log: ResponseLog, max_tokens: int) -> None:
        self._log = log
        self._max_tokens = max_tokens
        self._tokens: list[str] = []
        self._parts = _NO_PARTS
        # A batch of pieces of this length is one delta.
        self._longest = max(1, min(LONGEST_PIECE, _LONGEST_DELTA // max_tokens))
        self.longest_text = self._longest
        """Characters of the longest text that fits into the batch now. 0 while it holds parts."""

    @property
    def holds_parts(self) -> bool:
        """Whether what waits are parts, not text."""
        return bool(self._parts)

    def add(self, token: str) -> bool:
        """Add a token. Returns whether the batch is full and must be cut now."""
        self._tokens.append(token)
        return len(self._tokens) >= self._max_tokens

    def fits(self, text: str) -> bool:
        """Whether a text is short enough for a batch."""
        return len(text) <= self._longest

    def add_part(self, part: Part) -> None:
        """Add a part. The batch is cut before it where they don't join, and when it is full."""
        if not (self._parts and differ_only_in_text(self._parts[0], part)):
            self.cut()
        self._parts = (*self._parts, part)
        self.longest_text = 0
        if len(self._parts) >= self._max_tokens:
            self.cut()

    def cut_text(self) -> str:
        """Empty a batch of text. Returns the text, which is empty when none waits."""
        tokens = self._tokens
        text = tokens[0] if len(tokens) == 1 else "".join(tokens)
        tokens.clear()
        return text

    def cut(self) -> None:
        """Append what waits to the log."""
        if parts := self._parts:
            self._parts, self.longest_text = _NO_PARTS, self._longest
            whole = "".join(part.text for part in parts)
            self._log.append_part(parts[0] if len(parts) == 1 else parts[0].with_text(whole))
        elif text := self.cut_text():
            self._log.append(text)

    def drop(self) -> None:
        """Forget what waits."""
        self._tokens.clear()
        self._parts, self.longest_text = _NO_PARTS, self._longest

    def append_long(self, text: str, part: Part | None, full_at: int) -> bool:
        """Append a long text as entries of its own, behind what waits.

        Args:
            part: the part that the text belongs to. None: it is text of the answer.
            full_at: bytes of the log at which nothing more is appended.

        Returns:
            Whether something was left out, since the log was full.
        """
        self.cut()
        log = self._log
        for first in range(0, len(text), _LONGEST_DELTA):
            if log.text_bytes >= full_at:
                return True
            piece = text[first : first + _LONGEST_DELTA]
            if part is None:
                log.append(piece)
            else:
                log.append_part(part.with_text(piece))
        return False


ENDED_BATCH = Batch(ResponseLog(), 1)
"""The batch of all responses that have ended. It stays empty."""
