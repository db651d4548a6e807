"""Clients of each protocol: what they hold of a response after what they were sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.blocks import SealingBlocks
from evenflow.stream_core.encoding.port import EventId, LogEncoder
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.log.entries import Content, Restart
from evenflow.stream_core.log.response_log import NOTHING_YET, REPLACES_ALL, ResumePoint, slice_of
from evenflow.stream_core.protocols.ag_ui.encoder import AgUiEvents
from evenflow.stream_core.protocols.ai_sdk.encoder import UIMessageChunks
from evenflow.stream_core.protocols.anthropic.encoder import AnthropicObjects
from evenflow.stream_core.protocols.durable_streams.encoder import StreamEvents
from evenflow.stream_core.protocols.durable_streams.offsets import read_offset
from evenflow.stream_core.protocols.evenflow.frames import EventEncoder, FrameEncoder
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from evenflow.stream_core.protocols.openai_responses.encoder import (
    NOTHING,
    Rank,
    ResponseEvents,
    ServerSentEvents,
    number,
    resume_index_of,
)
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject
from tests.unit.fargate_handler.gateway.text_protocol import TextEncoder
from tests.unit.recording_reader import AssembledText

MOST = 20
_NOTHING = EventId(NOTHING_YET, 1)


class Client(Protocol):
    """What a client knows.

    Attributes:
        last: where it would resume.
        ends: how often it was told of the response's end.
        failed: whether it was told that what it has is no good, or no answer.
    """

    last: EventId
    ends: int
    failed: bool

    @property
    def text(self) -> str: ...

    def hear(self, data: bytes) -> None: ...


class ServerSentEvent(NamedTuple):
    id: str | None
    data: bytes


def events_of(data: bytes) -> list[ServerSentEvent]:
    """What a parser of server-sent events makes of it."""
    events = []
    for block in data.split(b"\n\n"):
        lines = dict(line.split(b": ", 1) for line in block.splitlines() if line)
        if b"data" in lines:
            events.append(
                ServerSentEvent(lines[b"id"].decode() if b"id" in lines else None, lines[b"data"])
            )
    return events


@dataclass
class FrameClient:
    """Of `evenflow.v1`."""

    held: AssembledText = field(default_factory=AssembledText)
    last: EventId = _NOTHING
    ends: int = 0
    failed: bool = False

    @property
    def text(self) -> str:
        return self.held.text

    @property
    def contents(self) -> list[Content]:
        """The text and the parts, joined."""
        return self.held.contents

    def hear(self, data: bytes) -> None:
        if data:
            self._read(orjson.loads(data))

    def _read(self, frame: dict[str, Any]) -> None:
        index = frame.get("index", self.last.last_index)
        if frame["type"] == "chat.response.delta":
            self.held.take(frame["delta"], frame.get("from", index), index)
        elif frame["type"] == "chat.response.event":
            self.held.take(
                PartObject.model_validate(frame).to_part(), frame.get("from", index), index
            )
        elif frame["type"] == "chat.response.restarted":
            if index == REPLACES_ALL:
                self.held.indexes.clear()
            epoch = frame.get("epoch", 1)
            self.held.take(
                Restart(frame["from_index"], frame["attempt"], epoch), max(index, 0), index
            )
            self.last = self.last._replace(epoch=max(self.last.epoch or 1, epoch))
        else:
            assert frame["last_index"] == self.last.last_index, "the end tells the last index"
            self.ends += 1
            self.failed = frame["type"] == "chat.response.error"
        self.last = self.last._replace(last_index=index)


class EventClient(FrameClient):
    """The same over server-sent events, where the ids say it too."""

    def hear(self, data: bytes) -> None:
        for event in events_of(data):
            self._read(orjson.loads(event.data))
            if event.id:
                told = EventId.parse(event.id)
                assert told == self.last._replace(end=self.ends == 1)


class StreamClient(FrameClient):
    """Of Durable Streams: what it has is said after each message."""

    def hear(self, data: bytes) -> None:
        for event in data.split(b"\n\n")[:-1]:
            name, _, said = event.removeprefix(b"event: ").partition(b"\ndata:")
            if name == b"data":
                for frame in orjson.loads(said):
                    self._read(frame)
            elif name == b"control":
                control = orjson.loads(said)
                has = read_offset(control["streamNextOffset"])
                assert has == self.last._replace(end=self.ends == 1)
                assert control.get("streamClosed", False) is has.end
                assert ("streamCursor" in control) is not has.end


@dataclass
class ChunkClient:
    """Of OpenAI's API: it only appends."""

    text: str = ""
    last: EventId = _NOTHING
    ends: int = 0
    failed: bool = False

    def hear(self, data: bytes) -> None:
        for event in events_of(data):
            if event.id is not None:
                self.last = EventId.parse(event.id, ends=False)
            self._read(event.data)

    def _read(self, data: bytes) -> None:
        assert not self.ends, "nothing follows the end"
        if data == b"[DONE]":
            self.ends += 1
            return
        chunk = orjson.loads(data)
        self.failed |= "error" in chunk
        for choice in chunk.get("choices", ()):
            self.text += choice["delta"].get("content") or ""


