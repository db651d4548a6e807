"""Reads the chunks of an OpenAI-style answer, over any transport."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.answer_parts import AnswerParts, cited
from evenflow.fargate_handler.token_sources.chunk_fields import (
    UnreadableChunk,
    chunks_in,
    closed,
    is_whole,
    listed,
    number_in,
    object_in,
    parsed,
    sample_of,
    usage_of,
    written_of,
)
from evenflow.fargate_handler.token_sources.error_objects import error_in
from evenflow.fargate_handler.token_sources.finish_reasons import is_failure, is_known, model_end
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelEnd, ModelFinish, TokenSink
from evenflow.fargate_handler.token_sources.server_fields import ExtraFields, message_fields
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import (
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)
from evenflow.stream_core.log.entries import NotAPart
from evenflow.stream_core.log.returned_fields import CHOICE_FIELDS, CHUNK_FIELDS, REASONING_FIELDS

_BESIDE_TEXT = (*REASONING_FIELDS, "refusal", "tool_calls", "executed_tools", "annotations")
_BESIDE_DELTA = ("index", "finish_reason", "logprobs", "usage")
_BESIDE_CHOICES = ("usage", "x_groq", "error", "event")
# Attempts to remember a chunk. The chunks of some servers always differ in more than the text.
_MOST_TRIES = 8


class SimilarChunks:
    """Reads the text of chunks with the same bytes before it and after it.

    Nearly all chunks of an answer differ in nothing but their text. To parse the same names and
    numbers again for each token would take twice as long.

    Args:
        prefix: all before the text, with its quote.
        suffix: all after the text, with its quote.
    """

    __slots__ = ("_prefix", "_suffix")

    def __init__(self, prefix: bytes, suffix: bytes) -> None:
        self._prefix = prefix
        self._suffix = suffix

    def text(self, data: bytes) -> str:
        """The text of such a chunk. Empty if the chunk must be parsed."""
        prefix, suffix = self._prefix, self._suffix
        if not (data.startswith(prefix) and data.endswith(suffix)):
            return ""
        quoted = data[len(prefix) - 1 : len(data) - len(suffix) + 1]
        if b"\n" in quoted:
            return ""  # several events in one piece: an exception would cost more
        try:
            # It begins with a quote, so what can be parsed is one string.
            text: str = orjson.loads(quoted)
        except orjson.JSONDecodeError:
            return ""
        return text

    def within(self, before: bytes, after: bytes) -> SimilarChunks:
        """The same with further bytes around each chunk."""
        return SimilarChunks(before + self._prefix, self._suffix + after)


NO_CHUNKS = SimilarChunks(b"\0", b"\0")
"""No chunk is like these: they are no JSON."""


class TextChunks:
    """Remembers one chunk of an answer that is only text, to read similar ones faster."""

    __slots__ = ("_tries", "is_useful", "similar")

    def __init__(self) -> None:
        self.similar = NO_CHUNKS
        """The chunks like the remembered one."""
        self.is_useful = False
        """Whether a chunk was like the remembered one."""
        self._tries = _MOST_TRIES

    def learn(self, data: bytes, chunk: dict[str, Any]) -> None:
        """Remember this chunk, if it is only text. `chunk` is `data`, parsed."""
        if self.is_useful:
            self.is_useful, self._tries = False, _MOST_TRIES
        text = _only_text(chunk) if self._tries else ""
        if not text:
            return
        self._tries -= 1
        quoted = orjson.dumps(text)
        prefix, _, suffix = data.partition(quoted)
        if not suffix or quoted in suffix:
            return
        # The same text may be in another field, and have escapes in its own.
        with suppress(orjson.JSONDecodeError):  # only a lenient parser reads this chunk
            if _content(orjson.loads(prefix + b'""' + suffix)) == "":
                self.similar = SimilarChunks(prefix + b'"', b'"' + suffix)


def _only_text(chunk: dict[str, Any]) -> str:
    """The text of a chunk that has no other content. Otherwise empty."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return ""
    (choice,) = choices
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or any(chunk.get(name) for name in _BESIDE_CHOICES):
        return ""
    has_more = any(choice.get(name) for name in _BESIDE_DELTA)
    has_more = has_more or delta.get("role") == "tool" or bool(message_fields(delta))
    if has_more or any(delta.get(name) for name in _BESIDE_TEXT):
        return ""
    text = delta.get("content")
    return text if isinstance(text, str) and is_whole(text) else ""


