"""Pushes what a model's server gives as text and parts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, get_args

import orjson

from evenflow.fargate_handler.token_sources.port import ModelEnd, TokenSink
from evenflow.stream_core.log.entries import JOINING, LOGPROBS, Kind, Part

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The names under which servers send reasoning. Some send it under both."""
_ENDS = get_args(ModelEnd)
_SOURCE_FIELDS = ("url", "title", "start_index", "end_index")


class AnswerParts:
    """Pushes the pieces from a model's server, and fills in what servers leave out of calls.

    What it pushes doesn't depend on how the server cuts its answer. A call ends where text,
    reasoning, a refusal or another call of its choice begins, or with the answer.

    All methods raise ValueError or TypeError for what can't be a part of an answer.
    """

    __slots__ = ("_begun", "_ended", "_sink", "_sources", "calling", "pushed")

    def __init__(self, sink: TokenSink) -> None:
        self.calling: dict[int, int] = {}
        """The call of each choice that has begun and not ended."""
        self.pushed = 0
        """How many texts and parts were pushed."""
        self._sink = sink
        self._begun: dict[int, set[int]] = {}
        self._ended: set[int] = set()
        self._sources: set[str] = set()

    def text(self, text: str, choice: int = 0) -> None:
        """More of the answer's text."""
        if choice:
            self.delta(Kind.TEXT, text, choice)
        elif text:
            self.end_call(0)
            self.pushed += 1
            self._sink.push(text)

    def delta(self, kind: Kind, text: str, choice: int = 0, name: str = "") -> None:
        """More reasoning, refusal, or text of a later choice. `name` is the server's field."""
        if text:
            self.end_call(choice)
            self._push(Part(kind, text, choice, name=name))

    def fragment(
        self,
        index: int | None,
        call_id: str,
        name: str,
        arguments: str,
        choice: int = 0,
        *,
        custom: bool = False,
    ) -> None:
        """More of a call. Servers may repeat its name and id, or send it whole, without an index.

        Args:
            custom: whether the tool takes any text instead of JSON.
        """
        begun = self._begun.setdefault(choice, set())
        if index is None:
            index = len(begun) if name else len(begun) - 1
        if not isinstance(index, int) or not all(
            isinstance(said, str) for said in (call_id, name, arguments)
        ):
            raise TypeError("this is not a fragment of a call")
        if index not in begun:
            self.end_call(choice)
            # The tool's answer needs an id.
            known = call_id or f"call_{secrets.token_hex(12)}"
            self._push(
                Part(Kind.CALL, "custom" if custom else "", choice, index, id=known, name=name)
            )
            begun.add(index)
            self.calling[choice] = index
        elif arguments and self.calling.get(choice) != index:
            raise ValueError("this is a fragment of a call that has ended")
        self._push(Part(Kind.ARGUMENTS, arguments, choice, index))

    def end_call(self, choice: int) -> None:
        """The call that has begun in this choice, if any, has all its arguments."""
        if self.calling and (index := self.calling.pop(choice, None)) is not None:
            self._push(Part(Kind.CALL_END, choice=choice, call=index))

    def data(self, name: str, value: Any, choice: int = 0) -> None:
        """A named value."""
        self._push(Part(Kind.DATA, orjson.dumps(value).decode(), choice, name=name))

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
        """Everything that a choice in one of OpenAI's chunks adds. `index` is its number.

        Log probabilities are pushed before their tokens: an encoder can tell them together.
        """
        delta = said.get("delta") or {}
        self._logprobs(said.get("logprobs") or {}, index)
        for name, reasoning in _reasonings(delta).items():
            self.delta(Kind.REASONING, reasoning, index, name)
        if isinstance(refusal := delta.get("refusal"), str):
            self.delta(Kind.REFUSAL, refusal, index)
        self.text(_content(delta), index)
        for annotation in _list(delta.get("annotations")):
            self.source(annotation.get("url_citation"))
        for fragment in delta.get("tool_calls") or ():
            self._called(fragment, index)
        if index and (reason := said.get("finish_reason")) and index not in self._ended:
            self._ended.add(index)
            self.end_call(index)
            self.data("finish", reason if reason in _ENDS else "stop", index)

    def finish(self) -> None:
        """The answer has ended, and with it the calls that have begun."""
        for choice in sorted(self.calling):
            self.end_call(choice)

    def _called(self, fragment: dict[str, Any], choice: int) -> None:
        custom = bool(fragment.get("custom"))
        called = fragment.get("custom" if custom else "function") or {}
        arguments = called.get("input" if custom else "arguments") or ""
        call_id, name = fragment.get("id") or "", called.get("name") or ""
        self.fragment(fragment.get("index"), call_id, name, arguments, choice, custom=custom)

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