class MessageClient(ChunkClient):
    """Of Anthropic's API: it only appends, and comes back by the last id that it was told."""

    def hear(self, data: bytes) -> None:
        for event in events_of(data):
            if event.id is not None:
                self.last = EventId.parse(event.id, ends=False)
            told = orjson.loads(event.data)
            assert not self.ends, "nothing follows the end"
            self.ends += told["type"] == "message_stop"
            self.failed |= told["type"] == "error"
            if told["type"] == "content_block_delta":
                self.text += told["delta"]["text"]


class Kind(NamedTuple):
    """One encoder with its client."""

    name: str
    encoder: Callable[[ResponseStream, ResumePoint], LogEncoder]
    client: Callable[[], Client]
    appends: bool = False
    """Whether its clients can't be told that text is replaced, and hear an error instead."""
    typed: bool = False
    """Whether its clients are given parts."""
    ids: bool = True
    """Whether its clients are told what they have, and so can come back."""


class TextClient(ChunkClient):
    """Of docs/adding-a-protocol.md. Its events have no ids: it doesn't come back."""

    def hear(self, data: bytes) -> None:
        self.failed |= data.startswith(b"event: error")
        self.ends += data.startswith(b"event: end")
        if data.startswith(b"data: "):
            self.text += orjson.loads(data[6:])


@dataclass
class ResponsesClient(ChunkClient):
    """Of OpenAI's Responses API: it comes back with the number of the last event."""

    number: int = NOTHING
    status: str = ""

    def hear(self, data: bytes) -> None:
        for event in events_of(data):
            told = orjson.loads(event.data)
            assert event.id == (None if told["type"] == "error" else str(told["sequence_number"]))
            self._read_event(told)

    def _read_event(self, told: dict[str, Any]) -> None:
        assert not self.ends, "nothing follows the end"
        if told["type"] != "error":
            assert told["sequence_number"] > self.number, "numbers grow"
        self.number = told["sequence_number"]
        if told["type"] == "response.output_text.delta":
            self.text += told["delta"]
            known = resume_index_of(self.number)
            self.last = EventId(known.last_index, known.epoch)
        if told["type"] in _LAST_EVENTS:
            self.ends += 1
            self.status = told.get("response", {}).get("status", "")
            self.failed |= told["type"] in ("response.failed", "error")


_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class UIChunkClient(ChunkClient):
    """Of AI SDK, with a cursor: the parts of a step, which can be reset."""

    parts: dict[str, str] = field(default_factory=dict)

    def _read(self, data: bytes) -> None:
        assert not self.ends, "nothing follows the end"
        if data == b"[DONE]":
            self.ends += not self.failed
            return
        chunk = orjson.loads(data)
        if chunk["type"] == "text-start":
            assert chunk["id"] not in self.parts
            self.parts[chunk["id"]] = ""
        elif chunk["type"] == "text-delta":
            self.parts[chunk["id"]] += chunk["delta"]
        elif chunk["type"] == "reset-step":
            self.parts.clear()
        self.failed |= chunk["type"] == "error"
        self.text = "".join(self.parts.values())


