"""The sink of `retract`: text is shown at once, and taken back where a filter would change it."""

from __future__ import annotations

from collections.abc import Iterable

from evenflow.fargate_handler.filters.filtering_sink import (
    ContentFiltered,
    filter_key,
    unspelled,
)
from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Content, Part, joined, text_of


class CheckedSink:
    """Compares the cleared text with the shown text. A `TokenSink` after the filters."""

    def __init__(self, stream: ResponseStream, reader_sink: TokenSink) -> None:
        self._stream = stream
        self._reader_sink = reader_sink
        self._cleared: list[Content] = []
        # The text that is shown and not cleared yet, by the key of its filter.
        self._ahead: dict[Content, str] = {}
        self.holds = False
        """Whether text was retracted. From then on only cleared text is shown."""

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._reader_sink.paused

    def push(self, token: str) -> None:
        """Take cleared text."""
        self._take(token)

    def push_part(self, part: Part) -> None:
        """Take a cleared part."""
        self._take(part)

    def alive(self) -> None:
        """Record a sign of life."""
        self._reader_sink.alive()

    def show(self, content: Content) -> None:
        """Show content that isn't cleared yet."""
        self.expect(content)
        _push(self._reader_sink, content)

    def expect(self, content: Content) -> None:
        """Record content that is shown."""
        key = filter_key(content)
        self._ahead[key] = self._ahead.get(key, "") + text_of(content)

    def check_all(self) -> None:
        """Retract all text that is not cleared, since nothing more will be."""
        if any(self._ahead.values()):
            self.withdraw()

    def withdraw(self) -> None:
        """Retract everything, and show its cleared part.

        Everything, since readers have frames that join several entries, and can't split them.
        """
        if self.holds:
            return
        self.holds = True
        self._ahead.clear()
        self._stream.restart()
        for content in joined(self._cleared):
            _push(self._reader_sink, content)
        self._cleared.clear()

    def _take(self, content: Content) -> None:
        if self.holds:
            _push(self._reader_sink, content)
            return
        self._cleared.append(content)
        key, text = filter_key(content), text_of(content)
        ahead = self._ahead.get(key)
        if ahead is None or not ahead.startswith(text):
            self.withdraw()
        elif len(ahead) > len(text):
            self._ahead[key] = ahead[len(text) :]
        else:
            del self._ahead[key]


class RetractingSink:
    """A `TokenSink` that shows content at once, and retracts it if a filter rejects it.

    Args:
        checked: the sink that the filters pass cleared text to.
        filters: the filters.
        current_contents: the current content of the answer, which may not be cleared.
    """

    def __init__(
        self,
        checked: CheckedSink,
        filters: TokenSink,
        current_contents: Iterable[Content],
    ) -> None:
        self._checked = checked
        self._filters = filters
        for content in joined(current_contents):
            checked.expect(content)
            self._check(content)

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._filters.paused

    def push(self, token: str) -> None:
        """Take a token. It raises as `FilteringSink.push` does."""
        self._take(token)

    def push_part(self, part: Part) -> None:
        """Take a part. It raises as `FilteringSink.push_part` does."""
        remaining = unspelled(part)
        if remaining is not None:
            self._take(remaining)

    def alive(self) -> None:
        """Record a sign of life."""
        self._filters.alive()

    def _take(self, content: Content) -> None:
        if not self._checked.holds:
            self._checked.show(content)
        self._check(content)

    def _check(self, content: Content) -> None:
        try:
            _push(self._filters, content)
        except ContentFiltered:
            self._checked.withdraw()
            raise


def _push(sink: TokenSink, content: Content) -> None:
    if isinstance(content, str):
        sink.push(content)
    else:
        sink.push_part(content)
