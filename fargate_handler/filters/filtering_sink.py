"""The sink of the mode `hold`: it passes on only text that its filters have cleared."""

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
from evenflow.stream_core.base.errors import EvenflowError, InternalError
from evenflow.stream_core.delivery.response_stream import ResponseFull
from evenflow.stream_core.filtering.cpu_budget import CpuBudget
from evenflow.stream_core.filtering.pattern import REDACTED
from evenflow.stream_core.filtering.port import MakeFilter, StopAnswer, TextFilter
from evenflow.stream_core.log.entries import (
    CHUNK_EXTRA,
    JOINING,
    LOGPROBS,
    Content,
    NotAPart,
    Part,
    PartKind,
    is_returned,
    joined,
    size_of,
    text_of,
    with_text,
)
from evenflow.stream_core.log.returned_fields import opaque

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")
# Characters that are filtered at once. The budget is checked after each piece.
_PIECE_CHARACTERS = 1_024
# Buffered text is passed on in pieces of about a token, since each piece counts as one.
_TOKEN_CHARACTERS = 4
# An answer with more buffered bytes ends with `length`.
_MAX_HELD_BYTES = 262_144
# Buffered contents are joined each time their number has grown by this and doubled.
_JOINED_FROM = 1_024
# While buffered text is filtered: the length of a pause, as a multiple of the work before it.
_PAUSE_FACTOR = 2.0


class ContentFiltered(Exception):
    """A filter has ended the answer. What it cleared is kept."""


class FilterFailed(InternalError):
    """A filter failed, so it is unknown whether more may be shown."""


class _BufferedText:
    """A text with its filter, and the state of what is buffered of it.

    `content`, without its text, is where cleared text goes. `following` are parts that arrived
    while text was buffered, and follow it.
    """

    __slots__ = ("content", "filter", "following", "held_since")

    def __init__(self, text_filter: TextFilter, content: Content) -> None:
        self.filter = text_filter
        self.content = content
        self.held_since: float | None = None
        self.following: list[Part] = []