@dataclass
class AgUiClient(ChunkClient):
    """Of AG-UI: messages that are open until they end, and snapshots of all of them."""

    open: set[str] = field(default_factory=set)

    def _read(self, data: bytes) -> None:
        assert not self.ends, "nothing follows the end"
        event = orjson.loads(data)
        match event["type"]:
            case "RUN_STARTED":
                self.open.clear()
            case "TEXT_MESSAGE_START":
                self.open.add(event["messageId"])
            case "TEXT_MESSAGE_CONTENT":
                assert event["messageId"] in self.open
                self.text += event["delta"]
            case "TEXT_MESSAGE_END":
                self.open.remove(event["messageId"])
            case "MESSAGES_SNAPSHOT":
                self.text = "".join(message["content"] for message in event["messages"])
            case "RUN_FINISHED":
                assert not self.open
                self.ends += 1
            case "RUN_ERROR":
                self.failed = True


def _ui_chunks(stream: ResponseStream, point: ResumePoint) -> BlockEncoder:
    return BlockEncoder(UIMessageChunks(stream.response_id), stream, point, MOST)


def _run_events(stream: ResponseStream, point: ResumePoint) -> BlockEncoder:
    said = slice_of(stream.log.entries[: point.next_index], 0).current
    events = AgUiEvents("thread", "run", stream.response_id, [], said)
    return BlockEncoder(events, stream, point, MOST)


def _chunks(stream: ResponseStream, point: ResumePoint) -> ChunkEncoder:
    objects = CompletionObjects(stream.response_id, 7, "demo", include_usage=False, tools=False)
    return ChunkEncoder(objects, stream, point, MOST)


PUBLIC = PublicResponse(f"rsp_{7:032x}", f"{9:040x}")


def _responses(stream: ResponseStream, point: ResumePoint) -> BlockEncoder:
    index = point.next_index - 1
    after = NOTHING if index < 0 else number(index, stream.log.epoch_at(index), Rank.DELTA)
    about = ResponseObject(PUBLIC, 7, {"model": "demo"})
    events = ResponseEvents(about, ServerSentEvents(), after)
    return BlockEncoder(events, stream, point, MOST, SealingBlocks)


def _messages(stream: ResponseStream, point: ResumePoint) -> BlockEncoder:
    objects = AnthropicObjects(stream.response_id, "demo", thinking=True)
    return BlockEncoder(objects, stream, point, MOST, SerialBlocks)


KINDS = (
    Kind(
        "frames", lambda stream, point: FrameEncoder(stream, point, MOST), FrameClient, typed=True
    ),
    Kind(
        "events",
        lambda stream, point: EventEncoder(stream, point, MOST, joined=True),
        EventClient,
        typed=True,
    ),
    Kind(
        "events of entries",
        lambda stream, point: EventEncoder(stream, point, MOST, joined=False),
        EventClient,
        typed=True,
    ),
    Kind(
        "stream",
        lambda stream, point: StreamEvents(stream, point, MOST, "7"),
        StreamClient,
        typed=True,
    ),
    Kind("chunks", _chunks, ChunkClient, appends=True),
    Kind("responses", _responses, ResponsesClient, appends=True),
    Kind("messages", _messages, MessageClient, appends=True),
    Kind("UI message chunks", _ui_chunks, UIChunkClient),
    Kind("AG-UI events", _run_events, AgUiClient),
    Kind(
        "text",
        lambda stream, point: TextEncoder(stream, point, MOST),
        TextClient,
        appends=True,
        ids=False,
    ),
)
"""A new encoder is added here."""
