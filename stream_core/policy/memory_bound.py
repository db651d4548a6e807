"""What the memory of a handler may grow to, whatever its readers do.

docs/limits.md states it; tests/integration/test_memory_of_stalled_readers.py holds a handler to it.
"""

from __future__ import annotations

from stream_core.policy.limits import Limits

KIBIBYTE = 1_024
MEBIBYTE = 1_048_576

PROCESS_BYTES = 128 * MEBIBYTE
"""The handler without anybody: interpreter, libraries, AWS' SDK."""
WEBSOCKET_BYTES = 24 * KIBIBYTE
"""A WebSocket without what it is being sent. An idle one has 8 KiB."""
ASKING_BYTES = 64 * KIBIBYTE
"""What one that doesn't read can have waiting of answers to its own frames, before it is let go."""
READ_FACTOR = 2.5
"""The room for what a client sends is doubled when it is nine tenths full: with a part of a frame and the next read."""
EVENT_STREAM_BYTES = 48 * KIBIBYTE
"""An event stream likewise."""
CHARACTER_BYTES = 6
"""The longest that JSON makes of a character; of a letter it makes one byte."""
LONGEST_DELTA = 4_096
"""Characters. A frame has at least one delta, whatever `frame_characters` is."""
DELTA_BYTES = 72
"""A delta in a log, without its text."""
TEXT_FACTOR = 4
"""What a byte of text costs there at most: in a delta with one emoji each letter takes four. Otherwise it is one."""


def memory_bound(
    limits: Limits, *, websockets: int = 0, event_streams: int = 0, deltas: int = 0, text_bytes: int = 0
) -> int:
    """Bytes that a handler has at most with so many readers that never read, and so many deltas and so much text in its logs."""
    readers = websockets * websocket_bound(limits) + event_streams * event_stream_bound(limits)
    return PROCESS_BYTES + readers + deltas * DELTA_BYTES + text_bytes * TEXT_FACTOR


def limits_bound(limits: Limits) -> int:
    """Bytes of a handler with all the readers and requests that its limits allow, and the text of ended answers.

    No reader reads.

    A byte of text is taken as one: text with emoji in each delta takes up to `TEXT_FACTOR`.
    """
    readers = memory_bound(limits, websockets=limits.connections_per_node, event_streams=limits.requests_per_node)
    return readers + limits.responses_held_bytes + limits.requests_held_bytes


def websocket_bound(limits: Limits) -> int:
    """Bytes of a WebSocket that doesn't read: itself, and the one frame that its socket didn't take."""
    return WEBSOCKET_BYTES + _frame_bound(limits)


def sending_bound(limits: Limits) -> int:
    """Bytes more of a WebSocket whose client sends as fast as it can. The largest frame that is read is twice a message."""
    return int(READ_FACTOR * (2 * limits.message_bytes + limits.read_buffer_bytes))


def event_stream_bound(limits: Limits) -> int:
    """Bytes of an event stream that doesn't read: itself, one write, and the HTTP library's copy of that."""
    return EVENT_STREAM_BYTES + 2 * _frame_bound(limits)


def _frame_bound(limits: Limits) -> int:
    return max(limits.frame_characters, LONGEST_DELTA) * CHARACTER_BYTES
