"""A range of a response's entries, which shared caches may keep for a while."""

from __future__ import annotations

from orjson import dumps

from evenflow.stream_core.base.errors import InvalidRequest, NotFound
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import Cursor
from evenflow.stream_core.protocols.evenflow.entry_encoders import V1Encoder
from evenflow.stream_core.protocols.evenflow.response_frames import restart_frame

MOST_ENTRIES = 1_024
"""The most entries of a range."""


def entry_range(stream: ResponseStream, epoch: int, first: int, last: int, most: int) -> bytes:
    """The entries `first` to `last` as JSON: frames of `evenflow.v1`, joined.

    The entries of the owners up to an epoch never change, since an owner writes an index once. Only
    a content filter may take them back. A later owner may have others under the same indexes.

    Args:
        epoch: of the last owner with entries in the range.
        most: the most characters in one frame.

    Raises:
        InvalidRequest: it is not a range, or a too long one.
        NotFound: not all of the entries are there, or not under this epoch.
    """
    if not first <= last < first + MOST_ENTRIES:
        raise InvalidRequest(
            f"a range is first-last, at most {MOST_ENTRIES} entries; ask for less at a time",
            code="invalid_field",
            param="last",
        )
    log = stream.log
    later = log.first_index_after(epoch)
    of_later_owners = later is not None and last >= later
    if last >= log.next_index or of_later_owners or epoch > log.epoch_at(log.next_index):
        raise NotFound(
            f"not all entries from {first} to {last} are there under epoch {epoch}; read the "
            f"response live after the ones that you have",
            code="entries_not_found",
        )
    cursor = Cursor(log, first, most)
    deltas = V1Encoder(stream.channel.session, stream.response_id)
    frames = []
    while (taken := cursor.next_entry(last + 1)) is not None:
        if isinstance(taken, str):
            frames.append(deltas.delta(taken, cursor.first, cursor.last))
        elif isinstance(taken, Part):
            frames.append(deltas.event(taken, cursor.first, cursor.last))
        else:
            frames.append(restart_frame(stream, taken, cursor.last).to_json())
    return b'{"response_id":%b,"frames":[%b]}' % (dumps(stream.response_id), b",".join(frames))
