"""The answer to a client's close frame (RFC 6455, 5.5.1 and 7.4)."""

from __future__ import annotations

_PROTOCOL_ERROR = 1002
_DEFINED = {1000, 1001, 1002, 1003, *range(1007, 1015)}
_FREE = range(3000, 5000)


def answer_to_close(payload: bytes) -> bytes:
    """The payload that answers one: its code, nothing where it has none, 1002 for an illegal one."""
    if not payload:
        return b""
    code = int.from_bytes(payload[:2], "big")
    legal = len(payload) >= 2 and (code in _DEFINED or code in _FREE)
    return (code if legal else _PROTOCOL_ERROR).to_bytes(2, "big")
