"""How many lines of a kind are logged: one a second, and the next one says how many were not."""

from __future__ import annotations

EACH = {"each": True}
"""`extra` of a line that is logged however many there are of its kind: it says what nothing else
says, and nobody outside can cause it.
"""

_SECONDS = 1.0
_MOST_KINDS = 64
_OTHER = ""


class LogRate:
    """Admits one line a second of each kind.

    Kinds are bounded too, since a text of somebody else's may be part of one. While there are too
    many, all new ones are one kind. So no more than 65 lines a second are admitted.
    """

    def __init__(self) -> None:
        # By kind: when its last line was admitted, and how many were left out since.
        self._kinds: dict[str, tuple[float, int]] = {}

    def admit(self, kind: str, now: float) -> int | None:
        """Ask for one line.

        Args:
            now: seconds.

        Returns:
            How many lines of this kind were left out since the last one. None: leave this one out.
        """
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            self._forget_old(now)
            if len(self._kinds) >= _MOST_KINDS:
                kind = _OTHER
        admitted_at, left_out = self._kinds.get(kind, (float("-inf"), 0))
        if now - admitted_at < _SECONDS:
            self._kinds[kind] = admitted_at, left_out + 1
            return None
        self._kinds[kind] = now, 0
        return left_out

    def _forget_old(self, now: float) -> None:
        self._kinds = {
            kind: (admitted_at, left_out)
            for kind, (admitted_at, left_out) in self._kinds.items()
            if now - admitted_at < _SECONDS
        }
