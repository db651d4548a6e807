"""The WebSocket handshake. Its head is read and checked before picows sees it."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable

from picows import WSUpgradeRequest

from evenflow.stream_core.base.errors import (
    EvenflowError,
    HeadTooLarge,
    InvalidRequest,
    UpgradeRequired,
)

LONGEST_HEAD = 16_384
"""In bytes. picows takes none that is as long."""

_MOST_HEADERS = 128
_KEY_BYTES = 16
_VERSIONS = ("13", "8", "7")
_REQUEST_LINE = re.compile(rb"GET [!-~\x80-\xff]+ HTTP/1\.1")
# RFC 9110, 5.1 and 5.5: a name, a colon, and no control character but the tab.
# A folded line has no name.
_NAMELESS_LINE = re.compile(rb"\r\n(?![!#$%&'*+\-.^_`|~0-9A-Za-z]+:)")
_FIELD_BYTES = bytes([9, *range(32, 127), *range(128, 256)])
_NO_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*0[ \t]*(?:\r|\Z)")


def head_fault(head: bytes) -> EvenflowError | None:
    """The error of a head that can't be a handshake's, in our shape, not picows'. None if it can.

    Args:
        head: a request's, without the empty line at its end.
    """
    line, _, _ = head.partition(b"\r\n")
    if _REQUEST_LINE.fullmatch(line) is None:
        message = "a WebSocket handshake is a GET of HTTP/1.1, and this request is not"
    elif len(head) >= LONGEST_HEAD:
        return HeadTooLarge(
            f"the head of this WebSocket handshake has {LONGEST_HEAD} bytes or more; nothing was "
            "accepted. Send fewer cookies, or a shorter token",
            code="head_too_large",
        )
    elif head.count(b"\r\n") > _MOST_HEADERS:
        message = f"a request may have {_MOST_HEADERS} headers, and this one has more"
    elif _NAMELESS_LINE.search(head) or head.replace(b"\r\n", b"").translate(None, _FIELD_BYTES):
        message = "a header of this request is malformed"
    elif _has_body(head.lower()):
        message = "a WebSocket handshake has no body"
    else:
        return None
    return InvalidRequest(message, code="bad_request")


def check_handshake(request: WSUpgradeRequest) -> None:
    """Check a handshake, and set `Connection` and `Upgrade` to the one word that picows expects.

    Raises:
        UpgradeRequired: it is a plain request, or an unknown version of the protocol.
        InvalidRequest: the key is wrong.
    """
    headers = request.headers
    if not asks_for_upgrade(headers.getall("Connection", ()), headers.getall("Upgrade", ())):
        raise no_upgrade()
    if headers.get("Sec-WebSocket-Version") not in _VERSIONS:
        raise UpgradeRequired(
            "this server speaks version 13 of the WebSocket protocol", code="upgrade_required"
        )
    if not _is_key(headers.get("Sec-WebSocket-Key", "")):
        raise InvalidRequest("Sec-WebSocket-Key must be 16 bytes in base64", code="bad_request")
    headers["Connection"], headers["Upgrade"] = "upgrade", "websocket"


def asks_for_upgrade(connection: Iterable[str], upgrade: Iterable[str]) -> bool:
    """Whether these values of `Connection` and `Upgrade`, which are lists, ask for a WebSocket."""
    return "upgrade" in _tokens(connection) and "websocket" in _tokens(upgrade)


def no_upgrade() -> UpgradeRequired:
    """The error of a plain request for a WebSocket's path."""
    return UpgradeRequired(
        "this is the address of a WebSocket, and the request has no `Connection: Upgrade` and "
        "`Upgrade: websocket`",
        code="upgrade_required",
    )


def _has_body(head: bytes) -> bool:
    if b"\r\ntransfer-encoding:" in head:
        return True
    lengths = head.count(b"\r\ncontent-length:")
    return lengths > 1 or (lengths == 1 and _NO_LENGTH.search(head) is None)


def _tokens(values: Iterable[str]) -> set[str]:
    return {value.strip(" \t") for value in ",".join(values).lower().split(",")}


def _is_key(value: str) -> bool:
    try:
        return len(b64decode(value, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
