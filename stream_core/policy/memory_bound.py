"""How much memory a handler can use, whatever its readers do.

docs/limits.md states these figures, and tests/integration/test_memory_of_stalled_readers.py checks
them.
"""

from __future__ import annotations

from stream_core.policy.limits import Limits
from stream_core.policy.shares import with_those_for_others

KIBIBYTE = 1_024
MEBIBYTE = 1_048_576

PROCESS_BYTES = 128 * MEBIBYTE
"""A handler without readers: interpreter, libraries, AWS' SDK."""
WEBSOCKET_BYTES = 24 * KIBIBYTE
"""A WebSocket without what it is sent. An idle one takes 8 KiB."""
ASKING_BYTES = 64 * KIBIBYTE
"""Answers to a client's own frames that can wait when it doesn't read. Then it is disconnected."""
READ_FACTOR = 2.5
"""The read buffer doubles when it is nine tenths full: by part of a frame and the next read."""
EVENT_STREAM_BYTES = 48 * KIBIBYTE
"""An event stream without what it is sent."""
CHARACTER_BYTES = 6
"""The most bytes that a character takes in JSON. A letter takes one."""
LONGEST_DELTA = 4_096
"""Characters of a delta. A frame has at least one delta, whatever `frame_characters` is."""
DELTA_BYTES = 72
"""A delta in a log, without its text."""
ENDED_RESPONSE_BYTES = KIBIBYTE
"""An ended response without its entries, which are folded: their text, and a byte for each."""
TEXT_FACTOR = 4
"""The most bytes of a byte of text in a log: four in a delta with an emoji, otherwise one."""


def memory_bound(
    limits: Limits,
    *,
    websockets: int = 0,
    event_streams: int = 0,
    deltas: int = 0,
    text_bytes: int = 0,
) -> int:
    """The most bytes of a handler with so many readers that never read, and such logs."""
    readers = websockets * websocket_bound(limits) + event_streams * event_stream_bound(limits)
    return PROCESS_BYTES + readers + deltas * DELTA_BYTES + text_bytes * TEXT_FACTOR


def limits_bound(limits: Limits) -> int:
    """Bytes of a handler whose limits are all reached and whose readers never read.

    That is all readers and requests that its limits allow, and the text of ended answers. A byte of
    text counts as one. With an emoji in each delta it takes up to `TEXT_FACTOR`.
    """
    readers = memory_bound(
        limits,
        websockets=with_those_for_others(limits.connections_per_node),
        event_streams=with_those_for_others(limits.requests_per_node),
    )
    return readers + limits.responses_held_bytes + limits.requests_held_bytes


def websocket_bound(limits: Limits) -> int:
    """Bytes of a WebSocket that doesn't read: itself, and the frame that its socket didn't take."""
    return WEBSOCKET_BYTES + _frame_bound(limits)


def sending_bound(limits: Limits) -> int:
    """More bytes of a WebSocket that sends as fast as it can. A frame is at most two messages."""
    return int(READ_FACTOR * (2 * limits.message_bytes + limits.read_buffer_bytes))


def event_stream_bound(limits: Limits) -> int:
    """Bytes of an event stream that doesn't read: itself, and what its socket didn't take."""
    return EVENT_STREAM_BYTES + _frame_bound(limits)


def _frame_bound(limits: Limits) -> int:
    return max(limits.frame_characters, LONGEST_DELTA) * CHARACTER_BYTES
