"""The close codes of a WebSocket, and the code that answers a close frame."""

from __future__ import annotations


class CloseCode:
    """The close codes of a WebSocket that Evenflow sends."""

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


# No frame has these (RFC 6455, 7.4.1): it had no code, or there was none.
NO_CODE = 1005
RESET = 1006
_KNOWN = {NO_CODE, RESET, *(code for code in vars(CloseCode).values() if isinstance(code, int))}


def code_label(code: int) -> str:
    """A close code as a label: clients may make up thousands."""
    return str(code) if code in _KNOWN else "other"


_DEFINED = {1000, 1001, 1002, 1003, *range(1007, 1015)}
_FREE = range(3000, 5000)


def answer_to_close(payload: bytes) -> int | None:
    """The code that answers a close frame: its own, None if it has none, 1002 if it is illegal."""
    if not payload:
        return None
    code = int.from_bytes(payload[:2], "big")
    legal = len(payload) >= 2 and (code in _DEFINED or code in _FREE)
    return code if legal else CloseCode.PROTOCOL
