"""What a WebSocket handshake has to be (RFC 6455, 4.2.1), and what is said where a request is something else."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode

from picows import WSUpgradeRequest

from stream_core.errors import EvenflowError, InvalidRequest, MethodNotAllowed, UpgradeRequired

_MOST_HEADERS = 128
_KEY_BYTES = 16
_VERSIONS = ("13", "8", "7")
_REQUEST_LINE = re.compile(rb"([!-~]+) ([!-~\x80-\xff]+) HTTP/1\.([01])")
# RFC 9110, 5.1 and 5.5; lines folded as in RFC 2616 are none of it.
_HEADERS = re.compile(rb"(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*)*")
_BODY = re.compile(rb"\r\n(?:transfer-encoding:|content-length:(?![ \t]*0[ \t]*(?:\r|\Z)))", re.IGNORECASE)
_HOST = re.compile(rb"\r\nhost:[ \t]*([^\r]*)", re.IGNORECASE)
# A name or an address, with or without a port.
_ADDRESS = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def head_fault(head: bytes, http_address: str) -> EvenflowError | None:
    """Why a request's head can't be that of a handshake, so that picows need not refuse it in words of its own.

    Args:
        http_address: where HTTP is served.
    """
    line, _, _ = head.partition(b"\r\n")
    request = _REQUEST_LINE.fullmatch(line)
    if request is None:
        return InvalidRequest("this is no HTTP/1.1 request", code="bad_request")
    method, path, minor = request.groups()
    if method != b"GET":
        return MethodNotAllowed(
            f"this port takes WebSocket handshakes alone, which are GETs, not "
            f"{method[:16].decode('ascii')} {path[:200].decode('latin-1')}; HTTP is served at {http_address}",
            code="method_not_allowed",
        )
    if minor == b"0":
        return InvalidRequest("a WebSocket handshake is a request of HTTP/1.1, not 1.0", code="bad_request")
    if head.count(b"\r\n") > _MOST_HEADERS:
        return InvalidRequest(f"a request may have {_MOST_HEADERS} headers, and this one has more", code="bad_request")
    if _HEADERS.fullmatch(head, len(line)) is None:
        return InvalidRequest("a header of this request is malformed", code="bad_request")
    if _BODY.search(head) is not None or head.lower().count(b"\r\ncontent-length:") > 1:
        return InvalidRequest("a WebSocket handshake has no body", code="bad_request")
    return None


def check_handshake(request: WSUpgradeRequest, http_address: str) -> None:
    """Read `Connection` and `Upgrade` as the lists that they are, and leave them as picows compares them: the one word each.

    Raises:
        UpgradeRequired: a plain request, or an unknown version of the protocol.
        InvalidRequest: the key is none.
    """
    headers = request.headers
    if not ("upgrade" in _tokens(request, "Connection") and "websocket" in _tokens(request, "Upgrade")):
        raise UpgradeRequired(
            f"this address takes a WebSocket handshake, and came without `Connection: Upgrade` and `Upgrade: websocket`; "
            f"HTTP is served at {http_address}",
            code="upgrade_required",
        )
    if headers.get("Sec-WebSocket-Version") not in _VERSIONS:
        raise UpgradeRequired(
            f"this server speaks version 13 of the WebSocket protocol; HTTP is served at {http_address}",
            code="upgrade_required",
        )
    if not _is_key(headers.get("Sec-WebSocket-Key", "")):
        raise InvalidRequest("Sec-WebSocket-Key must be 16 bytes in base64", code="bad_request")
    headers["Connection"], headers["Upgrade"] = "upgrade", "websocket"


def host_of(head: bytes) -> str:
    """What a head's `Host` says; empty without one."""
    found = _HOST.search(head)
    return found[1].decode("latin-1") if found else ""


def http_address(host: str, port: int) -> str:
    """Where HTTP is served for a client that called `host`; what is no address there is not repeated."""
    address = _ADDRESS.fullmatch(host.strip())
    return f"http://{address[1] if address else '127.0.0.1'}:{port}"


def _tokens(request: WSUpgradeRequest, name: str) -> set[str]:
    values = ",".join(request.headers.getall(name, ())).lower().split(",")
    return {value.strip(" \t") for value in values}


def _is_key(value: str) -> bool:
    try:
        return len(b64decode(value, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
