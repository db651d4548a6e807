"""The demo model as a token source. It uses the delivery clock, so 10,000 of it wake no tasks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from zlib import crc32

from evenflow.fargate_handler.token_sources.demo.beside import source, with_parts
from evenflow.fargate_handler.token_sources.demo.calls import called_tools, calling
from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.script import (
    Script,
    answer_script,
    directed_script,
    is_directive,
)
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.delivery.delivery_clock import SLOT_MS, DeliveryClock

_HELD_SLOTS = 5


class DemoModel:
    """A `TokenSource` that answers from the docs.

    Args:
        passages: the docs.
        clock: for its timers.
        seed: the same seed and question have the same timing.
    """

    def __init__(self, passages: Passages, clock: DeliveryClock, seed: int) -> None:
        self._passages = passages
        self._clock = clock
        self._seed = seed

    @property
    def continues(self) -> bool:
        """True: the same question always has the same answer."""
        return True

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        script = self._script(request)
        called = called_tools(script.asked.calls, request.options)
        bounded = script.bounded(request.options.longest, request.options.stop)
        # An answer that was cut has no calls.
        script = calling(script, called, len(request.turns)) if bounded is script else bounded
        if request.prefix:
            script = script.behind(request.prefix)
        playback = _Playback(script, sink, self._clock, asyncio.get_running_loop().create_future())
        try:
            await playback.ended
        finally:
            playback.stop()
        prompt = sum(len(turn.text.split()) for turn in request.turns)
        return ModelFinish(
            script.reason, Usage(prompt_tokens=prompt, completion_tokens=len(script.contents))
        )

    def _script(self, request: ModelRequest) -> Script:
        question = request.turns[-1].text
        if is_directive(question):
            return with_parts(directed_script(question, request.attempt))
        answer = self._passages.answer(question)
        script = answer_script(answer.text, Random(self._seed ^ crc32(question.encode())))
        return replace(script, follows=[source(answer.source)]) if answer.source else script

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


class _Playback:
    """Plays one script by the clock."""

    __slots__ = (
        "_at",
        "_clock",
        "_contents",
        "_gaps",
        "_left",
        "_script",
        "_sink",
        "_stopped",
        "ended",
    )

    def __init__(
        self, script: Script, sink: TokenSink, clock: DeliveryClock, ended: asyncio.Future[None]
    ) -> None:
        self._script = script
        contents = script.contents[: script.stops_after]
        self._contents = iter(contents)
        self._left = len(contents)
        self._stopped = False
        self._gaps = script.gaps_ms
        self._sink = sink
        self._clock = clock
        self.ended = ended
        # In slots and fractions of them, so that gaps are right on average.
        self._at = clock.position + script.first_token_ms / SLOT_MS
        clock.put(self, int(self._at))

    def stop(self) -> None:
        """Push no more tokens."""
        self._stopped = True

    def on_due(self, slot: int) -> None:
        """Push the contents that are due."""
        sink = self._sink
        if self._stopped:
            return
        try:
            while self._at < slot + 1:
                # Any token may be the one with which it pauses.
                if sink.paused:
                    self._at = slot + _HELD_SLOTS
                    break
                left = self._left
                if left:
                    content = next(self._contents)
                    if isinstance(content, str):
                        sink.push(content)
                    else:
                        sink.push_part(content)
                    self._left = left = left - 1
                # After the last token there is nothing to wait for.
                if not left:
                    self._end()
                    return
                self._at += next(self._gaps) / SLOT_MS
        except Exception as error:  # whatever the sink raises ends this model, not the clock
            self._stopped = True
            if not self.ended.done():
                self.ended.set_exception(error)
            return
        self._clock.put(self, int(self._at))

    def _end(self) -> None:
        if self._script.failure is not None:
            self.ended.set_exception(self._script.failure)
        elif not self._script.hangs:
            self.ended.set_result(None)
