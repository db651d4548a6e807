"""The most memory that a handler can use, whatever its readers do.

docs/limits.md states these figures, and tests/integration/test_memory_of_stalled_readers.py checks
them.
"""

from __future__ import annotations

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.shares import QUARTER, with_those_for_others
from evenflow.stream_core.log.folded_entries import PIECE_DELTAS

KIBIBYTE = 1_024
MEBIBYTE = 1_048_576

PROCESS_BYTES = 128 * MEBIBYTE
"""A handler without readers: interpreter, libraries, AWS' SDK."""
WEBSOCKET_BYTES = 24 * KIBIBYTE
"""A WebSocket without its outgoing data. An idle one takes 8 KiB."""
ASKING_BYTES = 64 * KIBIBYTE
"""The most replies to a client's frames that wait while it does not read. It is disconnected
then."""
READ_FACTOR = 2.5
"""The read buffer doubles when it is nine tenths full: by part of a frame and the next read."""
READ_AHEAD_BYTES = 16 * KIBIBYTE
"""While more of a body waits, its connection is not read. That holds for requests of clients and
answers of models.
"""
MODEL_READ_BYTES = 32 * KIBIBYTE
"""The part of a model's answer in the kernel, and in one read."""
EVENT_STREAM_BYTES = 48 * KIBIBYTE
"""An event stream without its outgoing data."""
CHARACTER_BYTES = 6
"""The most bytes that a character takes in JSON. A letter takes one."""
LONGEST_DELTA = 4_096
"""Characters of a delta. A frame has at least one delta, whatever `frame_characters` is."""
DELTA_BYTES = 72
"""A delta in a log, without its text."""
PART_OBJECT_BYTES = 80
"""A part in a log, beyond a delta and its count in the log's size."""
RUN_BYTES = 128
"""A run of parts of an ended response that differ only in their text."""
CONVERSATION_BYTES = KIBIBYTE
"""A conversation without messages."""
MESSAGE_BYTES = 384
"""A message in a conversation: its id, and that of its response."""
EXCHANGE_BYTES = 384
"""A message and its answer in a history, without their text, which is UTF-8."""
GENERATION_BYTES = 8 * KIBIBYTE
"""A message that is answered or queued, without any text."""
ENDED_RESPONSE_BYTES = 5 * KIBIBYTE // 2
"""An ended response without its entries, which are folded: their text, and a byte for each."""
PIECE_BYTES = 48
"""Such a piece, without its text."""
TEXT_FACTOR = 4
"""The most bytes of a byte of text in a log: four in a delta with an emoji, otherwise one."""


def ended_response_bytes(text_bytes: int, deltas: int, runs: int = 1) -> int:
    """The bytes of an ended response with `text_bytes`, `deltas` and `runs` in its folded log."""
    pieces = -(-deltas // PIECE_DELTAS)
    folded = deltas + pieces * PIECE_BYTES + (runs - 1) * RUN_BYTES
    return ENDED_RESPONSE_BYTES + text_bytes + folded


def memory_bound(
    limits: Limits,
    *,
    websockets: int = 0,
    event_streams: int = 0,
    deltas: int = 0,
    text_bytes: int = 0,
) -> int:
    """The most bytes of a handler with these logs, and readers that never read."""
    readers = websockets * websocket_bound(limits) + event_streams * event_stream_bound(limits)
    return PROCESS_BYTES + readers + deltas * DELTA_BYTES + text_bytes * TEXT_FACTOR


def bounds(limits: Limits) -> dict[str, int]:
    """Bytes of a handler whose limits are all reached, by limit. `""`: memory without a limit."""
    return {
        "": PROCESS_BYTES,
        "connections_per_node": with_those_for_others(limits.connections_per_node)
        * WEBSOCKET_BYTES,
        "requests_per_node": with_those_for_others(limits.requests_per_node) * EVENT_STREAM_BYTES,
        "bodies_per_node": limits.bodies_per_node * (READ_AHEAD_BYTES + limits.read_buffer_bytes),
        "generations_per_node": with_those_for_others(limits.generations_per_node, QUARTER)
        * (READ_AHEAD_BYTES + MODEL_READ_BYTES),
        "requests_held_bytes": limits.requests_held_bytes,
        "conversations_held_bytes": limits.conversations_held_bytes,
        "running_held_bytes": limits.running_held_bytes,
        "responses_held_bytes": limits.responses_held_bytes,
        "unsent_held_bytes": limits.unsent_held_bytes,
    }


def limits_bound(limits: Limits) -> int:
    """Bytes of a handler whose limits are all reached."""
    return sum(bounds(limits).values())


def websocket_bound(limits: Limits) -> int:
    """Bytes of a WebSocket that does not read: its own, and the frame that waits for its socket."""
    return WEBSOCKET_BYTES + _frame_bound(limits)


def sending_bound(limits: Limits) -> int:
    """More bytes of a WebSocket that sends as fast as it can. A frame is at most two messages."""
    return int(READ_FACTOR * (2 * limits.message_bytes + limits.read_buffer_bytes))


def event_stream_bound(limits: Limits) -> int:
    """Bytes of an event stream that does not read: its own, and what waits for its socket."""
    return EVENT_STREAM_BYTES + _frame_bound(limits)


def _frame_bound(limits: Limits) -> int:
    return max(limits.frame_characters, LONGEST_DELTA) * CHARACTER_BYTES
