"""The events of OpenAI's Responses API (`BlockObjects`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import orjson

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import Place, WriteDelta
from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.log.entries import Kind, Part
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed
from evenflow.stream_core.protocols.openai_responses.output_items import (
    annotation_of,
    begun_item,
    item_id,
    part_of,
    whole_item,
)
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject, status_of

ENTRY = 8
"""From the number of an entry's event to that of the next entry's of the same rank."""
# Up to 16 million entries an epoch. So the numbers of 15 epochs fit into 32 bits, which some
# clients have for them.
_EPOCH = 1 << 27
# Every open block has up to three events at the answer's end. There are at most 129 of them.
_FINAL_STEP = 512
MOST_CLOSING_ENTRIES = _FINAL_STEP // ENTRY
"""The numbers behind the last entry are those of so many entries more."""


class Rank(IntEnum):
    """The order of events that one entry of the log leads to."""

    TEXT_DONE = 0
    PART_DONE = 1
    ITEM_DONE = 2
    CALL_TEXT_DONE = 3
    CALL_DONE = 4
    ITEM_ADDED = 5
    PART_ADDED = 6
    DELTA = 7


def number(index: int, epoch: int, rank: int) -> int:
    """The number of an event. `index` is -1 for those before the first entry."""
    return (epoch - 1) * _EPOCH + (index + 1) * ENTRY + rank


def closing_number(last_index: int, epoch: int, order: int) -> int:
    """The number of an event behind the last entry. `order` counts them from 0."""
    return number(last_index + 1, epoch, order)


def final_number(last_index: int, epoch: int) -> int:
    """The number of the last event of all."""
    return closing_number(last_index, epoch, _FINAL_STEP)


class ResumeIndex(NamedTuple):
    """What a reader has of a response.

    Attributes:
        last_index: of the last entry of which it has all events, -1 for none.
        epoch: of the last event that it has.
        begun: whether it has some events of the next entry.
    """

    last_index: int
    epoch: int
    begun: bool


def resume_index_of(sequence_number: int) -> ResumeIndex:
    """What a reader has that was given everything up to this number.

    For the events behind the last entry, `last_index` is up to `MOST_CLOSING_ENTRIES` too high. A
    negative number stands for nothing.
    """
    epoch, place = divmod(max(0, sequence_number), _EPOCH)
    index, rank = divmod(place, ENTRY)
    begun = rank != Rank.DELTA
    return ResumeIndex(max(-1, index - 1 - begun), epoch + 1, begun and index > 0)


_SUMMARY, _TEXT, _REFUSAL = "reasoning_summary_text", "output_text", "refusal"
_DELTAS = {Kind.TEXT: _TEXT, Kind.REFUSAL: _REFUSAL, Kind.REASONING: _SUMMARY}
_FINAL = {"completed": "completed", "failed": "failed"}
NOTHING = -1
"""As the number of the last event that a reader has: it has none."""


class Framing(Protocol):
    """How an event goes over a transport."""

    def frame(self, event: bytes, sequence_number: int | None, data: bytes) -> bytes:
        """One event. `event` is its type, `data` its JSON. Errors of the stream have no number."""


class ServerSentEvents:
    """Over server-sent events. The id of an event is its number."""

    def frame(self, event: bytes, sequence_number: int | None, data: bytes) -> bytes:
        """One event."""
        if sequence_number is None:
            return b"event: %b\ndata: %b\n\n" % (event, data)
        return b"event: %b\nid: %d\ndata: %b\n\n" % (event, sequence_number, data)


class JsonLines:
    """One line of JSON an event, for transports whose frames are events."""

    def frame(self, event: bytes, sequence_number: int | None, data: bytes) -> bytes:
        """One event."""
        return data + b"\n"


class ResponseEvents:
    """Writes the events of one response for one reader.

    Args:
        after: the number of the last event that the reader has.
        framing: how they go over the transport.
        raises: whether an error is raised where nothing of the answer was told. Otherwise it is an
            event, as all later ones are.
    """

    resets = False

    def __init__(
        self,
        about: ResponseObject,
        framing: Framing,
        after: int = NOTHING,
        *,
        raises: bool = False,
    ) -> None:
        self._about = about
        self._framing = framing
        self._after = after
        self._raises = raises
        self._last = max(after, 0)
        self._closing: tuple[Place, str] | None = None
        self._closed = 0
        self._raised: tuple[Place, ResponseStream] | None = None

    def opening(self, place: Place, open_blocks: tuple[Block, ...]) -> bytes:
        """The first events of a response. A reader that has some events has these."""
        begun = {"response": self._about.begun()}
        return self._tell("response.created", number(-1, 1, 0), begun) + self._tell(
            "response.in_progress", number(-1, 1, 1), begun
        )

    def begin(self, place: Place, block: Block) -> bytes:
        """An item begins, and its part."""
        at = number(place.first, place.epoch, 0)
        response = self._about.response
        begun = begun_item(response, block, self._about.namespaces)
        item = {"output_index": block.number, "item": begun}
        added = self._tell("response.output_item.added", at + Rank.ITEM_ADDED, item)
        if block.kind is Kind.CALL or block.silent:
            return added
        part = self._at(block) | {"part": part_of(block)}
        return added + self._tell(f"response.{_part(block)}.added", at + Rank.PART_ADDED, part)

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """What writes more of an item."""
        if block.kind is Kind.CALL:
            event, told = f"response.{_call_text(block)}.delta", self._told_call(block)
        else:
            event, told = f"response.{_DELTAS[block.kind]}.delta", self._at(block)
        kind, frame, dumps = event.encode(), self._framing.frame, orjson.dumps
        before = dumps({"type": event, **told})[:-1] + b',"delta":'
        logprobs = b',"logprobs":[]' if block.kind is Kind.TEXT else b""
        behind = logprobs + b',"sequence_number":'
        first_of_epoch = number(0, epoch, Rank.DELTA)

        def write(text: str, _: int, last: int) -> bytes:
            at = first_of_epoch + last * ENTRY
            if at <= self._after:
                return b""
            self._last = at
            return frame(kind, at, b"%b%b%b%d}" % (before, dumps(text), behind, at))

        return write

    def end(self, place: Place, block: Block) -> bytes:
        """An item ends, and its part."""
        status = "completed" if self._closing is None else self._closing[1]
        item = {
            "output_index": block.number,
            "item": whole_item(self._about.response, block, status, self._about.namespaces),
        }
        if block.kind is Kind.CALL:
            said = self._told_call(block) | {_call_field(block): block.text}
            return self._ending(
                place,
                (
                    (Rank.CALL_TEXT_DONE, f"response.{_call_text(block)}.done", said),
                    (Rank.CALL_DONE, "response.output_item.done", item),
                ),
            )
        if block.silent:
            return self._ending(place, ((Rank.ITEM_DONE, "response.output_item.done", item),))
        whole = part_of(block, block.text)
        field = "refusal" if block.kind is Kind.REFUSAL else "text"
        text = self._at(block) | {field: block.text}
        if block.kind is Kind.TEXT:
            text["logprobs"] = whole["logprobs"]
        part = self._at(block) | {"part": whole}
        return self._ending(
            place,
            (
                (Rank.TEXT_DONE, f"response.{_DELTAS[block.kind]}.done", text),
                (Rank.PART_DONE, f"response.{_part(block)}.done", part),
                (Rank.ITEM_DONE, "response.output_item.done", item),
            ),
        )

    def value(self, place: Place, part: Part, block: Block | None) -> bytes:
        """A source of the text. Other values are in the item at its end, or not told."""
        if block is None or block.kind is not Kind.TEXT or part.kind is not Kind.DATA:
            return b""
        annotation = annotation_of(part)
        if annotation is None:
            return b""
        place_in = sum(1 for known in block.values if annotation_of(known)) - 1
        told = self._at(block) | {"annotation_index": place_in, "annotation": annotation}
        at = number(place.last, place.epoch, Rank.DELTA)
        return self._tell("response.output_text.annotation.added", at, told)

    def reset(self, place: Place) -> bytes:
        """Not called: these clients can't take anything back."""
        raise NotImplementedError

    def finish(self, place: Place, stream: ResponseStream) -> bytes:
        """The last event: how the response ended, with all of it.

        Raises:
            EvenflowError: it ended without an answer, and nothing of it was told.
        """
        if self._raises and not stream.log.next_index:
            self._raised = place, stream
            check_completed(stream)
        return self._final(place, stream)

    def _final(self, place: Place, stream: ResponseStream) -> bytes:
        whole = self._about.at_present(stream)
        status = status_of(stream)
        self._closing = (place, "completed" if status == "completed" else "incomplete")
        event = f"response.{_FINAL.get(status, 'incomplete')}"
        return self._tell(event, final_number(place.last, place.epoch), {"response": whole})

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the stream. The response goes on, unless it ended or was replaced."""
        if self._raised is not None:
            return self._final(*self._raised)
        told = error.to_object()
        if error.code == "response_restarted":
            self._last += 1
            return self._tell("response.failed", self._last, {"response": self._about.failed(told)})
        return error_event(self._framing, error, self._last)

    def _ending(self, place: Place, events: tuple[tuple[Rank, str, dict[str, Any]], ...]) -> bytes:
        """Events at the end of a block: in their ranks, or counted behind the last entry."""
        told = []
        for rank, event, data in events:
            if self._closing is None:
                at = number(place.first, place.epoch, rank)
            else:
                at = closing_number(place.last, place.epoch, self._closed)
                self._closed += 1
            told.append(self._tell(event, at, data))
        return b"".join(told)

    def _told_call(self, block: Block) -> dict[str, Any]:
        return {"item_id": item_id(self._about.response, block), "output_index": block.number}

    def _at(self, block: Block) -> dict[str, Any]:
        inner = "summary_index" if block.kind is Kind.REASONING else "content_index"
        return self._told_call(block) | {inner: 0}

    def _tell(self, event: str, at: int, data: dict[str, Any]) -> bytes:
        if at <= self._after:
            return b""
        self._last = at
        told = {"type": event, **data, "sequence_number": at}
        return self._framing.frame(event.encode(), at, orjson.dumps(told))


def error_event(framing: Framing, error: EvenflowError, last: int) -> bytes:
    """An error of the stream, or of a request without a response.

    It is told as OpenAI documents it and as its servers send it: the two differ.

    Args:
        last: the number of the last event.
    """
    told = error.to_object()
    data = {
        "type": "error",
        "status": error.status,
        "code": error.code,
        "message": error.message,
        "param": error.param,
        "error": told,
        "sequence_number": last,
    }
    return framing.frame(b"error", None, orjson.dumps(data))


def _part(block: Block) -> str:
    return "reasoning_summary_part" if block.kind is Kind.REASONING else "content_part"


def _call_text(block: Block) -> str:
    return "custom_tool_call_input" if block.custom else "function_call_arguments"


def _call_field(block: Block) -> str:
    return "input" if block.custom else "arguments"