class FilteringSink:
    """A `TokenSink` that passes on what its filters clear. Each text has a filter of its own.

    The texts of an answer (its text, its reasoning, the arguments of a call) do not wait for each
    other. But a part that ends a text, such as a call, is not passed on before that text. Data does
    not end a text: a source is part of it, and waits only while text is buffered.

    Once the budget is spent, everything is buffered until the model ends. Then it is filtered, in
    turns with other such answers and with pauses, so that all other answers continue.

    Args:
        make: makes the filter of a text.
        current_contents: the current content of the answer, which was cleared already.
        record_held: called with the seconds for which a text was buffered.
        budget: the CPU time of the filters.
        turns: the lock for the filtering of a buffered piece, shared by the answers of this node.
    """

    def __init__(
        self,
        sink: TokenSink,
        make: MakeFilter,
        current_contents: Iterable[Content],
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
        self._texts: dict[Content, _BufferedText] = {}
        # The current texts, by the keys of their filters.
        self._current_texts = {
            filter_key(content): text_of(content) for content in joined(current_contents)
        }
        # The content that came after the budget was spent.
        self._buffer: list[Content] = []
        self._join_at = _JOINED_FROM
        # The bytes of the buffer, and of data that waits for buffered text.
        self._buffered_bytes = 0

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push(self, token: str) -> None:
        """Take a token.

        Raises:
            ContentFiltered: a filter ends the answer.
            FilterFailed: a filter failed.
            ResponseFull, LogClosed: as of the response, or the buffer is full.
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
                if self._budget.is_spent:  # it is filtered again when the model has ended
                    self._hold(remaining)
                    return

    def alive(self) -> None:
        """Record a sign of life."""
        self._sink.alive()

    async def finish(self) -> None:
        """Pass on the buffered text without matches: the model has ended. It raises as `push`."""
        if self._budget.is_spent:
            await self._filter_buffer()
        self._end(lambda key: True)

    async def close(self) -> None:
        """Do nothing: the filters have no tasks."""

    # -- text --------------------------------------------------------------------------------------

    def _take_text(self, content: Content, text: str) -> None:
        if len(text) <= _PIECE_CHARACTERS:
            self._put(content, text)
            return
        for piece in _pieces(text, _PIECE_CHARACTERS):
            if self._budget.is_spent:
                self._hold(with_text(content, piece))
            else:
                self._put(content, piece)

    def _put(self, content: Content, text: str) -> None:
        key = filter_key(content)
        state = self._texts.get(key)
        if state is None:
            text_filter = self._make_filter(self._current_texts.pop(key, ""))
            state = self._texts[key] = _BufferedText(text_filter, content)
        state.content = content
        cleared = self._run_filter(content, lambda: state.filter.push(text))
        if cleared == text and state.held_since is None:
            self._forward(content, cleared)
            return
        now = self._monotonic()
        if not cleared:
            state.held_since = state.held_since or now
            self._sink.alive()
            return
        if state.held_since is not None:
            self._record_held(now - state.held_since)
        state.held_since = None if cleared.endswith(text) else now
        if state.following and state.held_since is None:
            filtered_length = len(cleared) - len(text)
            self._forward(content, cleared[:filtered_length])
            self._forward_parts(state)
            cleared = text
        self._forward(content, cleared)

    def _end(self, is_over: Callable[[Content], bool]) -> None:
        for key in [key for key in self._texts if is_over(key)]:
            state = self._texts.pop(key)
            self._forward(state.content, self._run_filter(state.content, state.filter.finish))
            self._forward_parts(state)

    def _forward(self, content: Content, text: str) -> None:
        if not text:
            return
        if isinstance(content, str):
            self._sink.push(text)
        else:
            self._sink.push_part(content.with_text(text))

    # -- parts that are whole ----------------------------------------------------------------------

    def _part_steps(self, part: Part) -> Iterator[None]:
        """Filter a part and pass it on. Yields after each piece of its text."""
        if part.kind is not PartKind.DATA:
            self._end(lambda key: _is_over_with(key, part))
        if part.kind in (PartKind.RESULT, PartKind.DATA) and part.text:
            whole = self._make_filter("")
            cleared = list[str]()
            for piece in _pieces(part.text, _PIECE_CHARACTERS):
                cleared.append(self._run_filter(part, partial(whole.push, piece)))
                yield
            cleared.append(self._run_filter(part, whole.finish))
            part = with_filtered(part, "".join(cleared))
        # Fields that the server needs back do not wait: it may send them with each token.
        holding = None if is_returned(part) else self._holding_text(part)
        if holding is None:
            self._sink.push_part(part)
        else:
            self._count_held(part)
            holding.following.append(part)

    def _holding_text(self, part: Part) -> _BufferedText | None:
        """The buffered text that a data part follows. None: no such text is buffered."""
        if part.kind is not PartKind.DATA:
            return None
        holding = [
            state
            for key, state in self._texts.items()
            if state.held_since is not None and _is_text_of(key, part.choice)
        ]
        return holding[-1] if holding else None

    def _forward_parts(self, state: _BufferedText) -> None:
        following, state.following = state.following, []
        for part in following:
            self._sink.push_part(part)

    # -- content that came after the budget was spent ----------------------------------------------

    def _hold(self, content: Content) -> None:
        self._buffer.append(content)
        self._count_held(content)
        if len(self._buffer) >= self._join_at:
            self._buffer = list(joined(self._buffer))
            self._join_at = 2 * len(self._buffer) + _JOINED_FROM
        self._sink.alive()

    def _count_held(self, content: Content) -> None:
        self._buffered_bytes += size_of(content)
        if self._buffered_bytes > _MAX_HELD_BYTES:
            raise ResponseFull

    async def _filter_buffer(self) -> None:
        self._budget.begin_last()
        contents, self._buffer = self._buffer, []
        for content in joined(contents):
            steps, is_over = self._held_steps(content), False
            while not is_over:
                async with self._turns:
                    began = thread_time()
                    is_over = next(steps, True) is True
                    await asyncio.sleep(_PAUSE_FACTOR * (thread_time() - began))

    def _held_steps(self, content: Content) -> Iterator[None]:
        if isinstance(content, Part) and content.kind not in JOINING:
            yield from self._part_steps(content)
            return
        empty = with_text(content, "")
        if isinstance(content, str):
            self._begin_text()
        for several in _pieces(text_of(content), _PIECE_CHARACTERS):
            for piece in _pieces(several, _TOKEN_CHARACTERS):
                self._put(empty, piece)
            yield

    def _begin_text(self) -> None:
        if "" not in self._texts:
            self._end(lambda key: _is_reasoning_of(key, 0))

    # -- filters -----------------------------------------------------------------------------------

    def _make_filter(self, text_so_far: str) -> TextFilter:
        return self._run_safely(lambda: self._make(text_so_far))

    def _run_filter(self, content: Content, run: Callable[[], str]) -> str:
        try:
            return self._run_safely(run)
        except StopAnswer as stop:
            if isinstance(content, str) or content.kind in JOINING:
                self._forward(content, stop.cleared)
            self._texts.clear()  # their text is after the answer's end
            raise ContentFiltered from None

    def _run_safely(self, run: Callable[[], _T]) -> _T:
        try:
            return run()
        except (StopAnswer, EvenflowError):
            raise
        except Exception as error:
            _logger.exception("a content filter failed; its answer ends")
            raise filter_failed() from error


def filter_key(content: Content) -> Content:
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
    return None if part.kind is PartKind.DATA and part.name in (LOGPROBS, CHUNK_EXTRA) else part


def with_filtered(part: Part, text: str) -> Part:
    """A part with its filtered text. If that is no longer valid JSON, it is redacted as a whole."""
    filtered = part.with_text(text)
    try:
        filtered.check()
    except NotAPart:
        return part.with_text(f'"{REDACTED}"')
    return filtered


def filter_failed() -> FilterFailed:
    """The error that ends an answer after a failed filter."""
    return FilterFailed(
        "a content filter failed; what it had cleared was kept, ask again", code="filter_failed"
    )


def _is_reasoning_of(key: Content, choice: int) -> bool:
    return isinstance(key, Part) and key.kind is PartKind.REASONING and key.choice == choice


def _is_over_with(key: Content, part: Part) -> bool:
    """Whether a part ends a text: a call's end its arguments, any other one the texts before."""
    if isinstance(key, str):
        return part.choice == 0 and part.kind is not PartKind.CALL_END
    if key.choice != part.choice:
        return False
    if key.kind is PartKind.ARGUMENTS:
        return part.kind is PartKind.CALL_END and key.call == part.call
    return part.kind is not PartKind.CALL_END


def _is_text_of(key: Content, choice: int) -> bool:
    """Whether the key is of text, and not of a call's arguments."""
    if isinstance(key, str):
        return choice == 0
    return key.choice == choice and key.kind is not PartKind.ARGUMENTS


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[first : first + size] for first in range(0, len(text), size))
