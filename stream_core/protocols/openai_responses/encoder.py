"""The events of OpenAI's Responses API (`BlockObjects`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import orjson

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockPlace, WriteDelta
from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.log.entries import Part, PartKind
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
"""The numbers after the last entry take as much room as this number of entries."""


class Rank(IntEnum):
    """The order of the events for one entry of the log."""

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
    """The number of an event after the last entry. `order` counts them from 0."""
    return number(last_index + 1, epoch, order)


def final_number(last_index: int, epoch: int) -> int:
    """The number of the last event of all."""
    return closing_number(last_index, epoch, _FINAL_STEP)


class ResumeIndex(NamedTuple):
    """The position of a reader in a response.

    Attributes:
        last_index: the last entry with all events received, -1 for none.
        epoch: the epoch of the last received event.
        has_begun_next: whether some events of the next entry were received.
    """

    last_index: int
    epoch: int
    has_begun_next: bool


def resume_index_of(sequence_number: int) -> ResumeIndex:
    """The position of a reader that has received all events up to this number.

    For the events after the last entry, `last_index` is up to `MOST_CLOSING_ENTRIES` too high. A
    negative number means none.
    """
    epoch, place = divmod(max(0, sequence_number), _EPOCH)
    index, rank = divmod(place, ENTRY)
    has_begun = rank != Rank.DELTA
    return ResumeIndex(max(-1, index - 1 - has_begun), epoch + 1, has_begun and index > 0)


_SUMMARY, _TEXT, _REFUSAL = "reasoning_summary_text", "output_text", "refusal"
_DELTAS = {PartKind.TEXT: _TEXT, PartKind.REFUSAL: _REFUSAL, PartKind.REASONING: _SUMMARY}
_FINAL = {"completed": "completed", "failed": "failed"}
NOTHING = -1
"""The `after` of a reader without events."""


class Framing(Protocol):
    """The form of an event for a transport."""

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
    """One line of JSON an event, for transports with a frame for each event."""

    def frame(self, event: bytes, sequence_number: int | None, data: bytes) -> bytes:
        """One event."""
        return data + b"\n"


class ResponseEvents:
    """Writes the events of one response for one reader.

    Args:
        after: the number of the last event that the reader has.
        framing: the form of events for the transport.
        raises: whether an error before the first event of the answer is raised. Otherwise it is an
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
        self._last_seen = after
        self._raises = raises
        self._last = max(after, 0)
        self._closing: tuple[BlockPlace, str] | None = None
        self._closed = 0
        self._raised: tuple[BlockPlace, ResponseStream] | None = None

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        """The first events of a response. A reader that has some events has these."""
        fields = {"response": self._about.begun()}
        return self._write_event("response.created", number(-1, 1, 0), fields) + self._write_event(
            "response.in_progress", number(-1, 1, 1), fields
        )

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        """An item begins, and its part."""
        at = number(place.first, place.epoch, 0)
        response = self._about.response
        start = begun_item(response, block, self._about.namespaces)
        item = {"output_index": block.number, "item": start}
        added = self._write_event("response.output_item.added", at + Rank.ITEM_ADDED, item)
        if block.kind is PartKind.CALL or block.silent:
            return added
        part = self._at(block) | {"part": part_of(block)}
        return added + self._write_event(
            f"response.{_part(block)}.added", at + Rank.PART_ADDED, part
        )

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """Return the writer of an item's deltas."""
        if block.kind is PartKind.CALL:
            event, fields = f"response.{_call_text(block)}.delta", self._item_place(block)
        else:
            event, fields = f"response.{_DELTAS[block.kind]}.delta", self._at(block)
        kind, frame, dumps = event.encode(), self._framing.frame, orjson.dumps
        prefix = dumps({"type": event, **fields})[:-1] + b',"delta":'
        logprobs = b',"logprobs":[]' if block.kind is PartKind.TEXT else b""
        suffix = logprobs + b',"sequence_number":'
        first_of_epoch = number(0, epoch, Rank.DELTA)

        def write(text: str, _: int, last: int) -> bytes:
            at = first_of_epoch + last * ENTRY
            if at <= self._last_seen:
                return b""
            self._last = at
            return frame(kind, at, b"%b%b%b%d}" % (prefix, dumps(text), suffix, at))

        return write

    def end(self, place: BlockPlace, block: Block) -> bytes:
        """An item ends, and its part."""
        status = "completed" if self._closing is None else self._closing[1]
        item = {
            "output_index": block.number,
            "item": whole_item(self._about.response, block, status, self._about.namespaces),
        }
        if block.kind is PartKind.CALL:
            call_done = self._item_place(block) | {_call_field(block): block.text}
            return self._ending(
                place,
                (
                    (Rank.CALL_TEXT_DONE, f"response.{_call_text(block)}.done", call_done),
                    (Rank.CALL_DONE, "response.output_item.done", item),
                ),
            )
        if block.silent:
            return self._ending(place, ((Rank.ITEM_DONE, "response.output_item.done", item),))
        whole = part_of(block, block.text)
        field = "refusal" if block.kind is PartKind.REFUSAL else "text"
        text = self._at(block) | {field: block.text}
        if block.kind is PartKind.TEXT:
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

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        """A source of the text. Other values are in the item at its end, or not sent."""
        if block is None or block.kind is not PartKind.TEXT or part.kind is not PartKind.DATA:
            return b""
        annotation = annotation_of(part)
        if annotation is None:
            return b""
        place_in = sum(1 for value_part in block.values if annotation_of(value_part)) - 1
        fields = self._at(block) | {"annotation_index": place_in, "annotation": annotation}
        at = number(place.last, place.epoch, Rank.DELTA)
        return self._write_event("response.output_text.annotation.added", at, fields)

    def reset(self, place: BlockPlace) -> bytes:
        """Not called: these clients can't take anything back."""
        raise NotImplementedError

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        """The last event: how the response ended, with all of it.

        Raises:
            EvenflowError: it ended without an answer, and no event was sent.
        """
        if self._raises and not stream.log.next_index:
            self._raised = place, stream
            check_completed(stream)
        return self._final(place, stream)

    def _final(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        whole = self._about.at_present(stream)
        status = status_of(stream)
        self._closing = (place, "completed" if status == "completed" else "incomplete")
        event = f"response.{_FINAL.get(status, 'incomplete')}"
        return self._write_event(event, final_number(place.last, place.epoch), {"response": whole})

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the stream. The response goes on, unless it ended or was replaced."""
        if self._raised is not None:
            return self._final(*self._raised)
        error_fields = error.to_object()
        if error.code == "response_restarted":
            self._last += 1
            return self._write_event(
                "response.failed", self._last, {"response": self._about.failed(error_fields)}
            )
        return error_event(self._framing, error, self._last)

    def _ending(
        self, place: BlockPlace, events: tuple[tuple[Rank, str, dict[str, Any]], ...]
    ) -> bytes:
        """Events at the end of a block: in their ranks, or counted after the last entry."""
        written_events = []
        for rank, event, data in events:
            if self._closing is None:
                at = number(place.first, place.epoch, rank)
            else:
                at = closing_number(place.last, place.epoch, self._closed)
                self._closed += 1
            written_events.append(self._write_event(event, at, data))
        return b"".join(written_events)

    def _item_place(self, block: Block) -> dict[str, Any]:
        return {"item_id": item_id(self._about.response, block), "output_index": block.number}

    def _at(self, block: Block) -> dict[str, Any]:
        inner = "summary_index" if block.kind is PartKind.REASONING else "content_index"
        return self._item_place(block) | {inner: 0}

    def _write_event(self, event: str, at: int, data: dict[str, Any]) -> bytes:
        if at <= self._last_seen:
            return b""
        self._last = at
        event_fields = {"type": event, **data, "sequence_number": at}
        return self._framing.frame(event.encode(), at, orjson.dumps(event_fields))


def error_event(framing: Framing, error: EvenflowError, last: int) -> bytes:
    """An error of the stream, or of a request without a response.

    It has OpenAI's documented form and the form of its servers, since the two differ.

    Args:
        last: the number of the last event.
    """
    error_fields = error.to_object()
    data = {
        "type": "error",
        "status": error.status,
        "code": error.code,
        "message": error.message,
        "param": error.param,
        "error": error_fields,
        "sequence_number": last,
    }
    return framing.frame(b"error", None, orjson.dumps(data))


def _part(block: Block) -> str:
    return "reasoning_summary_part" if block.kind is PartKind.REASONING else "content_part"


def _call_text(block: Block) -> str:
    return "custom_tool_call_input" if block.custom else "function_call_arguments"


def _call_field(block: Block) -> str:
    return "input" if block.custom else "arguments"
