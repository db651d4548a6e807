"""The sink of `hold`: what its filters haven't cleared doesn't get behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import orjson

from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.stream_core.filtering.pattern import REDACTED
from evenflow.stream_core.filtering.port import MakeFilter, StopAnswer, TextFilter
from evenflow.stream_core.log.entries import (
    CHUNK_EXTRA,
    JOINING,
    LOGPROBS,
    Content,
    Kind,
    NotAPart,
    Part,
    is_returned,
    joined,
    text_of,
    with_text,
)
from evenflow.stream_core.log.returned_fields import opaque
from evenflow.stream_core.protocol.errors import EvenflowError, InternalError

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")


class ContentFiltered(Exception):
    """A filter has ended the answer. What it cleared stands."""


class FilterFailed(InternalError):
    """A filter failed, so nobody knows whether more may be shown."""


class _Place:
    """A filter, the time since which it holds text back, and the place of the text it clears."""

    __slots__ = ("filter", "held_since", "stands")

    def __init__(self, of_place: TextFilter, stands: Content) -> None:
        self.filter = of_place
        self.stands = stands
        self.held_since: float | None = None


class FilteringSink:
    """A `TokenSink` that passes on what its filters clear. Each place has a filter of its own.

    Places wait for themselves alone. But what follows a text for good, a call for example, is not
    passed on before it: the text has ended then.

    Args:
        make: makes the filter of a place.
        standing: what stands of the answer. It was cleared already.
        record_held: called with each time that text was held back, in seconds.
    """

    def __init__(
        self,
        sink: TokenSink,
        make: MakeFilter,
        standing: Iterable[Content],
        monotonic: Callable[[], float],
        record_held: Callable[[float], None],
    ) -> None:
        self._sink = sink
        self._make = make
        self._monotonic = monotonic
        self._record_held = record_held
        self._places: dict[Content, _Place] = {}
        # The text that stands at the end of each place.
        self._before = {place_of(content): text_of(content) for content in joined(standing)}

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push(self, token: str) -> None:
        """Take a token.

        Raises:
            ContentFiltered: a filter ends the answer.
            FilterFailed: a filter failed.
            ResponseFull, LogClosed: as of the response.
        """
        if "" not in self._places:
            self._end(lambda place: _is_reasoning_of(place, 0))
        self._put("", token)

    def push_part(self, part: Part) -> None:
        """Take a part. It raises as `push` does, and as the response does."""
        remaining = unspelled(part)
        if remaining is None:
            return
        if is_returned(remaining):  # it ends no text: a server may send it with each token
            self._sink.push_part(self._filtered(remaining))
            return
        if part.kind in JOINING:
            self._put(part.with_text(""), part.text)
            return
        self._end(lambda place: _is_over_with(place, part))
        if part.kind in (Kind.RESULT, Kind.DATA) and part.text:
            part = self._filtered(part)
        self._sink.push_part(part)

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    async def finish(self) -> None:
        """The model has ended by itself: pass on all that is no match. It raises as `push`."""
        self._end(lambda place: True)

    async def close(self) -> None:
        """Nothing runs on."""

    def _put(self, stands: Content, text: str) -> None:
        place = place_of(stands)
        known = self._places.get(place)
        if known is None:
            of_place = self._new_filter(self._before.pop(place, ""))
            known = self._places[place] = _Place(of_place, stands)
        known.stands = stands
        cleared = self._ask(stands, lambda: known.filter.push(text))
        if cleared == text and known.held_since is None:
            self._pass(stands, cleared)
            return
        now = self._monotonic()
        if not cleared:
            known.held_since = known.held_since or now
            self._sink.alive()
            return
        if known.held_since is not None:
            self._record_held(now - known.held_since)
        known.held_since = None if cleared.endswith(text) else now
        self._pass(stands, cleared)

    def _end(self, is_over: Callable[[Content], bool]) -> None:
        for place in [place for place in self._places if is_over(place)]:
            known = self._places.pop(place)
            self._pass(known.stands, self._ask(known.stands, known.filter.finish))

    def _filtered(self, part: Part) -> Part:
        """A part whose text is whole, filtered."""
        whole = self._new_filter("")
        told = part.with_text(
            self._ask(part, lambda: whole.push(part.text)) + self._ask(part, whole.finish)
        )
        try:
            told.check()
        except NotAPart:  # a match across the marks of JSON
            return part.with_text(f'"{REDACTED}"')
        return told

    def _pass(self, place: Content, text: str) -> None:
        if not text:
            return
        if isinstance(place, str):
            self._sink.push(text)
        else:
            self._sink.push_part(place.with_text(text))

    def _new_filter(self, before: str) -> TextFilter:
        return self._asked(lambda: self._make(before))

    def _ask(self, place: Content, ask: Callable[[], str]) -> str:
        try:
            return self._asked(ask)
        except StopAnswer as stop:
            if isinstance(place, str) or place.kind in JOINING:
                self._pass(place, stop.cleared)
            self._places.clear()  # what they hold is behind the answer's end
            raise ContentFiltered from None

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except (StopAnswer, EvenflowError):
            raise
        except Exception as error:
            _logger.exception("a content filter failed; its answer ends")
            raise filter_failed() from error


def place_of(content: Content) -> Content:
    """The key of a content's filter. All of a reasoning shares one, also if its detail changes."""
    if isinstance(content, Part) and content.kind in JOINING:
        return replace(content, text="", id="")
    return with_text(content, "")


def unspelled(part: Part) -> Part | None:
    """Remove the copies of text from a part, since a filter finds no match in their pieces.

    Of fields that the server needs back, only signatures and the like are kept. None: nothing is
    left.
    """
    if is_returned(part):
        fields = opaque(orjson.loads(part.text))
        return part.with_text(orjson.dumps(fields).decode()) if fields else None
    return None if part.kind is Kind.DATA and part.name in (LOGPROBS, CHUNK_EXTRA) else part


def filter_failed() -> FilterFailed:
    """The error that ends an answer whose filter failed."""
    return FilterFailed(
        "a content filter failed; what it had cleared was kept, ask again", code="filter_failed"
    )


def _is_reasoning_of(place: Content, choice: int) -> bool:
    return isinstance(place, Part) and place.kind is Kind.REASONING and place.choice == choice


def _is_over_with(place: Content, part: Part) -> bool:
    """Whether a part ends a place: a call's end its arguments, any other one the texts before."""
    if isinstance(place, str):
        return part.choice == 0 and part.kind is not Kind.CALL_END
    if place.choice != part.choice:
        return False
    if place.kind is Kind.ARGUMENTS:
        return part.kind is Kind.CALL_END and place.call == part.call
    return part.kind is not Kind.CALL_END
