"""Limits the log lines of a kind a second. The next line says how many were left out."""

from __future__ import annotations

EACH = {"each": True}
"""`extra` of a line without a limit: it has information of its own, and no client can cause it."""

_SECONDS = 1.0
_MOST_KINDS = 64
_OTHER = ""
_NEVER = (float("-inf"), 0, 0)


class LogRate:
    """Admits one line a second of each kind, unless a caller allows more.

    Kinds are limited too, since one may contain a text of a client. While there are too many, all
    new kinds count as one: at most 65 lines a second are admitted. The next line of that kind also
    counts the lines left out of dropped kinds.
    """

    def __init__(self) -> None:
        # By kind: when its second began, how many were admitted in it, and how many were left out
        # since the last one that was.
        self._kinds: dict[str, tuple[float, int, int]] = {}

    def admit(self, kind: str, now: float, most: int = 1) -> int | None:
        """Admit or leave out one line.

        Args:
            now: seconds.
            most: the lines of this kind a second.

        Returns:
            How many lines of this kind were left out since the last one. None: leave this one out.
        """
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            self._forget_old(now)
            if len(self._kinds) >= _MOST_KINDS:
                kind = _OTHER
        began_at, admitted, left_out = self._kinds.get(kind, _NEVER)
        if now - began_at >= _SECONDS:
            began_at, admitted = now, 0
        if admitted >= most:
            self._kinds[kind] = began_at, admitted, left_out + 1
            return None
        self._kinds[kind] = began_at, admitted + 1, 0
        return left_out

    def _forget_old(self, now: float) -> None:
        old = [kind for kind, counts in self._kinds.items() if now - counts[0] >= _SECONDS]
        forgotten = sum(self._kinds.pop(kind)[2] for kind in old)
        if forgotten:
            began_at, admitted, left_out = self._kinds.get(_OTHER, _NEVER)
            self._kinds[_OTHER] = began_at, admitted, left_out + forgotten
