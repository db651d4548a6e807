"""Checks a model's text by a guardrail, window by window, while it streams."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from evenflow.fargate_handler.filters.filtering_sink import (
    ContentFiltered,
    filter_failed,
    with_filtered,
)
from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.filtering.port import FilterAction
from evenflow.stream_core.filtering.windows import LONGEST_WINDOW, overlap_of, window_of
from evenflow.stream_core.log.entries import (
    JOINING,
    Content,
    Part,
    PartKind,
    is_returned,
    joins,
    text_of,
    with_text,
)

_logger = logging.getLogger(__name__)
_MOST_WAITING = 16 * LONGEST_WINDOW


@dataclass(frozen=True, slots=True)
class GuardrailVerdict:
    """A guardrail's result for a text.

    Args:
        text: the text to show in its place.
        blocks: whether the answer should end there.
    """

    text: str
    blocks: bool = False


class Judge(Protocol):
    """Judges texts."""

    async def judge(self, text: str) -> GuardrailVerdict:
        """Judge a text of the model's.

        Raises:
            EvenflowError: it can't be judged.
            TimeoutError: that took too long.
        """

    async def close(self) -> None:
        """Close the connections."""


class GuardedSink:
    """A `TokenSink` that passes on what a guardrail has judged. One call runs at a time.

    Args:
        on_match: called when the guardrail intervenes.
    """

    def __init__(
        self,
        sink: TokenSink,
        judge: Judge,
        action: FilterAction,
        on_match: Callable[[], None],
    ) -> None:
        self._sink = sink
        self._judge = judge
        self._action = action
        self._on_match = on_match
        self._queued_contents: deque[Content] = deque()
        self._characters = 0
        # The end of the last window, which is judged again, and the data parts that follow it.
        self._overlap: Content | None = None
        self._following: list[Part] = []
        self._last = False
        self._news = asyncio.Event()
        self._failure: Exception | None = None
        self._worker: asyncio.Task[None] | None = None

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model: verdicts are far behind, for example."""
        return self._characters > _MOST_WAITING or self._sink.paused

    def push(self, token: str) -> None:
        """Take a token.

        Raises:
            ContentFiltered: the guardrail has ended the answer.
            FilterFailed: the guardrail could not be called.
            ResponseFull, LogClosed: as of the response.
        """
        self._take(token)

    def push_part(self, part: Part) -> None:
        """Take a part. It raises as `push` does."""
        self._take(part)

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    async def finish(self) -> None:
        """Wait for the last verdict. It raises as `push` does."""
        self._last = True
        self._news.set()
        if self._worker is not None:
            await self._worker
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Stop. Content without a verdict is dropped."""
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker

    def _take(self, content: Content) -> None:
        if self._failure is not None:
            raise self._failure
        if self._queued_contents and joins(self._queued_contents[-1], content):
            previous_content = self._queued_contents.pop()
            self._queued_contents.append(
                with_text(previous_content, text_of(previous_content) + text_of(content))
            )
        else:
            self._queued_contents.append(content)
        self._characters += len(text_of(content))
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while (window := await self._next_window()) is not None:
                if isinstance(window, Part) and window.kind not in JOINING:
                    await self._forward_part(window)
                else:
                    await self._forward_text(window)
            self._forward_overlap()
        except asyncio.CancelledError:
            raise
        except Exception as failure:
            self._failure = failure

    async def _next_window(self) -> Content | None:
        """The next window of text, or a part without one. None at the end."""
        while True:
            if self._queued_contents:
                first = self._queued_contents[0]
                text = text_of(first)
                is_complete = self._last or len(self._queued_contents) > 1
                is_text = isinstance(first, str) or first.kind in JOINING
                size = window_of(text, last=is_complete) if is_text else len(text)
                if size or not text:
                    return self._cut(first, text, size)
            elif self._last:
                return None
            self._news.clear()
            await self._news.wait()

    def _cut(self, first: Content, text: str, size: int) -> Content:
        self._characters -= size
        if size == len(text):
            self._queued_contents.popleft()
        else:
            self._queued_contents[0] = with_text(first, text[size:])
        return with_text(first, text[:size])

    async def _forward_text(self, window: Content) -> None:
        """Pass on judged text, except its end, which is judged again with the next window."""
        if self._overlap is not None and not joins(self._overlap, window):
            self._forward_overlap()
        overlap_text = "" if self._overlap is None else text_of(self._overlap)
        text = overlap_text + text_of(window)
        cleared, ends_answer = await self._judge_text(text)
        overlap = 0 if ends_answer else overlap_of(text, cleared)
        place = len(overlap_text) if cleared.startswith(overlap_text) else len(cleared) - overlap
        self._overlap = with_text(window, cleared[:place])
        self._forward_overlap()
        end = max(place, len(cleared) - overlap)
        if end > place:
            _push(self._sink, with_text(window, cleared[place:end]))
        if ends_answer:
            raise ContentFiltered
        if end < len(cleared):
            self._overlap = with_text(window, cleared[end:])

    async def _forward_part(self, part: Part) -> None:
        """Judge and pass on a part that is no delta. Data waits for the text before it."""
        if part.kind is not PartKind.DATA:
            self._forward_overlap()
        if part.kind in (PartKind.RESULT, PartKind.DATA) and not is_returned(part):
            part = with_filtered(part, await self._judge_whole(part.text))
        if self._overlap is None:
            self._sink.push_part(part)
        else:
            self._following.append(part)

    def _forward_overlap(self) -> None:
        overlap, following = self._overlap, self._following
        self._overlap, self._following = None, []
        if overlap is not None and text_of(overlap):
            _push(self._sink, overlap)
        for part in following:
            self._sink.push_part(part)

    async def _judge_whole(self, text: str) -> str:
        """The text that replaces a part's text. It is judged in windows, too."""
        judged, overlap = "", ""
        while text:
            size = window_of(text, last=True)
            window, text = overlap + text[:size], text[size:]
            cleared, ends_answer = await self._judge_text(window)
            if ends_answer:
                self._forward_overlap()
                raise ContentFiltered
            end = len(cleared) - (overlap_of(window, cleared) if text else 0)
            judged, overlap = judged + cleared[:end], cleared[end:]
        return judged + overlap

    async def _judge_text(self, text: str) -> tuple[str, bool]:
        """The text that replaces a text, and whether the answer ends after it."""
        try:
            verdict = await self._judge.judge(text)
        except (EvenflowError, TimeoutError) as error:
            _logger.error("the guardrail could not be called: %s", error)
            raise filter_failed() from None
        if verdict.text == text and not verdict.blocks:
            return text, False
        self._on_match()
        if self._action is FilterAction.STOP:
            return "", True
        return verdict.text, verdict.blocks


def _push(sink: TokenSink, content: Content) -> None:
    if isinstance(content, str):
        sink.push(content)
    else:
        sink.push_part(content)
