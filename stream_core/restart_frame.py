"""The frame that says that text is replaced, the same on every transport."""

from __future__ import annotations

from stream_core.messages import ResponseRestarted
from stream_core.response_log import Restart
from stream_core.response_stream import ResponseStream


def restart_frame(stream: ResponseStream, restart: Restart, index: int) -> ResponseRestarted:
    """`chat.response.restarted` for the marker that stands at `index` of the stream's log."""
    return ResponseRestarted(
        type="chat.response.restarted",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        from_index=restart.from_index,
        attempt=restart.attempt,
        index=index,
        epoch=restart.epoch or stream.log.epoch_at(index),
    )
