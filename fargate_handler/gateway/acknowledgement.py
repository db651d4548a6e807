"""What a client says that its user really has."""

from __future__ import annotations

from stream_core.errors import InvalidRequest
from stream_core.response_stream import ResponseStream


def acknowledge(stream: ResponseStream, index: int) -> int:
    """The client has everything up to `index`; returns how many deltas that adds.

    Raises:
        InvalidRequest: the response has no such index.
    """
    last_index = stream.log.next_index - 1
    if index <= last_index:
        return stream.acknowledge(index)
    if stream.epoch > 1 or stream.via != "owner":
        return 0  # what it had from an earlier owner is not all on record
    raise InvalidRequest(
        f"`index` is {index}, but the response's last index is {last_index}", code="invalid_field", param="index"
    )
