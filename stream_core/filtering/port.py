"""The port of content filters: text goes in as it comes, and comes out when it is cleared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol


class FilterChain:
    """A `TextFilter` of several: each filter gets the text that the one before it has cleared."""

    __slots__ = ("_filters",)

    def __init__(self, filters: Sequence[TextFilter]) -> None:
        self._filters = filters

    def push(self, text: str) -> str:
        """See `TextFilter.push`."""
        return self._pass_on(text, 0)

    def finish(self) -> str:
        """See `TextFilter.finish`."""
        text = ""
        for place, text_filter in enumerate(self._filters):
            try:
                text = (text_filter.push(text) if text else "") + text_filter.finish()
            except StopAnswer as stop:
                raise StopAnswer(self._pass_on(stop.cleared, place + 1)) from None
        return text

    def _pass_on(self, text: str, first: int) -> str:
        for place, text_filter in enumerate(self._filters[first:], first):
            if not text:
                break
            try:
                text = text_filter.push(text)
            except StopAnswer as stop:
                raise StopAnswer(self._pass_on(stop.cleared, place + 1)) from None
        return text


class Filtering(StrEnum):
    """The treatment of answers that the filters would change."""

    OFF = "off"
    HOLD = "hold"
    """Text is kept back until it is cleared."""
    RETRACT = "retract"
    """Text is shown at once, and taken back where the filters would have changed it."""


class FilterAction(StrEnum):
    """The effect of a match."""

    REDACT = "redact"
    """It is replaced, and the answer goes on."""
    STOP = "stop"
    """The answer ends before it, with the finish reason `content_filter`."""


class StopAnswer(Exception):
    """A filter ends the answer.

    Args:
        cleared: text that may still be shown.
    """

    def __init__(self, cleared: str = "") -> None:
        super().__init__(cleared)
        self.cleared = cleared


class TextFilter(Protocol):
    """Filters one text of one answer: its text, its reasoning, or a call's arguments.

    The result must not depend on how the text is cut. An exception ends the answer with an error.
    """

    def push(self, text: str) -> str:
        """Take more text. Returns the cleared text, with replacements.

        Raises:
            StopAnswer: the answer ends here.
        """

    def finish(self) -> str:
        """End the text. Returns the rest, as `push` does."""


MakeFilter = Callable[[str], TextFilter]
"""Makes a filter for a text. Its argument is the text so far, which is already sent."""
