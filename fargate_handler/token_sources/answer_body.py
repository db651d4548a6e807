"""Reads the body of an OpenAI-style answer, in whatever form a server sends it."""

from __future__ import annotations

from evenflow.fargate_handler.token_sources.openai_answer import NO_CHUNKS, OpenAIAnswer
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSink
from evenflow.fargate_handler.token_sources.stream_decoders import (
    EVENT_BYTES,
    EventTooLong,
    JsonDecoder,
    SseDecoder,
)
from evenflow.stream_core.base.errors import UpstreamUnreadable

# Bytes on the wire for each byte of an answer: a chunk of one token has about 300 bytes, and log
# probabilities count as text.
_WIRE_BYTES_A_BYTE = 256
# The same of one event: its text is escaped, and arguments are escaped twice.
_EVENT_BYTES_A_BYTE = 3
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"


class AnswerBody:
    """Passes the events of a body to `answer`: server-sent events, JSON lines, or one JSON object.

    Args:
        sink: is notified of heartbeats. While it is paused, decoded events are buffered.
        response_bytes: the longest text of an answer, counted as 1 MiB at least. An event may have
            3 times as much, and the body 256 times.
    """

    __slots__ = (
        "_answer",
        "_beginning",
        "_buffered_events",
        "_bytes_left",
        "_comments",
        "_decoder",
        "_event_bytes",
        "_is_over",
        "_learnt",
        "_similar_events",
        "_similar_next",
        "_sink",
        "is_within_event",
    )  # fmt: skip

    def __init__(self, answer: OpenAIAnswer, sink: TokenSink, response_bytes: int = 0) -> None:
        longest = max(response_bytes, EVENT_BYTES)
        self.is_within_event = False
        """Whether the last piece completed neither an event nor a comment."""
        self._answer = answer
        self._sink = sink
        self._bytes_left = _WIRE_BYTES_A_BYTE * longest
        self._event_bytes = _EVENT_BYTES_A_BYTE * longest
        self._decoder: SseDecoder | JsonDecoder | None = None
        self._beginning = b""
        self._comments = 0
        self._is_over = False
        self._buffered_events: list[bytes] = []
        # Events that hold nothing but one of the answer's similar chunks, and from which chunks
        # they were learnt.
        self._similar_events, self._learnt = NO_CHUNKS, NO_CHUNKS
        # The same, while no event has begun or waits.
        self._similar_next = NO_CHUNKS

    @property
    def waits(self) -> bool:
        """Whether decoded events are buffered, since the sink was paused."""
        return bool(self._buffered_events)

    def take(self, piece: bytes) -> bool:
        """Take a piece of the body. Returns whether more may follow.

        Once the sink is no longer paused, an empty piece processes the buffered events.

        Raises:
            UpstreamFailed: the body can't be read, is too large, or contains the server's error.
            ModelRefused: the body contains the server's rejection of the message.
        """
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise UpstreamUnreadable(
                "the model's server sent more than one answer may have; what came before was kept",
                code="upstream_failed",
            )
        text = self._similar_next.text(piece)
        if not text:
            return self._take_any(piece)
        # Nearly every piece is like this.
        self.is_within_event = False
        self._answer.push_text(text)
        return True

    def _take_any(self, piece: bytes) -> bool:
        self._similar_next = NO_CHUNKS
        decoder = self._decoder
        if decoder is None:
            decoder, piece = self._begin(piece)
        was_between_events = decoder.is_between_events
        try:
            events = decoder.feed(piece)
        except EventTooLong as too_long:
            self._is_over = True
            self._answer.take_beginning(too_long.beginning)
            return False
        if piece:
            self.is_within_event = not events
        if self._buffered_events:
            events, self._buffered_events = [*self._buffered_events, *events], []
        if not self._take_events(events):
            self._is_over = True
            return False
        is_between_events = decoder.is_between_events
        if decoder.comments != self._comments:
            self._comments = decoder.comments
            self.is_within_event = False
            self._sink.alive()
        elif len(events) == 1 and was_between_events and is_between_events:
            self._learn(piece, events[0])
        if is_between_events and not self._buffered_events:
            self._similar_next = self._similar_events
        return True

    def _take_events(self, events: list[bytes]) -> bool:
        for number, data in enumerate(events, 1):
            if not self._answer.take(data):
                return False
            if number < len(events) and self._sink.paused:
                self._buffered_events = events[number:]
                break
        return True

    def _learn(self, piece: bytes, data: bytes) -> None:
        """Remember a piece that is one event with `data`, if it is one of the similar chunks."""
        similar = self._answer.similar_chunks
        if similar is self._learnt or not similar.text(data):
            return
        before, separator, after = piece.partition(data)
        if separator:
            self._learnt, self._similar_events = similar, similar.within(before, after)

    def finish(self) -> ModelFinish:
        """Take the end of the body. Returns how the model ended.

        A complete event counts even if no empty line follows it.

        Raises:
            UpstreamFailed: the body broke off before the model had finished.
        """
        if self._decoder is not None and not self._is_over and (last_event := self._decoder.rest()):
            self._answer.take_last(last_event)
        return self._answer.finish()

    def _begin(self, piece: bytes) -> tuple[SseDecoder | JsonDecoder, bytes]:
        """Choose a decoder by the body's beginning. Returns it, and the bytes to decode first."""
        self._beginning += piece
        start = self._beginning.lstrip(_BEFORE_JSON)
        if not start:
            return SseDecoder(), b""
        whole, self._beginning = self._beginning, b""
        if start.startswith((b"{", b"[")):
            self._decoder = JsonDecoder(self._event_bytes)
            return self._decoder, start
        self._decoder = SseDecoder(self._event_bytes, marks_errors=True)
        return self._decoder, whole
