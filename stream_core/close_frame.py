"""Why a connection is closed, and the answer to a client's close frame (RFC 6455, 5.5.1, 7.4)."""

from __future__ import annotations


class CloseCode:
    """The close codes of the contract."""

    DONE = 1000
    GOING_AWAY = 1001
    PROTOCOL = 1002
    UNSUPPORTED_DATA = 1003
    INVALID_TEXT = 1007
    POLICY = 1008
    TOO_LARGE = 1009
    OVER_CAPACITY = 1013
    TOO_SLOW = 4008
    REPLACED = 4009
    HEARTBEAT_LOST = 4010


_DEFINED = {1000, 1001, 1002, 1003, *range(1007, 1015)}
_FREE = range(3000, 5000)


def answer_to_close(payload: bytes) -> int | None:
    """The code that answers one: its own, None where it has none, 1002 for an illegal one."""
    if not payload:
        return None
    code = int.from_bytes(payload[:2], "big")
    legal = len(payload) >= 2 and (code in _DEFINED or code in _FREE)
    return code if legal else CloseCode.PROTOCOL
