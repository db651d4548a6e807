"""The sink of `hold`: what its filters haven't cleared doesn't get behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import TypeVar

import orjson

from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.stream_core.filtering.cpu_budget import CpuBudget
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
    size_of,
    text_of,
    with_text,
)
from evenflow.stream_core.log.response_stream import ResponseFull
from evenflow.stream_core.log.returned_fields import opaque
from evenflow.stream_core.protocol.errors import EvenflowError, InternalError

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")
# Characters that are filtered at once: between them the budget is looked at.
_PIECE = 1_024
# Characters. Held text goes on in pieces of about a token, since pieces are counted as such.
_TOKEN = 4
# Bytes. An answer of which more is held ends with `length`.
_MOST_HELD = 262_144
_JOINED_FROM = 1_024
# While held text is filtered: the length of a pause, in times of the work before it.
_PAUSES = 2.0


class ContentFiltered(Exception):
    """A filter has ended the answer. What it cleared stands."""


class FilterFailed(InternalError):
    """A filter failed, so nobody knows whether more may be shown."""


class _Place:
    """A filter, the time since which it holds text back, and the place of the text it clears.

    `behind` are parts that came while it held text, and follow that.
    """

    __slots__ = ("behind", "filter", "held_since", "stands")

    def __init__(self, of_place: TextFilter, stands: Content) -> None:
        self.filter = of_place
        self.stands = stands
        self.held_since: float | None = None
        self.behind: list[Part] = []


class FilteringSink:
    """A `TokenSink` that passes on what its filters clear. Each place has a filter of its own.

    Places wait for themselves alone. But what follows a text for good, a call for example, is not
    passed on before it: the text has ended then. Data ends no text: a source stands in the middle
    of it, and waits only for what is held.

    Once the budget is spent, all that comes is held until the model ends. It is filtered then, in
    turns with other such answers and with pauses, so that all others go on.

    Args:
        make: makes the filter of a place.
        standing: what stands of the answer. It was cleared already.
        record_held: called with each time that text was held back, in seconds.
        budget: the CPU time of the filters.
        turns: of the answers of this node that filter what they held. Each piece is one.
    """

    def __init__(
        self,
        sink: TokenSink,
        make: MakeFilter,
        standing: Iterable[Content],
        monotonic: Callable[[], float],
        record_held: Callable[[float], None],
        budget: CpuBudget,
        turns: asyncio.Lock,
    ) -> None:
        self._sink = sink
        self._make = make
        self._monotonic = monotonic
        self._record_held = record_held
        self._budget = budget
        self._turns = turns
        self._places: dict[Content, _Place] = {}
        # The text that stands at the end of each place.
        self._before = {place_of(content): text_of(content) for content in joined(standing)}
        # What has come since the budget was spent.
        self._late: list[Content] = []
        self._join_at = _JOINED_FROM
        # Bytes that came so, and of data that waited behind held text.
        self._held_bytes = 0

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push(self, token: str) -> None:
        """Take a token.

        Raises:
            ContentFiltered: a filter ends the answer.
            FilterFailed: a filter failed.
            ResponseFull, LogClosed: as of the response. Or too much is held.
        """
        if self._budget.is_spent:
            self._hold(token)
        else:
            self._begin_text()
            self._take_text("", token)

    def push_part(self, part: Part) -> None:
        """Take a part. It raises as `push` does, and as the response does."""
        remaining = unspelled(part)
        if remaining is None:
            return
        if self._budget.is_spent:
            self._hold(remaining)
        elif remaining.kind in JOINING:
            self._take_text(remaining.with_text(""), remaining.text)
        else:
            for _ in self._part_steps(remaining):
                if self._budget.is_spent:  # it is filtered anew when the model has ended
                    self._hold(remaining)
                    return

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    async def finish(self) -> None:
        """The model has ended by itself: pass on all that is no match. It raises as `push`."""
        if self._budget.is_spent:
            await self._take_late()
        self._end(lambda place: True)

    async def close(self) -> None:
        """Nothing runs on."""

    # -- text --------------------------------------------------------------------------------------

    def _take_text(self, stands: Content, text: str) -> None:
        if len(text) <= _PIECE:
            self._put(stands, text)
            return
        for piece in _pieces(text, _PIECE):
            if self._budget.is_spent:
                self._hold(with_text(stands, piece))
            else:
                self._put(stands, piece)

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
        if known.behind and known.held_since is None:
            before = len(cleared) - len(text)
            self._pass(stands, cleared[:before])
            self._pass_parts(known)
            cleared = text
        self._pass(stands, cleared)

    def _end(self, is_over: Callable[[Content], bool]) -> None:
        for place in [place for place in self._places if is_over(place)]:
            known = self._places.pop(place)
            self._pass(known.stands, self._ask(known.stands, known.filter.finish))
            self._pass_parts(known)

    def _pass(self, place: Content, text: str) -> None:
        if not text:
            return
        if isinstance(place, str):
            self._sink.push(text)
        else:
            self._sink.push_part(place.with_text(text))

    # -- parts that are whole ----------------------------------------------------------------------

    def _part_steps(self, part: Part) -> Iterator[None]:
        """Filter a part and pass it on. It yields behind each piece of its text."""
        if part.kind is not Kind.DATA:
            self._end(lambda place: _is_over_with(place, part))
        if part.kind in (Kind.RESULT, Kind.DATA) and part.text:
            whole = self._new_filter("")
            cleared = list[str]()
            for piece in _pieces(part.text, _PIECE):
                cleared.append(self._ask(part, partial(whole.push, piece)))
                yield
            cleared.append(self._ask(part, whole.finish))
            part = with_filtered(part, "".join(cleared))
        # Fields that the server needs back wait for nothing: it may send them with each token.
        holds = None if is_returned(part) else self._place_that_holds(part)
        if holds is None:
            self._sink.push_part(part)
        else:
            self._count_held(part)
            holds.behind.append(part)

    def _place_that_holds(self, part: Part) -> _Place | None:
        """The text that holds something that data came behind."""
        if part.kind is not Kind.DATA:
            return None
        holding = [
            known
            for place, known in self._places.items()
            if known.held_since is not None and _is_text_of(place, part.choice)
        ]
        return holding[-1] if holding else None

    def _pass_parts(self, known: _Place) -> None:
        behind, known.behind = known.behind, []
        for part in behind:
            self._sink.push_part(part)

    # -- what has come since the budget was spent --------------------------------------------------

    def _hold(self, content: Content) -> None:
        self._late.append(content)
        self._count_held(content)
        if len(self._late) >= self._join_at:
            self._late = list(joined(self._late))
            self._join_at = 2 * len(self._late) + _JOINED_FROM
        self._sink.alive()

    def _count_held(self, content: Content) -> None:
        self._held_bytes += size_of(content)
        if self._held_bytes > _MOST_HELD:
            raise ResponseFull

    async def _take_late(self) -> None:
        self._budget.begin_last()
        late, self._late = self._late, []
        for content in joined(late):
            steps, is_over = self._late_steps(content), False
            while not is_over:
                async with self._turns:
                    began = thread_time()
                    is_over = next(steps, True) is True
                    await asyncio.sleep(_PAUSES * (thread_time() - began))

    def _late_steps(self, content: Content) -> Iterator[None]:
        if isinstance(content, Part) and content.kind not in JOINING:
            yield from self._part_steps(content)
            return
        stands = with_text(content, "")
        if isinstance(content, str):
            self._begin_text()
        for several in _pieces(text_of(content), _PIECE):
            for piece in _pieces(several, _TOKEN):
                self._put(stands, piece)
            yield

    def _begin_text(self) -> None:
        if "" not in self._places:
            self._end(lambda place: _is_reasoning_of(place, 0))

    # -- filters -----------------------------------------------------------------------------------

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


def with_filtered(part: Part, text: str) -> Part:
    """A part with its text filtered. It is one text, if a match went across the marks of JSON."""
    told = part.with_text(text)
    try:
        told.check()
    except NotAPart:
        return part.with_text(f'"{REDACTED}"')
    return told


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


def _is_text_of(place: Content, choice: int) -> bool:
    """Whether a place is text, and not a call's arguments."""
    if isinstance(place, str):
        return choice == 0
    return place.choice == choice and place.kind is not Kind.ARGUMENTS


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[first : first + size] for first in range(0, len(text), size))
