"""Pushes what a model's server gives as text and parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, get_args

import orjson

from evenflow.fargate_handler.token_sources.counted_calls import CountedCalls
from evenflow.fargate_handler.token_sources.port import ModelEnd, TokenSink
from evenflow.fargate_handler.token_sources.server_fields import ServerFields, call_fields
from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    EXTRA,
    JOINING,
    LOGPROBS,
    LONGEST_NAME,
    LONGEST_VALUE,
    Kind,
    Part,
)
from evenflow.stream_core.log.returned_fields import Fields

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The names under which servers send reasoning. Some send it under both."""
_ENDS = get_args(ModelEnd)
_SOURCE_FIELDS = ("url", "title", "start_index", "end_index")
_OWN_DATA = frozenset({"source", "finish", LOGPROBS, EXTRA, CALL_EXTRA})
_CUT = "… (cut: this result has {} characters)"


class AnswerParts:
    """Pushes the pieces from a model's server, and fills in what servers leave out of calls.

    What it pushes doesn't depend on how the server cuts its answer. A call ends where text,
    reasoning, a refusal, its result or another call of its choice begins, or with the answer.

    All methods raise ValueError or TypeError for what can't be a part of an answer.
    """

    __slots__ = ("_calls", "_ended", "_server_fields", "_sink", "_sources", "calling", "pushed")

    def __init__(self, sink: TokenSink) -> None:
        self.calling: dict[int, int] = {}
        """The call of each choice that has begun and not ended."""
        self.pushed = 0
        """How many texts and parts were pushed."""
        self._sink = sink
        self._calls = defaultdict[int, CountedCalls](CountedCalls)
        self._ended: set[int] = set()
        self._server_fields = ServerFields()
        self._sources: set[str] = set()

    def text(self, text: str, choice: int = 0) -> None:
        """More of the answer's text."""
        if choice:
            self.delta(Kind.TEXT, text, choice)
        elif text:
            self.end_call(0)
            self.pushed += 1
            self._sink.push(text)

    def delta(
        self, kind: Kind, text: str, choice: int = 0, name: str = "", detail: str = ""
    ) -> None:
        """More reasoning, refusal, or text of a later choice.

        Args:
            name: the server's field.
            detail: as of `detail_of`.
        """
        if text:
            self.end_call(choice)
            self._push(Part(kind, text, choice, id=detail, name=name))

    def fragment(
        self,
        index: int | None,
        call_id: str,
        name: str,
        arguments: str,
        choice: int = 0,
        *,
        custom: bool = False,
        extra: Fields | None = None,
    ) -> None:
        """More of a call. Servers may repeat its name and id, or send it whole, without an index.

        Args:
            custom: whether the tool takes any text instead of JSON.
            extra: further fields that the server needs back.
        """
        calls = self._calls[choice]
        if index is None:
            index = len(calls) if name else len(calls) - 1
        if not isinstance(index, int) or not all(
            isinstance(said, str) for said in (call_id, name, arguments)
        ):
            raise TypeError("this is not a fragment of a call")
        number = calls.number(index)
        if number is None:
            self.end_call(choice)
            number, call_id = calls.begin(index, call_id, name)
            self.returned(extra or {}, choice, number)
            kind = "custom" if custom else ""
            self._push(Part(Kind.CALL, kind, choice, number, id=call_id, name=name))
            self.calling[choice] = number
        elif arguments and self.calling.get(choice) != number:
            raise ValueError("this is a fragment of a call that has ended")
        else:
            self.returned(extra or {}, choice, number)
        self._push(Part(Kind.ARGUMENTS, arguments, choice, number))

    def end_call(self, choice: int) -> None:
        """The call that has begun in this choice, if any, has all its arguments."""
        if self.calling and (number := self.calling.pop(choice, None)) is not None:
            self._push(Part(Kind.CALL_END, choice=choice, call=number))

    def result(self, call_id: str, name: str, text: str, choice: int = 0) -> None:
        """The result of a tool's call. A result that is too long is cut, and says so.

        Args:
            call_id: empty: it is for the first call that has no result.
            name: the tool's. Empty: as its call says.
        """
        calls = self._calls[choice]
        call_id = call_id or calls.oldest_pending
        if call_id not in calls:  # readers show a result at its call
            self.fragment(None, call_id, name or "tool", "", choice)
            call_id = call_id or calls.oldest_pending
        number, tool = calls.answer(call_id)
        if self.calling.get(choice) == number:
            self.end_call(choice)
        self._push(Part(Kind.RESULT, _fitting(text), choice, id=call_id, name=name or tool))

    def returned(self, fields: Fields, choice: int = 0, call: int | None = None) -> None:
        """Fields that the server needs back: of the call with this number, or of the message."""
        part = self._server_fields.part_of(fields, choice, call)
        if part is not None:
            self._push(part)

    def data(self, name: str, value: Any, choice: int = 0) -> None:
        """A named value."""
        self._push(Part(Kind.DATA, orjson.dumps(value).decode(), choice, name=name))

    def event(self, said: Any) -> None:
        """A value of the application's own, as Open WebUI's `{"type": …, "data": …}`.

        An invalid value, or one that is too long, is left out: the answer matters more.
        """
        if not isinstance(said, dict) or not isinstance(name := said.get("type"), str):
            return
        fits = 0 < len(name) <= LONGEST_NAME and len(orjson.dumps(said)) <= LONGEST_VALUE
        if fits and name not in _OWN_DATA:
            self.data(name, said.get("data"))

    def source(self, said: Any) -> None:
        """A source of the answer, once. What has no address or title is left out."""
        if not isinstance(said, dict):
            return
        source = {
            name: said[name] for name in _SOURCE_FIELDS if isinstance(said.get(name), int | str)
        }
        known = orjson.dumps(source).decode()
        if (source.get("url") or source.get("title")) and known not in self._sources:
            self._sources.add(known)
            self.data("source", source)

    def choice(self, said: dict[str, Any], index: int) -> None:
        """Everything that a choice in one of OpenAI's chunks adds. `index` is its number."""
        delta = said.get("delta") or {}
        if delta.get("role") == "tool":
            call_id, name = delta.get("tool_call_id") or "", delta.get("name") or ""
            self.result(call_id, name, _result_text(delta.get("content")), index)
        else:
            self._assistant(delta, said.get("logprobs") or {}, index)
        if index and (reason := said.get("finish_reason")) and index not in self._ended:
            self._ended.add(index)
            self.end_call(index)
            self.data("finish", reason if reason in _ENDS else "stop", index)

    def finish(self) -> None:
        """The answer has ended, and with it the calls that have begun."""
        for choice in sorted(self.calling):
            self.end_call(choice)

    def _assistant(self, delta: dict[str, Any], logprobs: dict[str, Any], choice: int) -> None:
        """More of the assistant's message.

        Log probabilities are pushed before their tokens: an encoder can tell them together.
        """
        self._logprobs(logprobs, choice)
        extra = self._thoughts(delta, choice)
        if isinstance(refusal := delta.get("refusal"), str):
            self.delta(Kind.REFUSAL, refusal, choice)
        self.text(_content(delta), choice)
        self.returned(extra, choice)
        for annotation in _list(delta.get("annotations")):
            self.source(annotation.get("url_citation"))
        for fragment in delta.get("tool_calls") or ():
            self._called(fragment, choice)
        for tool in _list(delta.get("executed_tools")):
            self._executed(tool, choice)

    def _thoughts(self, delta: dict[str, Any], choice: int) -> Fields:
        """More reasoning, and the lists beside it. Returns all other fields to give back."""
        thoughts, fields = self._server_fields.split(_reasonings(delta), delta)
        for thought in thoughts:
            self.delta(Kind.REASONING, thought.text, choice, thought.field, thought.detail)
        lists = {name: value for name, value in fields.items() if isinstance(value, list)}
        self.returned(lists, choice)
        return {name: value for name, value in fields.items() if name not in lists}

    def _called(self, fragment: dict[str, Any], choice: int) -> None:
        custom = bool(fragment.get("custom"))
        called = fragment.get("custom" if custom else "function") or {}
        arguments = called.get("input" if custom else "arguments") or ""
        call_id, name = fragment.get("id") or "", called.get("name") or ""
        extra = call_fields(fragment)
        self.fragment(
            fragment.get("index"), call_id, name, arguments, choice, custom=custom, extra=extra
        )

    def _executed(self, tool: dict[str, Any], choice: int) -> None:
        """A tool that Groq has run: first without its output, then with it."""
        call_id = f"executed_{tool.get('index') or 0}"
        name = tool.get("name") or tool.get("type") or "tool"
        if call_id not in self._calls[choice]:
            self.fragment(None, call_id, name, tool.get("arguments") or "", choice)
            self.end_call(choice)
        if tool.get("output") is not None:
            self.result(call_id, name, _result_text(tool["output"]), choice)

    def _logprobs(self, given: dict[str, Any], choice: int) -> None:
        # A part for each token: how the server joins them doesn't show.
        for name, entries in given.items():
            for entry in _list(entries):
                self.data(LOGPROBS, {name: [entry]}, choice)

    def _push(self, part: Part) -> None:
        if part.kind in JOINING and not part.text:
            return
        part.check()
        self.pushed += 1
        self._sink.push_part(part)


