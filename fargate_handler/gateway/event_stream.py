"""What all our streams of server-sent events have."""

from __future__ import annotations

EVENT_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
STILL_HERE = b": still here\n"
"""The comment of a silence. No empty line behind it: parsers that keep the last `id:`, OpenAI's for Python and httpx-sse
among them, take that for an event without data."""
