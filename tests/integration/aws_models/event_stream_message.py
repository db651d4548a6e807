"""One message of `application/vnd.amazon.eventstream`: prelude, headers, payload, each under its
checksum.
"""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Mapping

_STRING = 7


def event_stream_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """The message's bytes. Every header that these services send is a string."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack("!II", 12 + len(head) + len(payload) + 4, len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + payload
    return message + struct.pack("!I", crc32(message))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack("!B", len(name)) + name + struct.pack("!BH", _STRING, len(value)) + value