def cited(chunk: dict[str, Any]) -> Iterable[Any]:
    """The sources of a chunk of a server that searches. It repeats them in every chunk."""
    if results := _list(chunk.get("search_results")):
        return results
    return [{"url": url} for url in _list(chunk.get("citations"))]


def _content(delta: dict[str, Any]) -> str:
    """A delta's text. Empty if the server left it out, or sent null."""
    text = delta.get("content")
    if text is not None and not isinstance(text, str):
        raise TypeError("the content is not text")
    return text or ""


def _result_text(content: Any) -> str:
    """A tool's result: a text, the texts of a list of parts, or any other JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part.get("text") for part in _list(content) if isinstance(part, dict)]
    texts = [text for text in parts if isinstance(text, str)]
    if texts and len(texts) == len(content):
        return "".join(texts)
    return orjson.dumps(content).decode()


def _fitting(text: str) -> str:
    """The result, cut to the longest length."""
    if len(text) <= LONGEST_VALUE:
        return text
    mark = _CUT.format(f"{len(text):,}")
    return text[: LONGEST_VALUE - len(mark)] + mark


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else []


def _reasonings(delta: dict[str, Any]) -> dict[str, str]:
    """A delta's reasoning by the field's name, once if it is the same under both."""
    said = {
        name: text for name in REASONING_FIELDS if isinstance(text := delta.get(name), str) and text
    }
    if said.get("reasoning_content") == said.get("reasoning"):
        said.pop("reasoning", None)
    return said
