"""Converts the deltas of a model's server into text and parts, and pushes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from evenflow.fargate_handler.token_sources.chunk_fields import (
    UnreadableChunk,
    arguments_in,
    contents_in,
    fitting,
    is_whole,
    json_text,
    listed,
    number_in,
    object_in,
    reasonings_in,
    result_text,
    text_in,
    whole_characters,
    word_in,
)
from evenflow.fargate_handler.token_sources.finish_reasons import is_failure, model_end
from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.fargate_handler.token_sources.server_fields import (
    FIELDS_WITHOUT_REASONING,
    ServerFields,
    call_fields,
    without_thought_mark,
)
from evenflow.fargate_handler.token_sources.tool_call_numbers import (
    OpenCall,
    ToolCallNumbers,
    WaitingCall,
)
from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    CHUNK_EXTRA,
    EXTRA,
    JOINING,
    LOGPROBS,
    LONGEST_NAME,
    LONGEST_VALUE,
    Part,
    PartKind,
)
from evenflow.stream_core.log.returned_fields import REASONING_FIELDS, Fields

_NOT_CARRIED = ("audio", "images")
_SOURCE_FIELDS = ("url", "title", "start_index", "end_index")
_OWN_DATA = frozenset({"source", "finish", LOGPROBS, EXTRA, CALL_EXTRA, CHUNK_EXTRA})
_FIRST_HALVES = ("\ud800", "\udbff")
_HALF_ALONE = "\ufffd"
_CALLS = "choices[].delta.tool_calls"
_FRAGMENT = f"{_CALLS}[]"
_CALLED = {name: f"{_FRAGMENT}.{name}" for name in ("function", "custom")}


class AnswerParts:
    """Pushes text and parts into a sink, and fills in what servers leave out of tool calls.

    Fragments belong to the call of their index, in any order. Nothing between them ends a call:
    several calls may be open at once, and text may come within one. A call ends with its result,
    with the answer, or when something else of its choice begins and its arguments are complete
    JSON. The parts do not depend on how the server splits its answer.

    All methods raise ValueError for what can't be a part of an answer.
    """

    __slots__ = (
        "_calls",
        "_ended_choices",
        "_given_ids",
        "_halves",
        "_open_calls",
        "_server_fields",
        "_sink",
        "_sources",
        "_waiting_calls",
        "late_arguments",
        "left_out",
        "pushed",
        "unsettled",
    )

    def __init__(self, sink: TokenSink) -> None:
        self.unsettled = False
        """Whether calls are open, or half a character waits. Then text must go through `text`."""
        self.pushed = 0
        """The number of pushed texts and parts."""
        self.late_arguments = ""
        """The last arguments of a call that had ended. They are left out."""
        self.left_out = frozenset[str]()
        """The fields that the server sent and that no protocol here can deliver."""
        self._sink = sink
        self._calls = defaultdict[int, ToolCallNumbers](ToolCallNumbers)
        # By choice and number, or choice and the server's index.
        self._open_calls: dict[tuple[int, int], OpenCall] = {}
        self._waiting_calls: dict[tuple[int, int], WaitingCall] = {}
        self._given_ids: dict[tuple[int, int], str] = {}
        # First halves of surrogate pairs, by their place. None: text of the first choice.
        self._halves: dict[Part | None, str] = {}
        self._ended_choices = frozenset[int]()
        self._server_fields = ServerFields()
        self._sources = set[tuple[object, ...]]()

    @property
    def has_calls(self) -> bool:
        """Whether a tool is called in the first choice."""
        return bool(len(self._calls[0]))

    def text(self, text: str, choice: int = 0) -> None:
        """Push more of the answer's text."""
        if choice:
            self.delta(PartKind.TEXT, text, choice)
            return
        if text and self.unsettled:
            self._end_whole_calls(0)
        if text and self._may_be_cut(text):
            text = self._joined(None, text)
        if text:
            self.pushed += 1
            self._sink.push(text)

    def delta(
        self, kind: PartKind, text: str, choice: int = 0, name: str = "", detail: str = ""
    ) -> None:
        """Push more reasoning, refusal, or text of a later choice.

        Args:
            name: the server's field.
            detail: as of `detail_of`.
        """
        if text:
            self._end_whole_calls(choice)
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
        """Push more of a call. Servers may repeat its name and id, or send it without an index.

        Another id with a name begins another call, also at the same index. A call begins when its
        name has come: until then its fragments wait, and so do the calls of higher indexes.

        Args:
            custom: whether the tool accepts any text instead of JSON.
            extra: further fields that the server needs back.
        """
        if index is None:
            index = self._index_of(call_id, name, choice)
        number = self._calls[choice].number(index)
        given_id = self._given_ids.get((choice, -1 if number is None else number), "")
        if number is None or (name and call_id and given_id and call_id != given_id):
            waiting_call = self._waiting_calls.setdefault((choice, index), WaitingCall())
            waiting_call.add(call_id, name, arguments, is_custom=custom, extra=extra)
            self._begin_waiting(choice)
            return
        self.returned(extra or {}, choice, number)
        call = self._open_calls.get((choice, number))
        if call is not None:
            call.add(arguments)
            self._push(Part(PartKind.ARGUMENTS, arguments, choice, number))
        elif arguments.strip():
            self.late_arguments = arguments

    def end_call(self, choice: int) -> None:
        """End the open calls of this choice: they have all their arguments."""
        for call_choice, number in [*self._open_calls]:
            if call_choice == choice:
                self._end(choice, number)

    def result(self, call_id: str, name: str, text: str, choice: int = 0) -> None:
        """Push the result of a tool's call. A result that is too long is cut, with a note.

        Args:
            call_id: empty: that of the first call without a result.
            name: the tool's name. Empty: the name in its call.
        """
        calls = self._calls[choice]
        call_id = call_id or calls.oldest_pending
        if call_id not in calls:  # readers show a result at its call
            self.fragment(None, call_id, name or "tool", "", choice)
            call_id = call_id or calls.oldest_pending
        number, call_id, tool = calls.answer(call_id)
        if (choice, number) in self._open_calls:
            self._end(choice, number)
        self._push(Part(PartKind.RESULT, fitting(text), choice, id=call_id, name=name or tool))

    def returned(self, fields: Fields, choice: int = 0, call: int | None = None) -> None:
        """Push fields that the server needs back: of the call `call`, or of the message."""
        part = self._server_fields.part_of(fields, choice, call)
        if part is not None:
            self._push(part)

    def data(self, name: str, value: Any, choice: int = 0) -> None:
        """Push a named value."""
        self._push(Part(PartKind.DATA, json_text(value), choice, name=name))

    def event(self, event: Any) -> None:
        """Push a value of the application's own, as Open WebUI's `{"type": …, "data": …}`.

        An invalid value, or one that is too long, is left out: the answer matters more.
        """
        if not isinstance(event, dict) or not isinstance(name := event.get("type"), str):
            return
        fits = 0 < len(name) <= LONGEST_NAME and len(json_text(event)) <= LONGEST_VALUE
        if fits and is_whole(name) and name not in _OWN_DATA:
            self.data(name, event.get("data"))

    def source(self, annotation: Any) -> None:
        """Push a source of the answer, once for each place that cites it.

        A long title is cut. A source is left out if it has no address and no title, or a very long
        address.
        """
        if not isinstance(annotation, dict):
            return
        source = {
            name: annotation[name]
            for name in _SOURCE_FIELDS
            if isinstance(annotation.get(name), int | str)
        }
        if isinstance(title := source.get("title"), str):
            source["title"] = title[:LONGEST_NAME]
        address = source.get("url") or source.get("title")
        place = address, source.get("start_index"), source.get("end_index")
        fits = len(json_text(source)) <= LONGEST_VALUE
        if address and fits and place not in self._sources:
            self._sources |= {place, (address, None, None)}
            self.data("source", source)

    def choice(self, entry: dict[str, Any], index: int) -> None:
        """Push everything that a choice in one of OpenAI's chunks adds. `index` is its number."""
        delta = object_in(entry.get("delta"), "choices[].delta")
        if delta.get("role") == "tool":
            call_id, name = word_in(delta.get("tool_call_id")), word_in(delta.get("name"))
            self.result(call_id, name, result_text(delta.get("content")), index)
        else:
            self._assistant(delta, entry.get("logprobs"), index)
        if index and (reason := entry.get("finish_reason")) and index not in self._ended_choices:
            self._ended_choices |= {index}
            self.end_call(index)
            if not is_failure(str(reason)):  # with a failure the whole answer ends with an error
                self.data("finish", model_end(str(reason)), index)

    def finish(self) -> None:
        """End the answer, and with it the open calls.

        Raises:
            UnreadableChunk: a call has no name.
        """
        nameless = {key: call for key, call in self._waiting_calls.items() if not call.name}
        for key in nameless:
            del self._waiting_calls[key]
        for choice in [*self._calls]:
            self._begin_waiting(choice)
        for choice, number in sorted(self._open_calls):
            self._end(choice, number)
        self.push_halves()
        for waiting_call in nameless.values():
            if not waiting_call.is_empty:
                raise UnreadableChunk(f"a call without a name in `{_CALLS}`", waiting_call)

    def push_halves(self) -> None:
        """Push U+FFFD for each half of a character: its other half can't come any more."""
        for place in [*self._halves]:
            self._push_half(place)

    def _assistant(self, delta: dict[str, Any], logprobs: Any, choice: int) -> None:
        """Push more of the assistant's message.

        Log probabilities are pushed before their tokens: an encoder can send them together.
        """
        if isinstance(logprobs, dict):
            self._logprobs(logprobs, choice)
        is_thought, extra = without_thought_mark(self._thoughts(delta, choice))
        if isinstance(refusal := delta.get("refusal"), str):
            self.delta(PartKind.REFUSAL, refusal, choice)
        content = delta.get("content")
        if is_thought:
            self.delta(PartKind.REASONING, text_in(content), choice)
        elif isinstance(content, str):
            self.text(content, choice)
        else:
            self._contents(content, choice)
        self.returned(extra, choice)
        if calls := delta.get("tool_calls"):
            for fragment in listed(calls, _CALLS):
                self._called(object_in(fragment, _FRAGMENT), choice)
        self._beside(delta, choice)

    def _beside(self, delta: dict[str, Any], choice: int) -> None:
        """Read sources, tools that the server has run, a call in the form that preceded tools, and
        fields that can't be delivered.
        """
        for annotation in _objects(delta.get("annotations")):
            self.source(annotation.get("url_citation"))
        for tool in _objects(delta.get("executed_tools")):
            self._executed(tool, choice)
        function = delta.get("function_call")
        if isinstance(function, dict) and not delta.get("tool_calls"):
            arguments = arguments_in(function.get("arguments"))
            self.fragment(0, "", word_in(function.get("name")), arguments, choice)
        self.left_out |= {name for name in _NOT_CARRIED if delta.get(name)}

    def _contents(self, content: Any, choice: int) -> None:
        """Read content that is no string. Mistral's models send their thoughts in it."""
        for kind, text in contents_in(content):
            if kind is PartKind.TEXT:
                self.text(text, choice)
            else:
                self.delta(kind, text, choice, REASONING_FIELDS[0])

    def _thoughts(self, delta: dict[str, Any], choice: int) -> Fields:
        """Push reasoning and the lists next to it. Returns the other fields to send back."""
        if FIELDS_WITHOUT_REASONING.issuperset(delta):
            return {}  # nearly every delta is like this
        thoughts, fields = self._server_fields.split(reasonings_in(delta), delta)
        for thought in thoughts:
            self.delta(PartKind.REASONING, thought.text, choice, thought.field, thought.detail)
        lists = {name: value for name, value in fields.items() if isinstance(value, list)}
        self.returned(lists, choice)
        return {name: value for name, value in fields.items() if name not in lists}

    def _called(self, fragment: dict[str, Any], choice: int) -> None:
        custom = bool(fragment.get("custom"))
        field = "custom" if custom else "function"
        function = object_in(fragment.get(field), _CALLED[field])
        arguments = arguments_in(function.get("input" if custom else "arguments"))
        call_id, name = word_in(fragment.get("id")), word_in(function.get("name"))
        index, extra = number_in(fragment.get("index"), None), call_fields(fragment)
        self.fragment(index, call_id, name, arguments, choice, custom=custom, extra=extra)

    def _executed(self, tool: dict[str, Any], choice: int) -> None:
        """Push a tool call that Groq has run: first without its output, then with it."""
        call_id = f"executed_{tool.get('index') or 0}"
        name = word_in(tool.get("name")) or word_in(tool.get("type")) or "tool"
        if call_id not in self._calls[choice]:
            self.fragment(None, call_id, name, arguments_in(tool.get("arguments")), choice)
            self.end_call(choice)
        if tool.get("output") is not None:
            self.result(call_id, name, result_text(tool["output"]), choice)

    def _logprobs(self, logprobs: dict[str, Any], choice: int) -> None:
        # A part for each token: how the server joins them doesn't show.
        for name, entries in logprobs.items():
            for entry in _list(entries):
                if len(json_text({name: [entry]})) <= LONGEST_VALUE:
                    self.data(LOGPROBS, {name: [entry]}, choice)

    # -- calls -------------------------------------------------------------------------------------

    def _index_of(self, call_id: str, name: str, choice: int) -> int:
        """The index of a fragment that has none: that of the last call, or of the next one."""
        calls = self._calls[choice]
        last, following = len(calls) - 1, len(calls)
        call = self._open_calls.get((choice, last))
        repeats = call_id and call_id == self._given_ids.get((choice, last))
        if repeats and call is not None and not call.is_whole():
            return last
        begins_call = name or last < 0 or (choice, following) in self._waiting_calls
        return following if begins_call else last

    def _begin_waiting(self, choice: int) -> None:
        """Begin the waiting calls that have a name now, in the order of their indexes."""
        for key in sorted(key for key in self._waiting_calls if key[0] == choice):
            waiting_call = self._waiting_calls[key]
            if not waiting_call.name:
                return
            del self._waiting_calls[key]
            self._begin(waiting_call, choice, key[1])

    def _begin(self, waiting_call: WaitingCall, choice: int, index: int) -> None:
        self._end_whole_calls(choice)
        number, own_id = self._calls[choice].begin(index, waiting_call.call_id, waiting_call.name)
        self.returned(waiting_call.extra, choice, number)
        kind = "custom" if waiting_call.is_custom else ""
        self._push(Part(PartKind.CALL, kind, choice, number, id=own_id, name=waiting_call.name))
        call = self._open_calls[choice, number] = OpenCall(waiting_call.is_custom)
        self._given_ids[choice, number] = waiting_call.call_id
        self.unsettled = True
        call.add(waiting_call.arguments)
        self._push(Part(PartKind.ARGUMENTS, waiting_call.arguments, choice, number))

    def _end_whole_calls(self, choice: int) -> None:
        """End the calls with complete arguments, since other content begins."""
        if self._open_calls:
            for (call_choice, number), call in [*self._open_calls.items()]:
                if call_choice == choice and call.is_whole():
                    self._end(choice, number)

    def _end(self, choice: int, number: int) -> None:
        del self._open_calls[choice, number]
        self._push_half(Part(PartKind.ARGUMENTS, "", choice, number))
        self._push(Part(PartKind.CALL_END, choice=choice, call=number))
        self.unsettled = bool(self._open_calls or self._halves)

    # -- what is pushed ----------------------------------------------------------------------------

    def _push(self, part: Part) -> None:
        if part.kind in JOINING:
            if not part.text:
                return
            if self._may_be_cut(part.text):
                text = self._joined(part.with_text(""), part.text)
                if not text:
                    return
                part = part.with_text(text)
        part.check()
        self.pushed += 1
        self._sink.push_part(part)

    def _may_be_cut(self, text: str) -> bool:
        """Whether half a surrogate pair may be in the text, or before it."""
        return bool(self._halves) or not (text.isascii() or is_whole(text))

    def _joined(self, place: Part | None, text: str) -> str:
        """Join the text with the half pair before it. A half at its end waits for the next text."""
        text = self._halves.pop(place, "") + text
        first, last = _FIRST_HALVES
        if first <= text[-1] <= last:
            self._halves[place] = text[-1]
            text = text[:-1]
        self.unsettled = bool(self._open_calls or self._halves)
        return whole_characters(text)

    def _push_half(self, place: Part | None) -> None:
        """Push U+FFFD for half a pair that waits for its other half, if there is one."""
        if self._halves.pop(place, ""):
            self.pushed += 1
            if place is None:
                self._sink.push(_HALF_ALONE)
            else:
                self._sink.push_part(place.with_text(_HALF_ALONE))


def cited(chunk: dict[str, Any]) -> Iterable[Any]:
    """The sources of a chunk of a server that searches. It repeats them in every chunk."""
    if results := _list(chunk.get("search_results")):
        return results
    return [{"url": url} for url in _list(chunk.get("citations"))]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in _list(value) if isinstance(entry, dict)]