def _content(chunk: dict[str, Any]) -> object:
    return chunk["choices"][0]["delta"].get("content")


_DONE = b"[DONE]"
_CONTENT_FIELDS = frozenset(("choices", "usage", "event"))


class OpenAIAnswer:
    """Reads `chat.completion.chunk` objects, and pushes their content into `sink`.

    It accepts what OpenAI's clients accept: missing, null and oddly typed fields, a whole
    `chat.completion`, and events that are no chunks.

    Args:
        failures: the errors of the server.
        choices: the requested number. Further ones are left out.
        headers: of the answer over HTTP.
    """

    __slots__ = (
        "_cache_written_tokens",
        "_choices",
        "_ended_choices",
        "_extra",
        "_failures",
        "_headers",
        "_is_done",
        "_last_other",
        "_parts",
        "_reason",
        "_says_messages",
        "_sink",
        "_text_chunks",
        "_usage",
        "_usage_fields",
    )

    def __init__(
        self,
        sink: TokenSink,
        failures: Failures,
        *,
        choices: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._sink = sink
        self._failures = failures
        self._choices = choices
        self._headers = headers
        self._parts = AnswerParts(sink)
        self._extra = ExtraFields()
        self._usage_fields: dict[str, Any] = {}
        self._text_chunks = TextChunks()
        self._ended_choices = frozenset[int]()
        self._is_done = self._says_messages = False
        self._reason: str | None = None
        # The last event that is neither a chunk nor an error, for the log.
        self._last_other = ""
        self._usage: Usage | None = None
        self._cache_written_tokens = 0

    @property
    def similar_chunks(self) -> SimilarChunks:
        """The chunks that only add text, like one that was taken. `push_text` takes their text."""
        return self._text_chunks.similar

    @property
    def has_ended(self) -> bool:
        """Whether each choice has a finish reason, or `[DONE]` was received."""
        return self._is_done or len(self._ended_choices) >= self._choices

    def take(self, data: bytes) -> bool:
        """Take the data of one event. Returns whether more may follow.

        Raises:
            UpstreamFailed: the event can't be read, or is the server's error.
            ModelRefused: it is the server's rejection of the message.
        """
        text = self._text_chunks.similar.text(data)
        if not text:
            return self._take_other(data)
        self.push_text(text)
        return True

    def push_text(self, text: str) -> None:
        """Push the text of one of the `similar_chunks`."""
        self._text_chunks.is_useful = True
        if self._parts.unsettled:
            self._parts.text(text)
        else:
            self._sink.push(text)

    def take_last(self, data: bytes) -> None:
        """Take the last event, which the end of the body may have truncated."""
        if not data.lstrip().startswith(_DONE):
            try:
                parsed(data)
            except ValueError:
                return
        self.take(data)

    def take_beginning(self, data: bytes) -> None:
        """Take the beginning of an event that is too long. The answer ends there with `length`.

        Raises:
            UpstreamUnreadable: the beginning has nothing of the answer.
        """
        pushed_before = self._parts.pushed
        if data.startswith(b"{"):
            with suppress(UpstreamUnreadable):
                self.take(closed(data))
        if self._parts.pushed == pushed_before:
            raise self._failures.unreadable("an event that is too long", sample_of(data))
        self._reason = "length"

    def _end(self, index: int, reason: object) -> None:
        """Note a finish reason. The first choice's is the answer's, unless one of them failed."""
        if not reason:
            return
        self._ended_choices |= {index}
        if self._reason is not None and is_failure(self._reason):
            return
        if index == 0 or is_failure(str(reason)):
            self._reason = str(reason)

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the stream broke off before the model had finished, ended without an
                answer, or contains the server's error.
        """
        if self._reason is None and not self._is_done:
            self._parts.push_halves()
            if self._last_other:
                self._failures.left_out("what is no chunk", self._last_other)
            raise UpstreamFailed(
                "the model's server broke off in the middle of its answer; what came before was "
                "kept",
                code="upstream_failed",
            )
        try:
            self._parts.finish()
        except UnreadableChunk as wrong:
            raise self._failures.unreadable(wrong.what, wrong.sample) from None
        if self._parts.late_arguments:
            self._failures.left_out("more of a call that had ended", self._parts.late_arguments)
        if self._parts.left_out and not self._parts.pushed:
            raise UpstreamRejected(
                f"the model answered only with {', '.join(sorted(self._parts.left_out))}, which "
                "Evenflow can't deliver; use a model that answers with text",
                code="upstream_failed",
            )
        for part in self._extra.parts(self._usage_fields) if self._parts.pushed else ():
            self._sink.push_part(part)
        return ModelFinish(self._checked_end(), self._usage, self._cache_written_tokens)

    def _checked_end(self) -> ModelEnd:
        """The end by the finish reason, or without one by the content of the answer."""
        if self._reason is not None:
            end = model_end(self._reason)
            if not is_known(self._reason):
                self._failures.unknown_end(self._reason)
            return end
        if not self._parts.pushed:
            raise self._failures.unreadable("an end without an answer", self._last_other)
        return "tool_calls" if self._parts.has_calls else "stop"

    def _take_other(self, data: bytes) -> bool:
        """Take an event that is no plain text chunk."""
        if not data.startswith(b"{") and data.lstrip().startswith(_DONE):
            self._is_done = True
            return False
        pushed_before = self._parts.pushed
        try:
            chunks = chunks_in(data)
            for chunk in chunks:
                self._read(chunk)
        except UnreadableChunk as wrong:
            raise self._failures.unreadable(wrong.what, wrong.sample) from None
        except NotAPart as wrong:
            raise self._failures.unreadable(f"what can't be kept ({wrong})", "") from None
        except RecursionError:
            raise self._failures.unreadable("JSON that is nested too deeply", "") from None
        if len(chunks) == 1 and data.startswith(b"{"):
            self._text_chunks.learn(data, chunks[0])
        if self._parts.pushed == pushed_before:
            self._sink.alive()
        return True

    def _read(self, chunk: dict[str, Any]) -> None:
        # Servers differ in what they leave out or set to null.
        if "choices" in chunk and not CHUNK_FIELDS.issuperset(chunk):
            self._extra.add("chunk", chunk, CHUNK_FIELDS)
        self._count(chunk)
        self._count(chunk.get("x_groq"))
        is_first = not self._parts.pushed  # after deltas, a message would repeat them
        for place, entry in enumerate(listed(chunk.get("choices"), "choices")):
            choice = object_in(entry, "choices[]")
            index = number_in(choice.get("index"), place)
            if index >= self._choices:
                continue
            if not CHOICE_FIELDS.issuperset(choice):
                self._extra.add("choice", choice, CHOICE_FIELDS, index)
            self._count(choice)
            self._end(index, choice.get("finish_reason"))
            message = choice.get("message")
            if message and not choice.get("delta") and (is_first or self._says_messages):
                self._says_messages = True
                self._is_done = self._is_done or chunk.get("object") == "chat.completion"
                choice = choice | {"delta": message}
            self._parts.choice(choice, index)
        for source in cited(chunk):
            self._parts.source(source)
        self._parts.event(chunk.get("event"))
        if (error := error_in(chunk)) is not None:
            raise self._failures.in_stream(error, self._headers)
        if _CONTENT_FIELDS.isdisjoint(chunk):
            self._last_other = sample_of(chunk)

    def _count(self, holder: Any) -> None:
        """Store the usage of a chunk, of a choice, or of Groq's own field."""
        usage_fields = holder.get("usage") if holder and isinstance(holder, dict) else None
        if usage_fields and (usage := usage_of(usage_fields)) is not None:
            self._usage, self._usage_fields = usage, usage_fields
            self._cache_written_tokens = written_of(usage_fields, usage)
