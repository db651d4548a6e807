"""The WebSocket handshake. Its head is read and checked before picows sees it."""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from typing import cast

from picows import WSUpgradeRequest

from stream_core.protocol.errors import (
    EvenflowError,
    InvalidRequest,
    MethodNotAllowed,
    UpgradeRequired,
)

HttpAddress = Callable[[str], str]

_MOST_HEADERS = 128
_KEY_BYTES = 16
_VERSIONS = ("13", "8", "7")
_REQUEST_LINE = re.compile(rb"([!-~]+) ([!-~\x80-\xff]+) HTTP/1\.([01])")
# RFC 9110, 5.1 and 5.5: a name, a colon, and no control character but the tab.
# A folded line has no name.
_NAMELESS_LINE = re.compile(rb"\r\n(?![!#$%&'*+\-.^_`|~0-9A-Za-z]+:)")
_FIELD_BYTES = bytes([9, *range(32, 127), *range(128, 256)])
_NO_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*0[ \t]*(?:\r|\Z)")
_HOST = re.compile(rb"\r\nhost:[ \t]*([^\r]*)", re.IGNORECASE)
# A name or an address, with or without a port.
_ADDRESS = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def head_fault(head: bytes, http_of: HttpAddress) -> EvenflowError | None:
    """The error of a head that can't be a handshake's, in our shape, not picows'. None if it can.

    Args:
        http_of: returns the address of HTTP for a value of `Host`.
    """
    line, _, _ = head.partition(b"\r\n")
    request = _REQUEST_LINE.fullmatch(line)
    if request is None:
        return InvalidRequest("this is not an HTTP/1.1 request", code="bad_request")
    method, path, minor = request.groups()
    if method != b"GET":
        return MethodNotAllowed(
            "this port takes only WebSocket handshakes, which are GETs, not "
            f"{method[:16].decode('ascii')} {path[:200].decode('latin-1')}; "
            f"HTTP is served at {http_of(_host(head))}",
            code="method_not_allowed",
        )
    if minor == b"0":
        message = "a WebSocket handshake is a request of HTTP/1.1, not 1.0"
        return InvalidRequest(message, code="bad_request")
    return _headers_fault(head)


def check_handshake(request: WSUpgradeRequest, http_of: HttpAddress) -> None:
    """Check a handshake, and set `Connection` and `Upgrade` to the one word that picows expects.

    Raises:
        UpgradeRequired: it is a plain request, or an unknown version of the protocol.
        InvalidRequest: the key is wrong.
    """
    headers = request.headers
    upgrades = "upgrade" in _tokens(request, "Connection")
    if not (upgrades and "websocket" in _tokens(request, "Upgrade")):
        raise UpgradeRequired(
            "this is the address of a WebSocket, and the request has no "
            "`Connection: Upgrade` and `Upgrade: websocket`; "
            f"HTTP is served at {http_of(headers.get('Host', ''))}",
            code="upgrade_required",
        )
    if headers.get("Sec-WebSocket-Version") not in _VERSIONS:
        raise UpgradeRequired(
            "this server speaks version 13 of the WebSocket protocol; "
            f"HTTP is served at {http_of(headers.get('Host', ''))}",
            code="upgrade_required",
        )
    if not _is_key(headers.get("Sec-WebSocket-Key", "")):
        raise InvalidRequest("Sec-WebSocket-Key must be 16 bytes in base64", code="bad_request")
    headers["Connection"], headers["Upgrade"] = "upgrade", "websocket"


def http_address(host: str, port: int) -> str:
    """The address of HTTP for a client that called `host`. A wrong `host` is not repeated."""
    address = _ADDRESS.fullmatch(host.strip())
    return f"http://{address[1] if address else '127.0.0.1'}:{port}"


def _headers_fault(head: bytes) -> InvalidRequest | None:
    if head.count(b"\r\n") > _MOST_HEADERS:
        message = f"a request may have {_MOST_HEADERS} headers, and this one has more"
    elif _NAMELESS_LINE.search(head) or head.replace(b"\r\n", b"").translate(None, _FIELD_BYTES):
        message = "a header of this request is malformed"
    elif _has_body(head.lower()):
        message = "a WebSocket handshake has no body"
    else:
        return None
    return InvalidRequest(message, code="bad_request")


def _host(head: bytes) -> str:
    found = _HOST.search(head)
    return found[1].decode("latin-1") if found else ""


def _has_body(head: bytes) -> bool:
    if b"\r\ntransfer-encoding:" in head:
        return True
    lengths = head.count(b"\r\ncontent-length:")
    return lengths > 1 or (lengths == 1 and _NO_LENGTH.search(head) is None)


def _tokens(request: WSUpgradeRequest, name: str) -> set[str]:
    values = ",".join(request.headers.getall(name, ())).lower().split(",")
    return {value.strip(" \t") for value in values}


def _is_key(value: str) -> bool:
    try:
        return len(b64decode(value, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


_END_OF_HEAD = b"\r\n\r\n"


class HeadFirst(asyncio.BufferedProtocol):
    """Reads the first head of a connection, and answers it or gives the connection to `following`.

    Bytes are read into the buffer of `following`. So its limits of a head's size and time hold, and
    nothing is copied. Once it has the connection, this object is gone.

    Args:
        following: the protocol for heads that are not refused.
        refusal: the answer to a head, without the empty line at its end. None: not refused.
    """

    __slots__ = ("_following", "_head", "_refusal", "_refused", "_transport", "_window")

    def __init__(
        self,
        following: asyncio.BufferedProtocol,
        refusal: Callable[[bytes], bytes | None],
    ) -> None:
        self._following = following
        self._refusal = refusal
        self._head = bytearray()
        self._refused = False
        self._transport: asyncio.Transport
        self._window: memoryview

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection was accepted."""
        self._transport = cast("asyncio.Transport", transport)
        self._following.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection ended before its head was complete, or after the answer."""
        self._following.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        self._window = memoryview(self._following.get_buffer(sizehint))
        return self._window

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` bytes have come."""
        if self._refused:
            # A socket that is closed with unread bytes is reset, which may lose the answer.
            return  # so the client closes, or the time for handshakes ends
        self._head += self._window[:nbytes]
        end = self._head.find(_END_OF_HEAD)
        if end >= 0:
            answer = self._refusal(bytes(self._head[:end]))
            if answer is not None:
                self._refused = True
                self._transport.write(answer)
                self._transport.write_eof()
                return
            self._transport.set_protocol(self._following)
        self._following.buffer_updated(nbytes)
